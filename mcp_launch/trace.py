"""One line for each decision: always in the launch's log, on stderr only with tracing on.

Never the value of a secret: for what comes from the user's environment or files, callers
trace only names and origins; they trace values only of what we found out ourselves.
"""

from __future__ import annotations

import os
from time import time as _now

from mcp_launch.errors import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Log(Protocol):
        """A place where decisions are recorded."""

        @property
        def descriptor(self) -> int:
            """Return the file descriptor of the log, or -1."""

        def note(self, text: str, moment: float | None = None) -> None:
            """Record one decision."""


_is_on = False
_is_kept = True
_log: Log | None = None
_kept: list[tuple[str, float]] = []  # until the log is opened, while the server boots


def turn_on() -> None:
    """Print every decision from now on to stderr."""
    global _is_on  # noqa: PLW0603  # one process, one launch, one switch
    _is_on = True


def note(text: str) -> None:
    """Record one decision with its origin, and print it if tracing is on."""
    record(text)
    if _is_on:
        try:
            os.write(2, f"[mcp-launch] {printable(text)}\n".encode(errors="backslashreplace"))
        except OSError:
            pass  # stderr is closed; the launch does not depend on it


def record(text: str) -> None:
    """Record a line in the log without printing it."""
    if _log is not None:
        _log.note(text)
    elif _is_kept:
        _kept.append((text, _now()))


def keep_nothing() -> None:
    """Drop the lines kept so far, and keep no later ones."""
    global _is_kept  # noqa: PLW0603  # see above
    _is_kept = False
    _kept.clear()


def list_descriptors() -> list[int]:
    """Return the file descriptors that logging needs."""
    return [_log.descriptor] if _log is not None and _log.descriptor >= 0 else []


def needs_log() -> bool:
    """Return whether lines are to be logged and no log is open yet."""
    return _is_kept and _log is None


def write_to(log: Log) -> None:
    """Write all lines to this log, including those kept so far."""
    global _log  # noqa: PLW0603  # one process, one launch, one log
    for text, moment in _kept:
        log.note(text, moment)
    _kept.clear()
    _log = log
