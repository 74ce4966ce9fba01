"""Read a file of our own, if it is ours: nobody else could have written it.

Leases and records are believed: processes are ended and profiles trusted for what they say.
So the file and its directory must belong to this user, and nobody else may write to them.
"""

from __future__ import annotations

import os
from stat import S_ISREG

OTHERS_CAN_WRITE = 0o022

# No lease and no record comes near it.
_TOO_LARGE = 16 << 20


def read(path: str) -> bytes | None:
    """Return a file's content; None if there is none, or somebody else may have written it."""
    if not hasattr(os, "geteuid"):
        return None  # Windows, where nothing is launched
    try:
        # Neither a link elsewhere nor a pipe that would have us wait.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode) or not is_own(status) or status.st_size > _TOO_LARGE:
            return None
        if not is_own_directory(os.path.dirname(path)):
            return None
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return None
    finally:
        os.close(fd)


def is_own_directory(path: str) -> bool:
    """Tell whether only this user can put files into a directory."""
    try:
        return is_own(os.stat(path))
    except OSError:
        return False


def is_own(status: os.stat_result) -> bool:
    """Tell whether something belongs to this user, and nobody else may write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & OTHERS_CAN_WRITE
