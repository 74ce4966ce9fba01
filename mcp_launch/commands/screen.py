"""The only way in which commands print for a person.

Their output quotes files, projects and servers, which must not control the terminal: an
escape sequence in a server's name could clear the screen, write the clipboard or reverse a
line. Whatever a caller passes, only printable characters and line ends are printed. (`run`
has no screen: its messages go through `errors.printable` one by one.)
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn, TextIO

from rich.console import Console
from rich.segment import Segment

from mcp_launch.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType


# The width of a pipe or a file: nothing is cut or wrapped there.
_ENDLESS = 1 << 16


class Screen(Console):
    """A console that writes no escapes but those of its own styles."""

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
        if not self.is_terminal:
            self.width = _ENDLESS

    @property
    def mark(self) -> str:
        """Return what stands for what is left out."""
        return "..." if self.options.ascii_only else "…"

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the segments to write, made printable; control segments are rich's own."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(make_lines_printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """End: nobody reads what we print."""
        end_quietly()


def end_quietly() -> NoReturn:
    """End without an error, as a program does whose output goes to `head`."""
    # Python would fail at its exit to write what is left.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)


def make_lines_printable(text: str) -> str:
    """Return lines of text that are safe to show on a terminal."""
    return "\n".join(printable(line) for line in text.split("\n"))


def say(text: str) -> None:
    """Print plain lines, for people and for programs."""
    sys.stdout.write(make_lines_printable(text) + "\n")
