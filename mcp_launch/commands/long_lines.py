"""Print sentences that may be longer than the terminal is wide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from mcp_launch.commands.screen import Screen

# By how much the later lines of a sentence are indented.
_INDENT = 6

# A narrower column is not worth breaking lines for.
_NARROWEST = 24


def print_sentence(console: Screen, text: Text) -> None:
    """Print a text; on a terminal, broken between words, its later lines indented."""
    _print(console, text, console.width - _INDENT, _INDENT)


def print_last_column(console: Screen, before: Text, text: Text) -> None:
    """Print a row; on a terminal its last column is broken between words, if there is room."""
    indent = before.cell_len
    _print(console, text, console.width - indent, indent, before)


def _print(
    console: Screen, text: Text, width: int, indent: int, before: Text | None = None
) -> None:
    # What it quotes may have line ends, and what follows would look like a line of ours.
    text = Text(r"\n").join(text.split("\n", allow_blank=True))
    lines = [text]
    if console.is_terminal and width >= _NARROWEST:
        lines = list(text.wrap(console, width)) or lines
    for at, line in enumerate(lines):
        lead = Text(" " * indent) if at else before or Text()
        row = lead.append_text(line)
        row.rstrip()
        console.print(row)
