"""A live screen: drawn anew every second until the user has seen enough."""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleDimensions
from rich.live import Live

from mcp_launch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

# How often the screen is drawn.
_INTERVAL = 1.0

# q, and the end of input.
_QUIT = b"qQ\x04"


def watch(draw: Callable[[], RenderableType]) -> None:
    """Show what `draw` returns, until q or ^C; leave the terminal as it was.

    Raises:
        UsageError: There is no terminal.

    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "there is no terminal to watch in", fix="leave out --watch, or use a terminal"
        )
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    # Whoever ends us some other way gets the terminal back, too.
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False)
    try:
        tty.setcbreak(fd)  # keys come one by one, and are not shown
        with Live(console=console, screen=True, auto_refresh=False) as live:
            is_over = False
            while not is_over:
                # Not left to rich: COLUMNS and LINES, where they are set, stay as they were.
                console.size = ConsoleDimensions(*os.get_terminal_size(fd))
                live.update(draw(), refresh=True)
                is_over = _is_over(fd)
    except KeyboardInterrupt:
        pass  # the way to end it
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, handler)


def _is_over(fd: int) -> bool:
    """Wait for the next drawing; True if the user wants no more, or the terminal is gone."""
    if not select.select([fd], [], [], _INTERVAL)[0]:
        return False
    try:
        keys = os.read(fd, 100)
    except OSError:
        return True
    return not keys or any(key in _QUIT for key in keys)
