"""A live screen that scrolls, redrawn every second until the user quits."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rich.console import ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from mcp_launch.commands.columns import Paper
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

_T = TypeVar("_T")

# How often the screen is redrawn, in seconds.
_INTERVAL = 1.0

# q, and the end of input.
_QUIT = {"q", "Q", "\x04"}

# How far a key moves: by lines, by screens, or to an end. Terminals send the arrows in two ways.
_LINES = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "\r": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
_SCREENS = {" ": 1, "f": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
_TO_START = {"g", "\x1b[H", "\x1bOH", "\x1b[1~"}
_TO_END = {"G", "\x1b[F", "\x1bOF", "\x1b[4~"}

# One key: an escape sequence, or a character.
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|.", re.DOTALL)

# Nobody needs a screen with less than this of what scrolls.
_FEWEST_LINES = 1


class View(NamedTuple):
    """What to show: a title, lines that stay, and lines that scroll."""

    title: list[str]
    head: list[Text]
    body: list[Text]


def watch(take: Callable[[], _T], draw: Callable[[_T, Paper], View]) -> None:
    """Show what `draw` makes of what `take` returns, until q or ^C; then restore the terminal.

    Raises:
        UsageError: There is no terminal, or it is too poor.

    """
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise UsageError(
            "--watch needs a terminal", fix="leave out --watch, or run it in a terminal"
        )
    console = Screen(soft_wrap=False)
    if console.is_dumb_terminal:
        raise UsageError(
            f"--watch needs a terminal with a cursor that moves; TERM says {os.environ['TERM']}",
            fix="leave out --watch, or set TERM to what the terminal is, as in TERM=xterm",
        )
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    # Restore the terminal also when we are terminated.
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        tty.setcbreak(fd)  # read keys one by one, without echo
        # ^Z and ^\\ would return to the shell without restoring the screen.
        mode = termios.tcgetattr(fd)
        mode[6][termios.VSUSP] = mode[6][termios.VQUIT] = b"\0"
        termios.tcsetattr(fd, termios.TCSANOW, mode)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            _Scroller(fd, console, live).run(take, draw)
    except KeyboardInterrupt:
        pass  # the normal way to quit
    except OSError:
        pass  # the terminal is gone
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, handler)


class _Scroller:
    """Redraws the screen, and keeps its place in what scrolls."""

    def __init__(self, fd: int, console: Console, live: Live) -> None:
        self._fd = fd
        self._console = console
        self._live = live
        self._top = 0  # the first line that is shown of those that scroll
        self._is_over = False

    def run(self, take: Callable[[], _T], draw: Callable[[_T, Paper], View]) -> None:
        while not self._is_over:
            taken = take()
            until = time.monotonic() + _INTERVAL
            while not self._is_over and (left := until - time.monotonic()) > 0:
                # Not left to rich, which uses COLUMNS and LINES if set; these never change.
                columns, lines = os.get_terminal_size(self._fd)
                self._console.size = ConsoleDimensions(columns or 80, lines or 24)
                paper = Paper(self._console.width, self._console.options.ascii_only)
                page = self._show(draw(taken, paper), paper)
                self._wait(left, page)

    def _show(self, view: View, paper: Paper) -> tuple[int, int]:
        """Show what fits; return how many lines scroll, and how many of them are shown."""
        title = [Text(paper.cut(text, paper.width or 80), "dim") for text in view.title]
        head = [*title, Text(), *view.head] if view.body else title
        room = max(_FEWEST_LINES, self._console.height - len(head) - 1)
        self._top = max(0, min(self._top, len(view.body) - room))
        shown = view.body[self._top : self._top + room]
        blank = [Text()] * (room - len(shown))
        foot = Text(paper.cut(self._describe_place(view, shown), paper.width or 80), "dim")
        whole = Text("\n").join([*head, *shown, *blank, foot])
        whole.no_wrap, whole.overflow = True, "crop"
        self._live.update(Group(whole), refresh=True)
        return len(view.body), room

    def _describe_place(self, view: View, shown: list[Text]) -> str:
        if len(shown) == len(view.body):
            return "q quits"
        first, last = self._top + 1, self._top + len(shown)
        return f"{first}-{last} of {len(view.body)}, arrows scroll, q quits"

    def _wait(self, seconds: float, page: tuple[int, int]) -> None:
        """Wait for keys, at most until the next redraw."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return
        try:
            data = os.read(self._fd, 100)
        except OSError:
            data = b""
        self._is_over = not data  # the terminal is gone
        for key in _KEY.findall(data.decode(errors="replace")):
            self._obey(key, *page)

    def _obey(self, key: str, length: int, room: int) -> None:
        if key in _QUIT:
            self._is_over = True
        elif key in _TO_START or key in _TO_END:
            self._top = 0 if key in _TO_START else length
        self._top += _LINES.get(key, 0) + _SCREENS.get(key, 0) * room
        self._top = max(0, min(self._top, length - room))
