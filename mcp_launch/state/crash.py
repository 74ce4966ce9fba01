"""Report a bug of our own: one line for the user, and a file to send to the maintainers."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM, ENOSPC

from mcp_launch import __version__, state
from mcp_launch.errors import LaunchError, OutOfResources

# The system has run out of something. That is not a bug, and not for the maintainers.
_EXHAUSTED = {EAGAIN, EMFILE, ENFILE, ENOMEM, ENOSPC}


def describe(error: Exception, *, is_launch: bool = True) -> LaunchError:
    """Write a report and return the error to show; it holds no variables, which may be secret."""
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return OutOfResources(error)
    # Not platform.platform(), which starts a process.
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    text = "\n".join(
        [
            f"mcp-launch {__version__}, Python {platform.python_version()}, {system}",
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
        where = "make the home directory writable and run it again to get a report"
    return LaunchError(
        f"a bug in mcp-launch: {type(error).__name__}: {error}",
        fix=f"{where}; until it is fixed, remove mcp-launch from this entry"
        if is_launch
        else where,
    )


def _list_options() -> str:
    """Return the names of our options; values and the server's arguments may be secret."""
    own = []
    for word in sys.argv[1:]:
        if word == "--":
            break
        if word.startswith("--"):
            own.append(word.partition("=")[0])
    return " ".join(own)
