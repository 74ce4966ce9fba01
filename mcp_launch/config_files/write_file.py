"""Replace the text of a file by renaming a draft over it.

A draft that a killed launcher left behind is removed later, once it is proven to be ours and
unused.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time

from mcp_launch import state

# The name of a draft of `state.write_whole`: the pid of its writer, and enough randomness to be
# ours beyond doubt.
_DRAFT = re.compile(r"\.mcp-launch-draft-([0-9]{1,10})-[0-9a-f]{32}")

# A draft is written in a moment; one that is older than this, in seconds, and whose process is
# gone was left behind.
_LEFT_BEHIND = 3600.0


def read(path: str) -> str:
    """Return a file's text, with its line ends unchanged."""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def write(path: str, before: str, after: str) -> bool:
    """Write a file; return False if it has changed meanwhile."""
    return state.write_whole(
        path,
        after.encode(),
        like=os.stat(path),
        is_lasting=True,
        is_wanted=lambda: read(path) == before,
    )


def sweep(path: str) -> None:
    """Remove the drafts that a killed launcher left beside a file, and nothing else."""
    directory = os.path.dirname(path)
    for name in os.listdir(directory):
        if is_abandoned(name) and _is_old(os.path.join(directory, name)):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))


def is_abandoned(name: str) -> bool:
    """Return whether a file has the name of a draft, and its writer has ended."""
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
    """Return whether a draft is a plain file of ours, and too old to be in use."""
    try:
        status = os.lstat(draft)
    except OSError:
        return False
    is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    is_single = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return is_own and is_single and time.time() - status.st_mtime > _LEFT_BEHIND
