"""`mcp-launch calls`: the recorded calls, one by one, as they come, or counted for each tool."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from mcp_launch import hosts as known_hosts
from mcp_launch.commands.app import Follow, Hosts, Json, Lines, Session, Since, app, name_servers
from mcp_launch.commands.output import (
    Column,
    Layout,
    cut_id,
    make_text,
    print_json,
    print_json_line,
    wrap,
)
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, suggest
from mcp_launch.machine import units
from mcp_launch.machine.call_records import (
    CallFilter,
    Follower,
    list_parts,
    read_each,
    read_last,
)
from mcp_launch.machine.call_statistics import count_calls
from mcp_launch.state.calls import find_calls
from mcp_launch.values import NO_ANSWER_WITHIN, TIMED_OUT, find_home_directory, shorten_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mcp_launch.machine.call_records import Part, RecordedCall
    from mcp_launch.machine.call_statistics import ToolStatistics

VERSION = 1

# How often to look for new calls, in seconds.
_INTERVAL = 0.2

# How many calls are shown, if neither a number nor a time is given.
_COUNT = 30

# A name with other characters stands for itself.
_PATTERN = re.compile(r"[*?\[]")

_NONE_YET = (
    "No call is on record. Every call to a server that runs through mcp-launch is recorded when "
    "it ends, unless it runs with --direct or --no-record (profile: no_record = true)."
)

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


@app.command("calls")
def show_calls(  # noqa: PLR0913  # one for each option
    servers: Annotated[
        list[str] | None,
        name_servers("Servers, as in docs or 'git*'; default: all."),
    ] = None,
    *,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            "--tool", metavar="TOOL", help="Only this tool, as in 'read_*'; may be repeated."
        ),
    ] = None,
    session: Session = "",
    hosts: Hosts = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only calls that failed or were refused.")
    ] = False,
    since: Since = "",
    lines: Lines = None,
    follow: Follow = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="Count calls, failures and durations of each tool.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the calls of all sessions: what was called, how long it took, what came of it.

    Results are never recorded; arguments only with --record-arguments, and only --json shows them.
    With --json and -f, each line is a JSON object.

    \b
    Examples:
      mcp-launch calls                      the last 30 calls
      mcp-launch calls docs -f              follow the calls of one server
      mcp-launch calls --failed --since 1h  what failed in the last hour
      mcp-launch calls --stats              how often and how long for each tool
    """  # noqa: D301  # keeps the line breaks of what follows
    from mcp_launch.machine.survey import check_hosts

    check_hosts(hosts or [], known_hosts.UNKNOWN.name)
    if stats and follow:
        raise UsageError("--stats and --follow cannot be combined", fix="leave out one of them")
    directory = find_calls(os.environ)
    wanted = CallFilter(
        tuple(servers or ()),
        tuple(tools or ()),
        tuple(hosts or ()),
        session,
        only_failed=failed,
        since=units.read_moment(since, time.time()) if since else 0.0,
    )
    count = lines or (None if since else _COUNT)
    if stats or follow:
        _check_servers(wanted, directory)
    if stats:
        _show_statistics(wanted, directory, since, lines, is_json=as_json)
    elif follow:
        _follow(wanted, directory, count, is_json=as_json)
    else:
        calls = _read_last(wanted, list_parts(directory), count)
        if not calls:
            _check_servers(wanted, directory)
        if as_json:
            print_json({"version": VERSION, "calls": [_describe(call) for call in calls]})
        elif calls:
            CallTable().show(calls)
        else:
            _say_nothing_matches(wanted, directory, since)


def _check_servers(wanted: CallFilter, directory: str) -> None:
    """Check that there are such servers, with calls or without."""
    from mcp_launch.machine.survey import check_servers, open_survey

    if names := [name for name in wanted.servers if not _PATTERN.search(name)]:
        recorded = {call.server for call in read_each(list_parts(directory))}
        if not recorded.issuperset(names):
            check_servers(open_survey(os.environ), names, *recorded)


def _read_last(wanted: CallFilter, parts: Iterable[Part], count: int | None) -> list[RecordedCall]:
    return read_last(parts, count, since=wanted.since, is_wanted=wanted.make_test())


def _follow(wanted: CallFilter, directory: str, count: int | None, *, is_json: bool) -> None:
    follower = Follower(directory)
    is_wanted = wanted.make_test()
    show = _show_lines if is_json else CallTable().show
    try:
        calls = _read_last(wanted, follower.parts, count)
        while True:
            if calls:
                show(calls)
                sys.stdout.flush()  # what a pipe gets is needed now
            time.sleep(_INTERVAL)
            new = [call for call in follower.read() if call.time >= wanted.since]
            calls = [*filter(is_wanted, new)] if is_wanted else new
    except KeyboardInterrupt:
        pass  # the normal way to quit


def _show_lines(calls: list[RecordedCall]) -> None:
    for call in calls:
        print_json_line({"version": VERSION, "call": _describe(call)})


def _show_statistics(
    wanted: CallFilter, directory: str, since: str, limit: int | None, *, is_json: bool
) -> None:
    calls = read_each(list_parts(directory), since=wanted.since)
    is_wanted = wanted.make_test()
    counted = count_calls(filter(is_wanted, calls) if is_wanted else calls, time.time())
    shown = counted[:limit]
    if is_json:
        print_json({"version": VERSION, "tools": [one._asdict() for one in shown]})
        return
    if not counted:
        _say_nothing_matches(wanted, directory, since)
        return
    console = Screen()
    for line in _draw_statistics(shown, console):
        console.print(line)
    calls_of = units.count(sum(one.calls for one in counted), "call")
    servers = units.count(len({one.server for one in counted}), "server")
    first = units.tell_clock(min(one.first for one in counted), is_short=console.is_terminal)
    failures = sum(one.failures for one in counted)
    _say(console, f"{calls_of} of {servers} since {first}, {failures} failed", "dim")


def _say_nothing_matches(wanted: CallFilter, directory: str, since: str) -> None:
    console = Screen()
    tools: set[str] = set()
    latest = 0.0
    for call in read_each(list_parts(directory)):
        tools.add(call.tool)
        latest = max(latest, call.time)
    if not latest:
        _say(console, _NONE_YET)
        return
    options = _name_options(wanted, since)
    said = f"No call on record matches {' '.join(options)}." if options else "No call is on record."
    for name in wanted.tools:
        near = "" if name in tools else suggest(name, tools)
        said += f" {near[0].upper()}{near[1:].strip()}" if near else ""
    if latest < wanted.since:
        said += f" The last one came {units.tell_age(time.time() - latest)} ago."
    _say(console, said)


def _name_options(wanted: CallFilter, since: str) -> list[str]:
    words = [*wanted.servers, *(f"--tool {name}" for name in wanted.tools)]
    words += [f"--host {name}" for name in wanted.hosts]
    words += [f"--session {wanted.session}"] if wanted.session else []
    words += [f"--since {since}"] if since else []
    return words + (["--failed"] if wanted.only_failed else [])


def _say(console: Screen, text: str, style: str = "") -> None:
    for line in wrap(console, text, style):
        console.print(line)


def _describe(call: RecordedCall) -> dict[str, Any]:
    """Return a call as data: what is unknown is null."""
    found = {name: None if value == "" else value for name, value in call._asdict().items()}
    found["waited"] = found.pop("has_waited")
    return found | {"failed": call.has_failed, "arguments": call.arguments}


class CallTable:
    """Draws calls; rows that come later are aligned with those before, as far as they fit."""

    def __init__(self) -> None:
        self._screen = Screen()
        self._home = find_home_directory(os.environ) if self._screen.is_terminal else ""
        self._has_header = False
        self._ids: set[str] = set()
        self._widest: list[Text] = [Text() for _ in _CALL_COLUMNS]

    def show(self, calls: Sequence[RecordedCall]) -> None:
        """Print these calls; the first time, below the titles of the columns."""
        self._ids.update(call.caller for call in calls)
        for at in range(0, len(calls), _BLOCK):
            for line in self._draw(calls[at : at + _BLOCK]):
                self._screen.print(line)

    def _draw(self, calls: Sequence[RecordedCall]) -> Iterator[Text]:
        rows = [self._describe(call) for call in calls]
        self._widest = [
            max(column, key=lambda cell: cell.cell_len)
            for column in zip(self._widest, *rows, strict=True)
        ]
        table = Layout(self._screen, _CALL_COLUMNS, [self._widest])
        if not self._has_header:
            self._has_header = True
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
    return _NOTHING if ms is None else Text(_tell_duration(ms))


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
    notes += [f"held {_tell_duration(call.held)}"] if call.held else []
    notes += [f"changed: {', '.join(call.changed)}"] if call.changed else []
    if notes:
        text.append(" ").append_text(make_text(f"({'; '.join(notes)})", "dim"))
    if reason:
        text.append(": ").append_text(make_text(reason))
    return text


def _draw_statistics(counted: Iterable[ToolStatistics], screen: Screen) -> Iterator[Text]:
    """Yield the lines of a table with a row for each tool."""
    rows = [_make_row(one, screen) for one in counted]
    table = Layout(screen, _TOOL_COLUMNS, rows)
    yield table.draw_header()
    for row in rows:
        yield from table.draw(row)


def _make_row(one: ToolStatistics, screen: Screen) -> list[Text]:
    return [
        make_text(one.server),
        make_text(one.tool, "bold"),
        Text(str(one.calls)),
        Text(str(one.failures), _FAILED) if one.failures else Text("0", "dim"),
        _make_duration(one.p50),
        _make_duration(one.p95),
        _make_duration(one.slowest),
        Text(_tell_bytes(one.bytes)),
        Text(_draw_course(one.last_hour, is_ascii=screen.options.ascii_only), "cyan"),
    ]


def _draw_course(counts: Sequence[int], *, is_ascii: bool = False) -> str:
    """Return a bar for each count, the highest for the highest of them."""
    bars, none = (_ASCII_BARS, _NO_ASCII_BAR) if is_ascii else (_BARS, _NO_BAR)
    highest = max(counts, default=0)
    return "".join(
        bars[-(-count * len(bars) // highest) - 1] if count else none for count in counts
    )


def _tell_duration(ms: float) -> str:
    """Return a duration in the unit that suits it, as in `12 ms`, `1.2 s` or `2m 5s`."""
    for unit, size, limit in (("ms", 1.0, _SECOND), ("s", _SECOND, _MINUTE)):
        if ms < limit:
            number = ms / size
            return f"{number:.1f} {unit}" if number < _TEN else f"{number:.0f} {unit}"
    return units.tell_age(ms / _SECOND)


def _tell_bytes(amount: int) -> str:
    return units.tell_size(amount).replace("bytes", "B")
