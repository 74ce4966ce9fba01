"""Ask the user before anything is changed or ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.text import Text

from mcp_launch.errors import UsageError, printable

if TYPE_CHECKING:
    from rich.console import Console


def can_ask() -> bool:
    """Return whether there is a person who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def is_agreed(console: Console, question: str, *, is_sure: bool) -> bool:
    """Return whether the user agrees.

    Raises:
        UsageError: The user cannot be asked.

    """
    if is_sure:
        return True
    if not can_ask():
        raise UsageError(
            "nothing was changed: stdin is not a terminal, so you cannot be asked", fix="add --yes"
        )
    console.print(Text(f"{printable(question)} [y/N] "), end="")  # it may name a file
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
