"""Replace the text of a file: by renaming a draft over it, or in place if it has hard links.

A draft is written beside the file, on the same disk, and renamed over it: readers see the old
text or the new one, never a part. A draft that a killed launcher left behind is removed later,
once it is proven to be ours and unused.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO

# The name of a draft: the pid of its writer, and enough randomness to be ours beyond doubt.
_DRAFT = re.compile(r"\.mcp-launch-draft-([0-9]{1,10})-[0-9a-f]{32}")

# A draft is written in a moment; one that is older than this, in seconds, and whose process is
# gone was left behind.
_LEFT_BEHIND = 3600.0


def read(path: str) -> str:
    """Return a file's text, with its line ends unchanged."""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def write(path: str, before: str, after: str) -> int:
    """Write a file and return its number of hard links; 0 if it has changed meanwhile."""
    status = os.stat(path)
    if status.st_nlink > 1:
        # A new file in its place would leave the other names with the old text.
        return status.st_nlink if _write_in_place(path, before, after) else 0
    name = _write_beside(path, after)
    try:
        if read(path) != before:
            return 0
        os.replace(name, path)
        name = ""
    finally:
        if name:
            os.unlink(name)
    return 1


def _write_in_place(path: str, before: str, after: str) -> bool:
    """Overwrite a file in place, and restore the old text if that fails.

    The caller has made a backup by now, in case the machine stops in the middle.
    """
    old, new = before.encode(), after.encode()
    with open(path, "r+b", buffering=0) as file:
        if file.read() != old:
            return False
        try:
            if hasattr(os, "posix_fallocate"):
                # A full disk fails here, before anything is lost.
                os.posix_fallocate(file.fileno(), 0, len(new))
            _overwrite(file, new)
        except OSError:
            _overwrite(file, old)
            raise
    return True


def _overwrite(file: FileIO, data: bytes) -> None:
    file.seek(0)
    while data:
        data = data[file.write(data) :]
    file.truncate()
    os.fsync(file.fileno())


def _write_beside(path: str, text: str) -> str:
    """Write a draft beside a file, with the file's owner and mode; return its path."""
    status = os.stat(path)
    draft = f".mcp-launch-draft-{os.getpid()}-{secrets.token_hex(16)}"
    name = os.path.join(os.path.dirname(path), draft)
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(fd, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if hasattr(os, "chown"):
            os.chown(name, status.st_uid, status.st_gid)
        os.chmod(name, status.st_mode & 0o7777)
    except BaseException:
        os.unlink(name)
        raise
    return name


def sweep(path: str) -> None:
    """Remove the drafts that a killed launcher left beside a file, and nothing else."""
    directory = os.path.dirname(path)
    for name in os.listdir(directory):
        found = _DRAFT.fullmatch(name)
        if found and _is_left_behind(os.path.join(directory, name), int(found[1])):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))


def _is_left_behind(draft: str, pid: int) -> bool:
    """Return whether a draft is proven to be ours and no longer in use."""
    try:
        status = os.lstat(draft)
    except OSError:
        return False
    is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    is_old = time.time() - status.st_mtime > _LEFT_BEHIND
    is_single = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if not (is_own and is_old and is_single):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
