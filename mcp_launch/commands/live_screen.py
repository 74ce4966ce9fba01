"""A live screen, redrawn every second until the user quits."""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import sys
from typing import TYPE_CHECKING

from rich.console import ConsoleDimensions
from rich.live import Live
from rich.text import Text

from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console, RenderableType

# How often the screen is redrawn, in seconds.
_INTERVAL = 1.0

# q, and the end of input.
_QUIT = b"qQ\x04"


def watch(draw: Callable[[], RenderableType]) -> None:
    """Show what `draw` returns, until q or ^C; then restore the terminal.

    Raises:
        UsageError: There is no terminal.

    """
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise UsageError(
            "--watch needs a terminal", fix="leave out --watch, or run it in a terminal"
        )
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    # Restore the terminal also when we are terminated.
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Screen(soft_wrap=False)
    try:
        tty.setcbreak(fd)  # read keys one by one, without echo
        # ^Z and ^\\ would return to the shell without restoring the screen.
        mode = termios.tcgetattr(fd)
        mode[6][termios.VSUSP] = mode[6][termios.VQUIT] = b"\0"
        termios.tcsetattr(fd, termios.TCSANOW, mode)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            is_over = False
            while not is_over:
                # Not left to rich, which uses COLUMNS and LINES if set; these never change.
                columns, lines = os.get_terminal_size(fd)
                console.size = ConsoleDimensions(columns or 80, lines or 24)
                live.update(_fit(console, draw()), refresh=True)
                is_over = _is_over(fd)
    except KeyboardInterrupt:
        pass  # the normal way to quit
    except OSError:
        pass  # the terminal is gone
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, handler)


def _fit(console: Console, drawn: RenderableType) -> RenderableType:
    """Return the part that fits on the screen, and a line about the rest."""
    # A separate console: printing on the live one would draw above the screen.
    aside = Screen(
        file=io.StringIO(), force_terminal=True, width=console.size.width, soft_wrap=False
    )
    with aside.capture() as capture:
        aside.print(drawn)
    lines = capture.get().splitlines()
    rest = len(lines) - console.size.height + 1
    if rest <= 1:
        return drawn
    shown = [*lines[:-rest], f"… {rest} more lines (leave out --watch to see all)"]
    return Text.from_ansi("\n".join(shown))


def _is_over(fd: int) -> bool:
    """Wait until the next redraw; return True if the user quits or the terminal is gone."""
    if not select.select([fd], [], [], _INTERVAL)[0]:
        return False
    try:
        keys = os.read(fd, 100)
    except OSError:
        return True
    return not keys or any(key in _QUIT for key in keys)
