"""Print lines of text: wrapped between words on a terminal, whole in a pipe or a file.

On a terminal, the home directory is shown as `~`; a program that reads the lines gets paths
that it can open.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from mcp_launch.errors import printable
from mcp_launch.values import find_home_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console


# A narrower column is not worth breaking lines for.
_NARROWEST = 24


def print_paragraph(
    console: Console, text: str, style: str = "", *, indent: int = 0, hang: int = 2
) -> None:
    """Print one line, or on a terminal as many as it takes; all but the first hang."""
    text = printable(text)
    words = _shorten(text).split(" ") if console.is_terminal else [text]
    for line in fold(console, words, " ", " " * indent, " " * (indent + hang)):
        console.print(Text(line, style))


def print_row(console: Console, before: Text, last: Text) -> None:
    """Print a row whose last column is wrapped on a terminal, if there is room for it."""
    indent, lines = before.cell_len, [last]
    if console.is_terminal and console.width - indent >= _NARROWEST:
        lines = list(last.wrap(console, console.width - indent)) or lines
    for at, line in enumerate(lines):
        row = (Text(" " * indent) if at else before.copy()).append_text(line)
        row.rstrip()
        console.print(row)


def fold(
    console: Console, words: Iterable[str], separator: str, first: str, rest: str
) -> list[str]:
    """Return lines that fit into a terminal; a word is never broken.

    `first` begins the first line, `rest` all others.
    """
    width = console.width if console.is_terminal else sys.maxsize
    *others, last = list(words) or [""]
    lines: list[str] = []
    for word in (*(one + separator.rstrip() for one in others), last):
        gap = " " * separator.endswith(" ")
        if not lines:
            lines.append(first + word)
        elif cell_len(lines[-1] + gap + word) > width:
            lines.append(rest + word)
        else:
            lines[-1] += gap + word
    return lines


def _shorten(text: str) -> str:
    home = find_home_directory(os.environ)
    if home in {"", "/"}:
        return text
    return re.sub(rf"(?<![\w/.~'\"-]){re.escape(home)}(?=/)", "~", text)
