"""A fault of our own: one line for the person, and a file shaped as a bug report."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM, ENOSPC

from mcp_launch import __version__, state
from mcp_launch.errors import LaunchError

# Not our fault, and not for the maintainers.
_EXHAUSTED = {EAGAIN, EMFILE, ENFILE, ENOMEM, ENOSPC}


def describe(error: Exception, *, is_launch: bool = True) -> LaunchError:
    """Write the report and return what to tell. No variables in it: they may be secret."""
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return LaunchError(
            f"out of system resources: {error.strerror}",
            fix="raise the limit on open files for the host that starts it (ulimit -n 256)"
            if error.errno == EMFILE
            else "look at its limits (ulimit -a, df) and at what uses them up",
        )
    text = "\n".join(
        [
            f"mcp-launch {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}, options: {_list_options()}",
            "",
            "".join(traceback.format_exception(error)),
        ]
    )
    path = os.path.join(state.find_directory(os.environ), f"crash-{os.getpid()}.txt")
    where = f"send {path} to the maintainers"
    try:
        state.make_directory(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        where = "run it again with a writable home to get a report"
    return LaunchError(
        f"a fault in mcp-launch itself: {type(error).__name__}: {error}",
        fix=f"{where}; until it is mended, take mcp-launch out of this entry"
        if is_launch
        else where,
    )


def _list_options() -> str:
    """Return the names of our own options: their values, and the server's words, may be secret."""
    own = []
    for word in sys.argv[1:]:
        if word == "--":
            break
        if word.startswith("--"):
            own.append(word.partition("=")[0])
    return " ".join(own)
