"""One line for each decision: in the launch's log always, on stderr when somebody asked.

Never the value of a secret: callers trace names and origins of what comes from the
user's environment or files, values only of what we found out ourselves.
"""

from __future__ import annotations

import os
from time import time as _now

from mcp_launch.errors import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Log(Protocol):
        """Where decisions are kept."""

        @property
        def descriptor(self) -> int:
            """Return its file's, or -1."""

        def note(self, text: str, moment: float | None = None) -> None:
            """Keep one decision."""


_is_on = False
_is_kept = True
_log: Log | None = None
_kept: list[tuple[str, float]] = []  # until there is a log: one is opened while the server boots


def turn_on() -> None:
    """Show every decision from here on."""
    global _is_on  # noqa: PLW0603  # one process, one launch, one switch
    _is_on = True


def note(text: str) -> None:
    """Tell one decision and its origin."""
    record(text)
    if _is_on:
        try:
            os.write(2, f"[mcp-launch] {printable(text)}\n".encode(errors="backslashreplace"))
        except OSError:
            pass  # nobody reads our stderr any more; the launch does not depend on it


def record(text: str) -> None:
    """Keep a line for the log, and show it to nobody."""
    if _log is not None:
        _log.note(text)
    elif _is_kept:
        _kept.append((text, _now()))


def keep_nothing() -> None:
    """Keep no lines, neither these nor later ones."""
    global _is_kept  # noqa: PLW0603  # see above
    _is_kept = False
    _kept.clear()


def list_descriptors() -> list[int]:
    """Return what must stay open for lines to be kept."""
    return [_log.descriptor] if _log is not None and _log.descriptor >= 0 else []


def needs_log() -> bool:
    """Tell whether there are lines to keep, and nowhere to."""
    return _is_kept and _log is None


def write_to(log: Log) -> None:
    """Keep all lines here, those before now too."""
    global _log  # noqa: PLW0603  # one process, one launch, one log
    for text, moment in _kept:
        log.note(text, moment)
    _kept.clear()
    _log = log
