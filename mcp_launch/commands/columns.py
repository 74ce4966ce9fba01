"""Rows in aligned columns: whole in a pipe, and never wider than a terminal.

On a terminal, long names are cut at their end first, then columns that a reader can do without
are left out. What is in the last column is cut, too, or continues on lines of its own below it.
rich's tables would break words in any column, or make all of them narrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.text import Text

from mcp_launch.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

# Between two columns.
_GAP = "  "

# A cut name needs this much to be recognised, and a last column to be readable.
_SHORTEST_NAME = 10
_NARROWEST_END = 12

# Where an id may be cut: after each of the parts of a UUID. Threads that Codex starts in the
# same minute begin with the same eight characters.
_ID_LENGTHS = (8, 13, 18, 23)


class Column(NamedTuple):
    """One column."""

    title: str
    is_right: bool = False
    can_be_cut: bool = False  # where there is too little room
    spare: int = 0  # the columns with the lowest number are left out first; 0: never
    keeps_end: bool = False  # it is cut at its front, as a path is
    shortest: int = _SHORTEST_NAME  # it is not cut further while others can be left out


class Paper(NamedTuple):
    """What is printed on: how wide it is, and whether it can show more than ASCII."""

    width: int | None  # None: a pipe or a file, in which nothing is cut
    is_ascii: bool = False

    @property
    def mark(self) -> str:
        """What stands for what is left out."""
        return "..." if self.is_ascii else "…"

    def cut(self, text: str, room: int, *, keeps_end: bool = False) -> str:
        """Return a text that fits into this many cells: cut at its end, or a path at its front."""
        if self.width is None or cell_len(text) <= room:
            return text
        mark = self.mark[: max(0, room)]
        rest = max(0, room - len(mark))
        if keeps_end:
            while cell_len(text) > rest:
                text = text[1:]
            return mark + text
        kept = Text(text)
        kept.truncate(rest)
        return kept.plain.rstrip() + mark


class Layout:
    """The widths that a set of rows needs, on this paper."""

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Iterable[Sequence[Text]],
        paper: Paper,
        *,
        indent: int = 0,
    ) -> None:
        self._columns = columns
        self._paper = paper
        self._indent = indent
        heads = [Text(column.title) for column in columns]
        cells = zip(heads, *rows, strict=True)
        self._widths: list[int] = [max(cell.cell_len for cell in column) for column in cells]
        self._shown = list(range(len(columns)))
        self._fit()

    def find_end_room(self) -> int | None:
        """Return how many cells the last column has; None: as many as it needs."""
        before = self._shown[:-1]
        margin = self._indent + sum(self._widths[at] + len(_GAP) for at in before)
        return self._find_room(margin)

    def draw_header(self) -> Text:
        """Return the line with the titles."""
        (line, *_) = self.draw([Text(column.title, "dim") for column in self._columns])
        return line

    def draw(self, row: Sequence[Text]) -> list[Text]:
        """Return the lines of one row."""
        line = Text(" " * self._indent)
        *before, last = self._shown
        for at in before:
            line.append_text(self._pad(row[at], at))
            line.append(_GAP)
        margin = line.cell_len
        room = self._find_room(margin)
        first, *rest = self._draw_end(row[last], room, is_cut=self._columns[last].can_be_cut)
        line.append_text(first)
        line.rstrip()
        return [line, *[Text(" " * margin).append_text(part) for part in rest]]

    def _draw_end(self, cell: Text, room: int | None, *, is_cut: bool) -> list[Text]:
        if room is None:
            return [cell]
        if is_cut:
            return [Text(self._paper.cut(cell.plain, room), cell.style)]
        return _wrap_list(cell, room) or [Text()]

    def _pad(self, cell: Text, at: int) -> Text:
        width = self._widths[at]
        cut = self._paper.cut(cell.plain, width, keeps_end=self._columns[at].keeps_end)
        shown = Text(cut, cell.style)
        fill = " " * (width - shown.cell_len)
        return Text(fill).append_text(shown) if self._columns[at].is_right else shown.append(fill)

    def _find_room(self, margin: int) -> int | None:
        if self._paper.width is None:
            return None
        return max(_NARROWEST_END // 2, self._paper.width - margin)

    def _fit(self) -> None:
        """Make the columns before the last one fit, if there is a limit."""
        while self._find_excess() > 0:
            spare = [at for at in self._shown[:-1] if self._columns[at].spare]
            if self._cut_widest(is_last_resort=not spare):
                continue
            if not spare:
                return
            self._shown.remove(min(spare, key=lambda at: self._columns[at].spare))

    def _cut_widest(self, *, is_last_resort: bool) -> bool:
        """Make the widest column narrower by one cell; return False if none can be cut."""

        def can_be_cut(at: int) -> bool:
            column = self._columns[at]
            least = _SHORTEST_NAME if is_last_resort else column.shortest
            return column.can_be_cut and self._widths[at] > least

        cuttable = [*filter(can_be_cut, self._shown[:-1])]
        if cuttable:
            self._widths[max(cuttable, key=lambda at: self._widths[at])] -= 1
        return bool(cuttable)

    def _find_excess(self) -> int:
        """Return how many cells are missing, if the last column may be as narrow as it can be."""
        if self._paper.width is None:
            return 0
        *before, last = self._shown
        share = self._paper.width // (4 if self._columns[last].can_be_cut else 3)
        end = min(self._widths[last], max(_NARROWEST_END, share))
        needed = sum(self._widths[at] + len(_GAP) for at in before) + end
        return self._indent + needed - self._paper.width


def wrap_all(text: str, indent: int, style: str, paper: Paper) -> list[Text]:
    """Return the lines of a sentence, which fit on the paper."""
    whole, margin = make_text(text), " " * indent
    room = max(_NARROWEST_END, (paper.width or 0) - indent)
    lines = [whole] if paper.width is None else wrap(whole, room)
    return [Text(margin).append(line.plain, style) for line in lines]


def wrap(text: Text, room: int) -> list[Text]:
    """Return the lines of a text, broken at spaces."""
    return _fill(text.split(" "), " ", room)


def _wrap_list(text: Text, room: int) -> list[Text]:
    """Return the lines of a list, broken after commas, and at spaces where that is not enough."""
    *before, last = text.split(", ")
    parts: list[Text] = []
    for part in [*[one.append(",") for one in before], last]:
        parts += [part] if part.cell_len <= room else wrap(part, room)
    return _fill(parts, " ", room)


def _fill(parts: Iterable[Text], between: str, room: int) -> list[Text]:
    lines: list[Text] = []
    for one in parts:
        part = one
        if lines and lines[-1].cell_len + len(between) + part.cell_len <= room:
            lines[-1].append(between).append_text(part)
            continue
        while part.cell_len > room:  # a path or an id
            head, part = part.divide([len(chop_cells(part.plain, room)[0])])
            lines.append(head)
        lines.append(part.copy())
    return lines


def make_text(text: str, style: str = "") -> Text:
    """Return a cell with a text that may come from anywhere."""
    return Text(printable(text), style)


def cut_id(name: str, ids: Iterable[str]) -> str:
    """Return the beginning of a session's id, long enough to tell it from the other ids."""
    others = [one for one in ids if one != name]
    for length in _ID_LENGTHS:
        if not any(other.startswith(name[:length]) for other in others):
            return name[:length]
    return name


def see_paper(console: Console) -> Paper:
    """Return what a console prints on."""
    is_ascii = console.options.ascii_only
    return Paper(console.width if console.is_terminal else None, is_ascii)
