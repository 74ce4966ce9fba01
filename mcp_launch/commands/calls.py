"""`mcp-launch calls`: the recorded calls, one by one, as they come, or counted for each tool."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch import hosts
from mcp_launch.commands import calls_table
from mcp_launch.commands.output import print_json, print_json_line, wrap
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, suggest
from mcp_launch.machine import call_records, units
from mcp_launch.machine.call_records import (
    CallFilter,
    Follower,
    list_parts,
    read_each,
    read_last,
)
from mcp_launch.machine.call_statistics import count_calls
from mcp_launch.machine.survey import check_hosts, check_servers, open_survey
from mcp_launch.state.calls import find_calls
from mcp_launch.values import find_home_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_launch.machine.call_records import RecordedCall
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


class CallsRequest(NamedTuple):
    """Which calls to show, and how."""

    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    session: str = ""  # the beginning of a session's or thread's id
    since: str = ""
    limit: int | None = None  # of rows
    only_failed: bool = False
    is_following: bool = False
    is_counting: bool = False
    is_json: bool = False


def run(request: CallsRequest, environ: Mapping[str, str]) -> int:
    """Show the last calls and, if asked, all new ones, until ^C; or count them."""
    _check(request)
    directory = find_calls(environ)
    wanted = CallFilter(
        request.servers,
        request.tools,
        request.hosts,
        request.session,
        only_failed=request.only_failed,
        since=units.read_moment(request.since, time.time()) if request.since else 0.0,
    )
    if request.is_counting:
        _show_statistics(request, wanted, directory)
    elif request.is_following:
        _follow(request, wanted, directory, environ)
    else:
        calls = _read_last(request, wanted, list_parts(directory))
        if not calls:
            _check_servers(request, directory, environ)
        if request.is_json:
            print_json({"version": VERSION, "calls": [_describe(call) for call in calls]})
        elif calls:
            _make_printer(environ)(calls)
        else:
            _say_nothing_matches(request, wanted, directory)
    return 0


def _check(request: CallsRequest) -> None:
    check_hosts([*request.hosts], hosts.UNKNOWN.name)
    if request.is_counting and request.is_following:
        raise UsageError("--stats and --follow cannot be combined", fix="leave out one of them")


def _check_servers(request: CallsRequest, directory: str, environ: Mapping[str, str]) -> None:
    """Check that there are such servers, with calls or without."""
    if names := [name for name in request.servers if not _PATTERN.search(name)]:
        recorded = {call.server for call in read_each(list_parts(directory))}
        check_servers(open_survey(environ), names, *recorded)


def _read_last(
    request: CallsRequest, wanted: CallFilter, parts: Iterable[call_records.Part]
) -> list[RecordedCall]:
    count = request.limit or (None if request.since else _COUNT)
    return read_last(parts, count, since=wanted.since, is_wanted=wanted.make_test())


def _make_printer(environ: Mapping[str, str]) -> Callable[[list[RecordedCall]], None]:
    """Return a function that prints calls in a table, below those that it has printed before."""
    console = Screen()
    table = calls_table.CallTable(console, find_home_directory(environ))
    is_first = True

    def show(calls: list[RecordedCall]) -> None:
        nonlocal is_first
        for line in table.draw(calls, has_header=is_first):
            console.print(line)
        is_first = False

    return show


def _follow(
    request: CallsRequest, wanted: CallFilter, directory: str, environ: Mapping[str, str]
) -> None:
    follower = Follower(directory)
    is_wanted = wanted.make_test()
    show = _show_lines if request.is_json else _make_printer(environ)
    try:
        calls = _read_last(request, wanted, follower.parts)
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


def _show_statistics(request: CallsRequest, wanted: CallFilter, directory: str) -> None:
    now = time.time()
    calls = read_each(list_parts(directory), since=wanted.since)
    is_wanted = wanted.make_test()
    matching = filter(is_wanted, calls) if is_wanted else calls
    counted = count_calls(matching, now)
    shown = counted[: request.limit]
    if request.is_json:
        print_json({"version": VERSION, "tools": [_describe_tool(one) for one in shown]})
        return
    if not counted:
        _say_nothing_matches(request, wanted, directory)
        return
    console = Screen()
    for line in calls_table.draw_statistics(shown, console):
        console.print(line)
    totals = calls_table.sum_up(counted)
    counts = f"{units.count(totals.calls, 'call')} of {units.count(totals.servers, 'server')}"
    since = units.tell_clock(totals.first, is_short=console.is_terminal)
    _say(console, f"{counts} since {since}, {totals.failures} failed", "dim")


def _say_nothing_matches(request: CallsRequest, wanted: CallFilter, directory: str) -> None:
    console = Screen()
    tools: set[str] = set()
    latest = 0.0
    for call in read_each(list_parts(directory)):
        tools.add(call.tool)
        latest = max(latest, call.time)
    if not latest:
        _say(console, _NONE_YET)
        return
    options = _name_options(request)
    said = f"No call on record matches {' '.join(options)}." if options else "No call is on record."
    for name in request.tools:
        near = "" if name in tools else suggest(name, tools)
        said += f" {near[0].upper()}{near[1:].strip()}" if near else ""
    if latest < wanted.since:
        said += f" The last one came {units.tell_age(time.time() - latest)} ago."
    _say(console, said)


def _name_options(request: CallsRequest) -> list[str]:
    options = {
        "--tool": request.tools,
        "--host": request.hosts,
        "--session": (request.session,) if request.session else (),
        "--since": (request.since,) if request.since else (),
    }
    words = [f"{option} {value}" for option, values in options.items() for value in values]
    return [*request.servers, *words, *(["--failed"] if request.only_failed else [])]


def _say(console: Screen, text: str, style: str = "") -> None:
    for line in wrap(console, text, style):
        console.print(line)


def _describe(call: RecordedCall) -> dict[str, Any]:
    """Return a call as data."""
    return {
        "time": call.time,
        "ms": call.ms,
        "outcome": call.outcome,
        "failed": call.has_failed,
        "reason": call.reason or None,
        "host": call.host or None,
        "session": call.session or None,
        "thread": call.thread or None,
        "project": call.project or None,
        "cwd": call.cwd or None,
        "server": call.server,
        "tool": call.tool,
        "launch": call.launch or None,
        "number": call.number,
        "pid": call.pid,
        "id": call.id,
        "request": call.request,
        "response": call.response,
        "waited": call.has_waited,
        "held": call.held,
        "changed": list(call.changed),
        "protocol": call.protocol or None,
        "trace": call.trace or None,
        "arguments": call.arguments,
    }


def _describe_tool(one: ToolStatistics) -> dict[str, Any]:
    return {
        "server": one.server,
        "tool": one.tool,
        "calls": one.calls,
        "failures": one.failures,
        "p50": one.p50,
        "p95": one.p95,
        "slowest": one.slowest,
        "request": one.request,
        "response": one.response,
        "first": one.first,
        "last": one.last,
        "last_hour": list(one.course),
    }
