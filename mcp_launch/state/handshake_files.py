"""Where handshakes are kept, and how many: all that is needed to remove old ones."""

from __future__ import annotations

import os
import time

from mcp_launch import state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# More files are not kept, nor older ones.
_COUNT_LIMIT = 256
AGE_LIMIT = 30 * 86_400.0


def find_directory(environ: Mapping[str, str]) -> str:
    """Return the directory of all handshakes."""
    return f"{state.find_directory(environ)}/handshakes"


def prune(environ: Mapping[str, str]) -> None:
    """Remove the oldest files, if there are too many or they are too old."""
    directory = find_directory(environ)
    try:
        names = os.listdir(directory)
    except OSError:
        return
    paths = [f"{directory}/{name}" for name in names]
    aged = sorted(((read_age(path), path) for path in paths), reverse=True)
    excess = len(aged) - _COUNT_LIMIT
    for number, (age, path) in enumerate(aged):
        if number < excess or age > AGE_LIMIT:
            state.remove(path)


def read_age(path: str) -> float:
    """Return how long ago a file was written; 0 if it is not there."""
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0
