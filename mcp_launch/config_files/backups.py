"""Copies of other people's files from before we changed them.

They contain whatever the files contain, keys included, so they are kept in our own state
directory, where only the user can read them, and never beside the file: a copy in a work tree
is one `git add -A` away from being published. A copy shows the file without any change of
ours, and is removed once the file has none left.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat

from mcp_launch import state
from mcp_launch.errors import FileRefused

_DIRECTORY = "backups"

NAME = re.compile(r"[0-9a-f]{16}-.+", re.DOTALL)

# How much of a file's name goes into the name of its copy; a name has at most 255 bytes.
_LONGEST = 60


def find_directory(directory: str) -> str:
    """Return the directory for copies, below our state directory."""
    return os.path.join(directory, _DIRECTORY)


def name_copy(directory: str, path: str) -> str:
    """Return the path of a file's copy; there is one for each path."""
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return os.path.join(find_directory(directory), f"{digest}-{os.path.basename(path)[-_LONGEST:]}")


def keep(directory: str, path: str, text: str, *, is_untouched: bool) -> str:
    """Write a copy of a file and return its path; "" if there is one already.

    `is_untouched` means that the text has no change of ours. Then an older copy is replaced: it
    is left over from before somebody else undid our changes.

    Raises:
        FileRefused: The directory for copies does not belong to the user.
        OSError: The copy cannot be written.

    """
    copy = name_copy(directory, path)
    if os.path.lexists(copy) and not is_untouched:
        return ""
    _make_directory(find_directory(directory))
    state.write_whole(copy, text.encode(), is_lasting=True)
    return copy


def drop(directory: str, path: str) -> str:
    """Remove the copy of a file and return its path; "" if there was none."""
    copy = name_copy(directory, path)
    try:
        os.unlink(copy)
    except OSError:
        return ""
    return copy


def list_copies(directory: str) -> list[str]:
    """Return the paths of all copies."""
    where = find_directory(directory)
    try:
        names = os.listdir(where)
    except OSError:
        return []  # there are none
    found = [name for name in names if NAME.fullmatch(name)]
    return [os.path.join(where, name) for name in sorted(found)]


def _make_directory(directory: str) -> None:
    state.make_private(directory)
    status = os.lstat(directory)
    is_own = state.is_users(status)
    if not stat.S_ISDIR(status.st_mode) or not is_own:
        raise FileRefused(
            f"{directory} is not a directory that you own, so no copy can be kept there",
            fix=f"move {directory} away",
        )
    if stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
        os.chmod(directory, stat.S_IRWXU)
