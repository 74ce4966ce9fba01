"""The one door through which commands print for a person.

What they print quotes files, projects and servers, which are not to be trusted with a
terminal: an escape sequence in a server's name could clear the screen, write the clipboard
or turn a line round. Whatever a caller hands over, only printable characters and line ends
leave through here. (`run` has no screen: its messages pass `errors.printable` one by one.)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.segment import Segment

from mcp_launch.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType


class Screen(Console):
    """A console on which text is only text; styles are the only escapes it writes."""

    def __init__(
        self,
        *,
        is_stderr: bool = False,
        soft_wrap: bool = True,
        width: int | None = None,
        file: TextIO | None = None,
        force_terminal: bool | None = None,
    ) -> None:
        super().__init__(
            highlight=False,
            stderr=is_stderr,
            soft_wrap=soft_wrap,
            width=width,
            file=file,
            force_terminal=force_terminal,
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return what is to be written, neutralised; control segments are rich's own."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(make_lines_printable(segment.text), segment.style)


def make_lines_printable(text: str) -> str:
    """Return lines of text that can do nothing to a terminal but be shown."""
    return "\n".join(printable(line) for line in text.split("\n"))


def say(text: str) -> None:
    """Print plain lines, for whoever reads them by eye or by program."""
    sys.stdout.write(make_lines_printable(text) + "\n")
