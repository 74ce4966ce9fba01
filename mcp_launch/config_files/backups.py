"""Copies of other people's files as they were before we changed them.

They hold whatever the files hold, keys included, so they are kept in our own state directory,
where only the user can read them, and never beside the file: a copy in a work tree is one
`git add -A` away from being published. A copy shows the file as it was when nothing of ours
was in it, and goes when nothing of ours is in it any more.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat

from mcp_launch import state
from mcp_launch.errors import FileRefused

_DIRECTORY = "backups"

# The name of a copy, and of one that an earlier version did not finish.
NAME = re.compile(r"[0-9a-f]{16}-.+|\.draft-[0-9a-f]{32}", re.DOTALL)

# How much of a file's own name is in its copy's; a name has 255 bytes at the most.
_LONGEST = 60


def find_directory(directory: str) -> str:
    """Return where copies are kept below our state directory."""
    return os.path.join(directory, _DIRECTORY)


def name_copy(directory: str, path: str) -> str:
    """Return where the copy of a file is; there is one for each path."""
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return os.path.join(find_directory(directory), f"{digest}-{os.path.basename(path)[-_LONGEST:]}")


def keep(directory: str, path: str, text: str, *, is_untouched: bool) -> str:
    """Keep a copy of a file and return where; nothing if there is one already.

    `is_untouched` says that nothing of ours is in the text: then an older copy is replaced,
    which was left from before somebody else took us out.

    Raises:
        FileRefused: The directory for copies is not the user's own.
        OSError: It cannot be written.

    """
    copy = name_copy(directory, path)
    if os.path.lexists(copy) and not is_untouched:
        return ""
    _make_directory(find_directory(directory))
    state.write_whole(copy, text.encode(), is_lasting=True)
    return copy


def drop(directory: str, path: str) -> str:
    """Remove the copy of a file and return where it was; nothing if there was none."""
    copy = name_copy(directory, path)
    try:
        os.unlink(copy)
    except OSError:
        return ""
    return copy


def list_copies(directory: str) -> list[str]:
    """Return every copy that there is."""
    where = find_directory(directory)
    try:
        names = os.listdir(where)
    except OSError:
        return []  # there are none
    found = [name for name in names if NAME.fullmatch(name) and not name.startswith(".")]
    return [os.path.join(where, name) for name in sorted(found)]


def _make_directory(directory: str) -> None:
    state.make_private(directory)
    status = os.lstat(directory)
    is_own = state.is_users(status)
    if not stat.S_ISDIR(status.st_mode) or not is_own:
        raise FileRefused(
            f"{directory} is not a directory of your own, so no copy can be kept there",
            fix=f"move {directory} away",
        )
    if stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
        os.chmod(directory, stat.S_IRWXU)
