"""One line on stderr for each decision, when somebody asked to see them.

Never the value of a secret: callers trace names and origins of what comes from the
user's environment or files, values only of what we found out ourselves.
"""

from __future__ import annotations

import os

_is_on = False


def turn_on() -> None:
    """Show every decision from here on."""
    global _is_on  # noqa: PLW0603  # one process, one launch, one switch
    _is_on = True


def note(text: str) -> None:
    """Tell one decision and its origin."""
    if _is_on:
        try:
            os.write(2, f"[mcp-launch] {text}\n".encode(errors="backslashreplace"))
        except OSError:
            pass  # nobody reads our stderr any more; the launch does not depend on it
