"""The tables of `mcp-launch calls`: a row for each call, or for each tool with `--stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch.commands.output import Column, Layout, cut_id, make_text
from mcp_launch.machine import units
from mcp_launch.values import NO_ANSWER_WITHIN, TIMED_OUT, shorten_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mcp_launch.commands.screen import Screen
    from mcp_launch.machine.call_records import RecordedCall
    from mcp_launch.machine.call_statistics import ToolStatistics

# Server, tool and outcome are never left out: a row says at least what happened to what.
_CALL_COLUMNS = (
    Column("TIME", spare=6),
    Column("HOST", spare=3),
    Column("SESSION", spare=4),
    Column("PROJECT", can_be_cut=True, keeps_end=True, spare=2),
    Column("SERVER", can_be_cut=True),
    Column("TOOL", can_be_cut=True, shortest=20),
    Column("TOOK", is_right=True, spare=5),
    Column("SIZES", is_right=True, spare=1),
    Column("OUTCOME"),
)
_TOOL_COLUMNS = (
    Column("SERVER", can_be_cut=True),
    Column("TOOL", can_be_cut=True, shortest=20),
    Column("CALLS", is_right=True),
    Column("FAILED", is_right=True, spare=5),
    Column("P50", is_right=True, spare=3),
    Column("P95", is_right=True, spare=4),
    Column("SLOWEST", is_right=True, spare=2),
    Column("BYTES", is_right=True, spare=1),
    Column("LAST HOUR", can_be_cut=True),
)
_NOTHING = Text("-", "dim")

_STYLES = {"ok": "green", "cancelled": "dim", "refused": "yellow"}
_FAILED = "bold red"

# The bars of the course of calls, from the first above none to the highest.
_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = ".:-=+*%#"
_NO_BAR, _NO_ASCII_BAR = "·", " "

# How many rows are aligned at once. More of them would keep a reader waiting, and take memory.
_BLOCK = 1000

_SECOND, _MINUTE, _TEN = 1000.0, 60_000.0, 10.0


class CallTable:
    """Draws calls; rows that come later are aligned with those before, as far as they fit."""

    def __init__(self, screen: Screen, home: str) -> None:
        self._screen = screen
        self._home = home if screen.is_terminal else ""
        self._ids: set[str] = set()
        self._widest: list[Text] = [Text() for _ in _CALL_COLUMNS]

    def draw(self, calls: Sequence[RecordedCall], *, has_header: bool) -> Iterator[Text]:
        """Yield the lines of these calls, perhaps below the titles of the columns."""
        self._ids.update(call.caller for call in calls)
        for at in range(0, len(calls), _BLOCK):
            yield from self._draw_block(calls[at : at + _BLOCK], has_header=has_header and not at)

    def _draw_block(self, calls: Sequence[RecordedCall], *, has_header: bool) -> Iterator[Text]:
        rows = [self._describe(call) for call in calls]
        self._widest = [
            max(column, key=lambda cell: cell.cell_len)
            for column in zip(self._widest, *rows, strict=True)
        ]
        table = Layout(self._screen, _CALL_COLUMNS, [self._widest])
        if has_header:
            yield table.draw_header()
        for row in rows:
            yield from table.draw(row)

    def _describe(self, call: RecordedCall) -> list[Text]:
        is_short = self._screen.is_terminal
        caller = cut_id(call.caller, self._ids) if is_short else call.caller
        project = shorten_home(call.project, self._home)
        return [
            Text(units.tell_clock(call.time, is_short=is_short), "dim"),
            make_text(call.host) if call.host else _NOTHING,
            make_text(caller, "cyan") if caller else _NOTHING,
            make_text(project) if project else _NOTHING,
            make_text(call.server) if call.server else _NOTHING,
            make_text(call.tool, _FAILED if call.has_failed else "bold"),
            _make_duration(call.ms),
            _make_sizes(call),
            _describe_outcome(call),
        ]


def _make_duration(ms: float | None) -> Text:
    return _NOTHING if ms is None else Text(tell_duration(ms))


def _make_sizes(call: RecordedCall) -> Text:
    sizes = [call.request, call.response]
    if sizes == [None, None]:
        return _NOTHING
    return Text(" / ".join("-" if one is None else _tell_bytes(one) for one in sizes))


def _describe_outcome(call: RecordedCall) -> Text:
    outcome, reason = call.outcome, call.reason
    if outcome == TIMED_OUT and reason.startswith(NO_ANSWER_WITHIN):
        outcome, reason = f"{outcome} after {reason.removeprefix(NO_ANSWER_WITHIN)}", ""
    text = make_text(outcome, _STYLES.get(outcome, _FAILED))
    notes = ["after a start"] if call.has_waited else []
    notes += [f"held {tell_duration(call.held)}"] if call.held else []
    notes += [f"changed: {', '.join(call.changed)}"] if call.changed else []
    if notes:
        text.append(" ").append_text(make_text(f"({'; '.join(notes)})", "dim"))
    if reason:
        text.append(": ").append_text(make_text(reason))
    return text


def draw_statistics(counted: Iterable[ToolStatistics], screen: Screen) -> Iterator[Text]:
    """Yield the lines of a table with a row for each tool."""
    rows = [_describe_tool(one, screen) for one in counted]
    table = Layout(screen, _TOOL_COLUMNS, rows)
    yield table.draw_header()
    for row in rows:
        yield from table.draw(row)


def _describe_tool(one: ToolStatistics, screen: Screen) -> list[Text]:
    return [
        make_text(one.server),
        make_text(one.tool, "bold"),
        Text(str(one.calls)),
        Text(str(one.failures), _FAILED) if one.failures else Text("0", "dim"),
        _make_duration(one.p50),
        _make_duration(one.p95),
        _make_duration(one.slowest),
        Text(_tell_bytes(one.bytes)),
        Text(draw_course(one.course, is_ascii=screen.options.ascii_only), "cyan"),
    ]


def draw_course(counts: Sequence[int], *, is_ascii: bool = False) -> str:
    """Return a bar for each count, the highest for the highest of them."""
    bars, none = (_ASCII_BARS, _NO_ASCII_BAR) if is_ascii else (_BARS, _NO_BAR)
    highest = max(counts, default=0)
    return "".join(
        bars[-(-count * len(bars) // highest) - 1] if count else none for count in counts
    )


def tell_duration(ms: float) -> str:
    """Return a duration in the unit that suits it, as in `12 ms`, `1.2 s` or `2m 5s`."""
    for unit, size, limit in (("ms", 1.0, _SECOND), ("s", _SECOND, _MINUTE)):
        if ms < limit:
            number = ms / size
            return f"{number:.1f} {unit}" if number < _TEN else f"{number:.0f} {unit}"
    return units.tell_age(ms / _SECOND)


def _tell_bytes(amount: int) -> str:
    return units.tell_size(amount).replace("bytes", "B")


class CallTotals(NamedTuple):
    """What is said below statistics."""

    calls: int
    failures: int
    servers: int
    first: float


def sum_up(counted: Iterable[ToolStatistics]) -> CallTotals:
    """Return how many calls of how many servers there are, and since when."""
    listed = list(counted)
    return CallTotals(
        sum(one.calls for one in listed),
        sum(one.failures for one in listed),
        len({one.server for one in listed}),
        min(one.first for one in listed),
    )
