"""What commands print, for a person and for a program, and how they ask.

On a terminal everything fits: tables leave out columns, sentences are wrapped between words. In a
pipe or a file everything is whole, since a `Screen` has no end on its right there.

JSON is printed only here. Every document has `version`, the version of its own format. Keys may
be added; a key that changes its meaning, or goes, raises the version.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import sys
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from mcp_launch.commands.screen import Screen, end_quietly, say
from mcp_launch.errors import UsageError, printable
from mcp_launch.values import find_home_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# Between two columns.
_GAP = 2

# A cut name needs this much to be recognised, a last column to be readable, and a text to be
# worth wrapping beside what comes before it.
_SHORTEST_NAME = 10
_NARROWEST_END = 12
_NARROWEST_TEXT = 24

# Longer lines of prose are hard to read.
_WIDEST_TEXT = 100

# How often a live screen is redrawn, in seconds.
_INTERVAL = 1.0

# Where an id may be cut: after each of the parts of a UUID. Threads that Codex starts in the
# same minute begin with the same eight characters.
_ID_LENGTHS = (8, 13, 18, 23)

# A comment with its line, and with the blank line below it if there is one above: a table that is
# not followed by a blank line would take the next paragraph for a row.
_COMMENT = re.compile(r"(?<=\n\n)<!--.*?-->\n+|^<!--.*?-->\n", re.MULTILINE | re.DOTALL)


class Column(NamedTuple):
    """One column of a table, and what may happen to it where there is too little room."""

    title: str
    is_right: bool = False
    can_be_cut: bool = False
    spare: int = 0  # the columns with the lowest number are left out first; 0: never
    keeps_end: bool = False  # it is cut at its front, as a path is
    shortest: int = _SHORTEST_NAME  # it is not cut further while others can be left out


class Layout:
    """The widths that a set of rows needs on a screen; other lines may stand between the rows."""

    def __init__(
        self,
        screen: Screen,
        columns: Sequence[Column],
        rows: Iterable[Sequence[Text]],
        *,
        indent: int = 0,
    ) -> None:
        self._screen = screen
        self._columns = columns
        self._indent = indent
        cells = zip([Text(column.title) for column in columns], *rows, strict=True)
        self._widths: list[int] = [max(cell.cell_len for cell in column) for column in cells]
        self._shown = list(range(len(columns)))
        self._fit()

    def _fit(self) -> None:
        """Leave out and cut columns, until the last one has the room that it needs at least."""
        last = len(self._columns) - 1
        share = self._screen.width // (4 if self._columns[last].can_be_cut else 3)
        end = min(self._widths[last], max(_NARROWEST_END, share))
        needed = [*self._widths[:last], end]
        least = [
            min(width, column.shortest) if column.can_be_cut else width
            for width, column in zip(needed, self._columns, strict=True)
        ]
        least[last] = end
        spare = sorted((one.spare, at) for at, one in enumerate(self._columns) if one.spare)
        while spare and self._find_excess(least) > 0:
            self._shown.remove(spare.pop(0)[1])
        cuttable = [at for at in self._shown[:-1] if self._columns[at].can_be_cut]
        while self._find_excess(needed) > 0:
            at = max(cuttable, key=lambda one: needed[one], default=last)
            if at == last or needed[at] <= _SHORTEST_NAME:
                break
            needed[at] -= 1
        self._widths[:last] = needed[:last]

    def _find_excess(self, widths: list[int]) -> int:
        needed = self._indent - _GAP + sum(widths[at] + _GAP for at in self._shown)
        return needed - self._screen.width

    def find_end_room(self) -> int:
        """Return how many cells the last column has."""
        before = self._indent + sum(self._widths[at] + _GAP for at in self._shown[:-1])
        return max(_NARROWEST_END // 2, self._screen.width - before)

    def draw_header(self) -> Text:
        """Return the line with the titles."""
        return self.draw([Text(column.title, "dim") for column in self._columns])[0]

    def draw(self, row: Sequence[Text]) -> list[Text]:
        """Return the lines of one row."""
        line = Text(" " * self._indent)
        for at in self._shown[:-1]:
            column, width = self._columns[at], self._widths[at]
            shown = cut(self._screen, row[at].plain, width, keeps_end=column.keeps_end)
            cell = Text(shown, row[at].style)
            cell.align("right" if column.is_right else "left", width)
            line.append_text(cell).append(" " * _GAP)
        end, room = row[-1], self.find_end_room()
        if self._columns[-1].can_be_cut:
            end = Text(cut(self._screen, end.plain, room), end.style)
        return _hang(line, end.wrap(self._screen, room))


def _hang(before: Text, lines: Iterable[Text]) -> list[Text]:
    """Return the lines of a text that begins, and goes on, behind something."""
    lines = list(lines) or [Text()]
    margin = Text(" " * before.cell_len)
    whole = [(margin if at else before).copy().append_text(one) for at, one in enumerate(lines)]
    for line in whole:
        line.rstrip()
    return whole


def cut(screen: Screen, text: str, room: int, *, keeps_end: bool = False) -> str:
    """Return a text that fits into this many cells: cut at its end, or a path at its front."""
    if cell_len(text) <= room:
        return text
    mark = screen.mark[: max(0, room)]
    rest = max(0, room - len(mark))
    if keeps_end:
        return mark + set_cell_size(text[::-1], rest).rstrip()[::-1]
    return set_cell_size(text, rest).rstrip() + mark


def cut_id(name: str, ids: Iterable[str]) -> str:
    """Return the beginning of a session's id, long enough to tell it from the other ids."""
    others = [one for one in ids if one != name]
    for length in _ID_LENGTHS:
        if not any(other.startswith(name[:length]) for other in others):
            return name[:length]
    return name


def make_text(text: str, style: str = "") -> Text:
    """Return a text that may come from anywhere, for one line."""
    return Text(printable(text), style)


def wrap(screen: Screen, text: str, style: str = "", *, indent: int = 0) -> list[Text]:
    """Return the lines of a sentence."""
    room = max(_NARROWEST_END, screen.width - indent)
    return _hang(Text(" " * indent), make_text(text, style).wrap(screen, room))


def print_paragraph(
    screen: Screen, text: str, style: str = "", *, indent: int = 0, hang: int = 2
) -> None:
    """Print one line, or on a terminal as many as it takes; all but the first hang.

    On a terminal the home directory is `~`; a program gets paths that it can open. A word is
    never broken: people copy paths.
    """
    text = printable(text)
    home = find_home_directory(os.environ)
    if screen.is_terminal and home not in {"", "/"}:
        text = re.sub(rf"(?<![\w/.~'\"-]){re.escape(home)}(?=/)", "~", text)
    room = max(_NARROWEST_TEXT, screen.width - indent - hang)
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    for at, line in enumerate(lines):
        screen.print(Text(" " * (indent + hang * bool(at)) + line, style))


def print_row(screen: Screen, before: Text, last: Text) -> None:
    """Print a row whose last column is wrapped on a terminal, if there is room for it."""
    last = Text(r"\n").join(last.split("\n", allow_blank=True))  # a row is one line
    room = screen.width - before.cell_len
    lines = last.wrap(screen, room) if room >= _NARROWEST_TEXT else [last]
    for line in _hang(before, lines):
        screen.print(line)


def show_markdown(text: str, screen: Screen | None = None) -> None:
    """Print a Markdown text: laid out on a terminal, otherwise as it is."""
    from rich.markdown import Markdown
    from rich.theme import Theme

    screen = screen or Screen(soft_wrap=False)
    text = _COMMENT.sub("", text).strip()
    if not screen.is_terminal:
        say(text)
        return
    # Without backgrounds, so that it can be read on dark terminals and on light ones.
    theme = Theme({"markdown.code": "bold cyan", "markdown.code_block": "cyan"})
    with screen.use_theme(theme):
        laid_out = Markdown(text, code_theme="ansi_dark", hyperlinks=False)
        screen.print(laid_out, width=min(screen.width, _WIDEST_TEXT), soft_wrap=False)


def watch(draw: Callable[[Screen], list[Text]]) -> None:
    """Show the lines that `draw` returns, every second until q or ^C; then restore the terminal.

    Raises:
        UsageError: There is no terminal, or it is too poor.

    """
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise UsageError(
            "--watch needs a terminal", fix="leave out --watch, or run it in a terminal"
        )
    screen = Screen(soft_wrap=False)
    if screen.is_dumb_terminal:
        raise UsageError(
            f"--watch needs a terminal with a cursor that moves; TERM says {os.environ['TERM']}",
            fix="leave out --watch, or set TERM to what the terminal is, as in TERM=xterm",
        )
    import termios
    import tty

    from rich.console import ConsoleDimensions
    from rich.live import Live

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
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            keys = b""
            while not {*keys} & {*b"qQ\x04"}:
                # Not left to rich, which uses COLUMNS and LINES if set; these never change.
                columns, lines = os.get_terminal_size(fd)
                screen.size = ConsoleDimensions(columns or 80, lines or 24)
                shown = draw(screen)
                if (left := len(shown) - screen.height + 1) > 1:
                    shown[-left:] = [Text(f"{screen.mark} {left} more lines", "dim")]
                whole = Text("\n").join(shown)
                whole.no_wrap, whole.overflow = True, "crop"
                live.update(whole, refresh=True)
                is_pressed = select.select([fd], [], [], _INTERVAL)[0]
                keys = (os.read(fd, 100) or b"q") if is_pressed else b""
    except (KeyboardInterrupt, OSError):
        pass  # the normal way to quit; or the terminal is gone
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, handler)


def can_ask() -> bool:
    """Return whether there is a person who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def is_agreed(screen: Screen, question: str, *, is_sure: bool) -> bool:
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
    screen.print(make_text(f"{question} [y/N] "), end="")  # it may name a file
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def print_json(document: dict[str, Any], *, indent: int | None = 2) -> None:
    """Print one document."""
    try:
        text = json.dumps(document, indent=indent, allow_nan=False)
    except ValueError:  # Python reads and writes numbers that JSON does not have
        text = json.dumps(_spell_numbers(document), indent=indent)
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        end_quietly()


def print_json_line(document: dict[str, Any]) -> None:
    """Print one document of a stream, in one line."""
    print_json(document, indent=None)


def _spell_numbers(value: Any) -> Any:  # noqa: ANN401  # any part of a document
    """Return a value with texts in place of infinity and NaN."""
    if isinstance(value, dict):
        return {key: _spell_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_spell_numbers(one) for one in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value
