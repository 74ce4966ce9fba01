"""Put another text into a file: by a draft that takes its place, or in place where it must stay.

A draft that a killed launcher left behind is removed later, on proof that it is ours and
nobody's any more.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from typing import TYPE_CHECKING

from mcp_launch import state

if TYPE_CHECKING:
    from io import FileIO

# A file that is to take another's place, as `state.write_whole` calls it: by the process that
# writes it, and by what nobody else would call a file of theirs.
_DRAFT = re.compile(r"\.mcp-launch-draft-([0-9]{1,10})-[0-9a-f]{32}")

# A draft is written in a moment; one this old whose process is gone was left behind.
_LEFT_BEHIND = 3600.0


def read(path: str) -> str:
    """Return a file's text, with its line ends."""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def write(path: str, before: str, after: str) -> int:
    """Write a file and return how many names it has; 0 if it has changed meanwhile."""
    status = os.stat(path)
    if status.st_nlink > 1:
        # Another file in its place would leave the other names with the old text.
        return status.st_nlink if _write_in_place(path, before, after) else 0
    is_written = state.write_whole(
        path,
        after.encode(),
        like=status,
        is_lasting=True,
        is_wanted=lambda: read(path) == before,
    )
    return 1 if is_written else 0


def _write_in_place(path: str, before: str, after: str) -> bool:
    """Write into a file itself, and put back what was there if that fails.

    There is a copy by now, should the machine stop in the middle of it.
    """
    old, new = before.encode(), after.encode()
    with open(path, "r+b", buffering=0) as file:
        if file.read() != old:
            return False
        try:
            if hasattr(os, "posix_fallocate"):
                # A full disk refuses here, where nothing is lost.
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


def sweep(path: str) -> None:
    """Remove the drafts that a killed one of us left beside a file, and nothing else."""
    directory = os.path.dirname(path)
    for name in os.listdir(directory):
        if is_abandoned(name) and _is_old(os.path.join(directory, name)):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))


def is_abandoned(name: str) -> bool:
    """Tell whether a file is called as a draft is, and whoever wrote it has ended."""
    found = _DRAFT.fullmatch(name)
    if not found:
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _is_old(draft: str) -> bool:
    """Tell whether a draft is a plain file of ours, and too old to be in the making."""
    try:
        status = os.lstat(draft)
    except OSError:
        return False
    is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    is_single = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return is_own and is_single and time.time() - status.st_mtime > _LEFT_BEHIND
