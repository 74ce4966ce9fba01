"""`mcp-launch ps`: the servers with the host, session and memory of each, running or not.

The table has a row for each server, below its session and its host.
"""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from mcp_launch.commands.app import Hosts, Json, Verbose, app, name_servers
from mcp_launch.commands.output import (
    Column,
    Layout,
    cut,
    cut_id,
    make_text,
    print_json,
    watch,
    wrap,
)
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError
from mcp_launch.machine import recognize_server, units
from mcp_launch.state.calls import find_calls
from mcp_launch.state.leases import ABSENT, ENDED, FAILED, RESTING
from mcp_launch.values import find_home_directory, shorten_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_launch.machine.process_snapshot import (
        KnownPool,
        LeasedLaunch,
        Server,
    )
    from mcp_launch.machine.running import Census, HostProcess, Session
    from mcp_launch.machine.survey import Survey

VERSION = 1

# Calls per minute: shown only if there are some.
_RATE = "/MIN"
_COLUMNS = (
    Column("SERVER", can_be_cut=True),
    Column("PID", is_right=True, spare=5),
    Column("UP", is_right=True, spare=4),
    Column("MEMORY", is_right=True, spare=6),
    Column("CALLS", is_right=True, spare=3),
    Column(_RATE, is_right=True, spare=1),
    Column("LAST", is_right=True, spare=2),
    Column("STATE"),
)
_NOTHING = Text("-", "dim")

# How far a session, a server and what is said about it are indented.
_OF_SESSION, _OF_SERVER, _OF_DETAIL = 2, 4, 6

_UNSEEN = (
    "The processes of this machine cannot be seen, so servers may run that are not listed. "
    "Mount /proc to see them."
)

_NO_LEASE = (
    "its mcp-launch has no lease in this state directory, so its session and calls are unknown: "
    "was MCP_LAUNCH_HOME another, or is the disk full, or the directory read-only?"
)

_STYLES = {FAILED: "bold red", ENDED: "red", "running": "green"}


@app.command("ps")
def show_running(  # noqa: PLR0913  # one for each option
    names: Annotated[
        list[str] | None,
        name_servers("Servers, hosts, or the beginnings of session ids; default: all.", "NAME"),
    ] = None,
    *,
    hosts: Hosts = None,
    watching: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Refresh every second; q quits."),
    ] = False,
    short: Annotated[
        bool, typer.Option("--short", help="Print one line for a prompt, or nothing at all.")
    ] = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Show the servers, running or not, with the host and session of each.

    UP is the age of the server itself, LAST how long ago it was last called. With -v, everything
    else that is known is shown below each server: how its session is known, its processes, its
    command.

    \b
    Examples:
      mcp-launch ps                the servers of all hosts and sessions
      mcp-launch ps docs           only the servers called docs
      mcp-launch ps 01a1ebf6       only those of one session
      mcp-launch ps --watch        refresh every second
      mcp-launch ps --short        3 sessions, 9 servers, 412 MB, 1 orphan
    """  # noqa: D301  # keeps the line breaks of what follows
    from mcp_launch.commands import status_line
    from mcp_launch.machine import running
    from mcp_launch.machine.recent_calls import RecentRecords
    from mcp_launch.machine.survey import check_hosts, open_survey

    ways = [("--watch", watching), ("--json", as_json), ("--short", short)]
    if len(chosen := [name for name, is_chosen in ways if is_chosen]) > 1:
        given = " and ".join(chosen[:2])
        raise UsageError(f"{given} cannot be combined", fix="leave out one of them")
    check_hosts(hosts or [])
    survey, records = open_survey(os.environ), RecentRecords(find_calls(os.environ))
    wanted = [*(names or ()), *(hosts or ())]

    def take() -> Census:
        return running.select(survey.take_census(), names or [], hosts or [])

    def take_whole() -> Census:
        """Return the census with titles of sessions and recent calls."""
        return records.add_to(running.add_titles(take(), survey.table))

    def draw_live(screen: Screen) -> list[Text]:
        census = take_whole()
        title = f"{time.strftime('%H:%M:%S')}  {status_line.sum_up(census)}  (q quits)"
        lines = _draw(census, screen, wanted, is_verbose=verbose)
        return [Text(title, "dim"), Text(), *lines]

    _check_names(survey, names or [])
    if short:
        status_line.show(take())
    elif as_json:
        print_json(_describe(take_whole()))
    elif watching:
        watch(draw_live)
    else:
        screen = Screen()
        for line in _draw(take_whole(), screen, wanted, is_verbose=verbose):
            screen.print(line, soft_wrap=True)


def _check_names(survey: Survey, names: list[str]) -> None:
    """Check that each names a host, a server that runs or could, or a session."""
    from mcp_launch.hosts.configured import HOSTS
    from mcp_launch.machine import running
    from mcp_launch.machine.survey import check_servers

    if not names:
        return
    census = survey.take_census()
    known = [name for name in names if not running.is_empty(running.select(census, [name], []))]
    check_servers(survey, names, *known, *HOSTS)


def _draw(census: Census, screen: Screen, wanted: list[str], *, is_verbose: bool) -> list[Text]:
    """Return the lines of all servers, or that there are none of these names."""
    from mcp_launch.machine import running

    if wanted and census.sees_all and running.is_empty(census):
        missing = f"No MCP server that runs matches {' or '.join(wanted)}."
        return wrap(screen, f"{missing} mcp-launch ps shows all.")
    return _Table(census, screen, is_verbose=is_verbose).draw()


class _Table:
    def __init__(self, census: Census, screen: Screen, *, is_verbose: bool) -> None:
        self._census = census
        self._screen = screen
        self._is_verbose = is_verbose
        self._home = find_home_directory(os.environ)
        self._ids = _cut_ids(census, is_whole=is_verbose or not screen.is_terminal)
        self._has_rate = any(
            server.recent and server.recent.in_minute
            for host in census.hosts
            for server in host.servers
        )
        self._columns = [one for one in _COLUMNS if self._has_rate or one.title != _RATE]
        self._rows = {
            id(server): self._describe(server, session.project)
            for host in census.hosts
            for session in host.sessions
            for server in session.servers
        }
        for server in census.ownerless:
            self._rows[id(server)] = self._describe(server)
        self._table = Layout(screen, self._columns, self._rows.values(), indent=_OF_SERVER)

    def draw(self) -> list[Text]:
        body = [line for host in self._census.hosts for line in self._draw_host(host)]
        if orphans := self._census.ownerless:
            body += self._wrap("No host (mcp-launch reap ends them)", 0, "bold red")
            body += [line for server in orphans for line in self._draw_server(server)]
        if not self._census.sees_all:
            body += self._wrap(_UNSEEN, 0, "yellow")
        elif not body:
            nothing = Text("No MCP servers are running.")
            return [nothing, *self._wrap(recognize_server.EXPLANATION, 0, "dim")]
        if self._is_verbose:
            body += self._wrap(recognize_server.EXPLANATION, 0, "dim")
        return [self._table.draw_header(), *body] if self._rows else body

    def _draw_host(self, host: HostProcess) -> Iterator[Text]:
        from mcp_launch.machine.running import list_distinct

        facts = [f"pid {host.pid}"] if host.pid else []
        facts += [f"up {units.tell_age(host.age)}"] if host.age is not None else []
        facts += [units.count(len(list_distinct(host.servers)), "server"), _tell_memory(host)]
        title = make_text(f"{host.title} {host.role}".rstrip(), "bold")
        yield from self._join(title, facts, _OF_SESSION)
        for session in host.sessions:
            yield self._draw_session(session)
            for server in session.servers:
                yield from self._draw_server(server)

    def _join(self, title: Text, facts: Iterable[str], indent: int) -> Iterator[Text]:
        """Return a title and facts, broken only between facts."""
        line, width = title, self._screen.width
        for fact in facts:
            part = make_text(f"  {fact}")
            if line.cell_len + part.cell_len > width:
                yield line
                line, part = Text(" " * indent), make_text(fact)
            line = Text().append_text(line).append_text(part)
        yield line

    def _draw_session(self, session: Session) -> Text:
        """Return one line: which session it is, where, and what the user calls it."""
        screen, margin = self._screen, " " * _OF_SESSION
        kind = "thread" if session.thread else "session"
        name = f"{kind} {self._ids[session.id]}" if session.id else "no session known"
        line = make_text(cut(screen, margin + name, screen.width), "cyan")
        project = shorten_home(session.project, self._home)
        for text, keeps_end in ((project, True), (session.title, False)):
            room = screen.width - line.cell_len - 2
            if text and room > _OF_DETAIL:
                shown = cut(screen, make_text(text).plain, room, keeps_end=keeps_end)
                line = Text().append_text(line).append(f"  {shown}", "" if keeps_end else "italic")
        return line

    def _draw_server(self, server: Server) -> Iterator[Text]:
        yield from self._table.draw(self._rows[id(server)])
        if self._is_verbose:
            for detail in _list_details(server):
                yield from self._wrap(detail, _OF_DETAIL, "dim")

    def _wrap(self, text: str, indent: int, style: str) -> list[Text]:
        return wrap(self._screen, text, style, indent=indent)

    def _describe(self, server: Server, project: str = "") -> list[Text]:
        """Return the cells of a server's row."""
        launch = server.launch
        is_there = not server.is_absent and not (launch and launch.server_state == "starting")
        last = launch.last_call if launch else None
        return [
            make_text(server.name, "bold" if launch or server.is_unrecorded else "dim"),
            Text(str(server.pid)) if is_there else _NOTHING,
            Text(units.tell_age(server.age)) if is_there else _NOTHING,
            # A further server of a launch takes nothing while it does not run.
            Text(units.tell_size(server.memory.amount)) if server.processes else _NOTHING,
            Text(str(launch.calls)) if launch and launch.wire != "direct" else _NOTHING,
            *([_tell_rate(server)] if self._has_rate else []),
            Text(_tell_shortly(time.time() - last)) if last is not None else _NOTHING,
            self._describe_state(server, project),
        ]

    def _describe_state(self, server: Server, project: str) -> Text:
        state = _tell_state(server)
        is_elsewhere = bool(project and server.project and server.project != project)
        notes = [*_list_notes(server, self._ids)]
        notes += [f"in {shorten_home(server.project, self._home)}"] if is_elsewhere else []
        style = _STYLES.get(state, "dim" if server.is_absent else "")
        text = make_text(state, style)
        if server.pool:
            users = f" by {server.pool.sessions}" if server.pool.sessions > 1 else ""
            text.append(f", shared{users}")
        if server.saved:
            text.append(f", saves {units.tell_size(server.saved)}", "dim")
        for note in notes:
            text.append(", ").append_text(make_text(note, "yellow"))
        return text


def _cut_ids(census: Census, *, is_whole: bool) -> dict[str, str]:
    """Return a short form of every session's id, long enough to tell them apart."""
    sessions = [session for host in census.hosts for session in host.sessions]
    ids = {one.id for one in sessions}
    ids |= {server.earlier for one in sessions for server in one.servers}
    return {one: one if is_whole else cut_id(one, ids) for one in ids}


def _tell_memory(host: HostProcess) -> str:
    """Return a host's memory, and what is saved by those of its servers that do not run."""
    size, kind = units.tell_size(host.memory.amount), host.memory.kind
    # As usual, shared pages are divided among their users; where they are not, that is said.
    told = size if kind == "PSS" else f"{size} {kind}"
    return f"{told} (saves {units.tell_size(host.saved)})" if host.saved else told


def _tell_shortly(seconds: float) -> str:
    """Return an age in its largest unit."""
    return units.tell_age(seconds).split()[0]


def _tell_state(server: Server) -> str:
    launch = server.launch
    if server.why_ownerless:
        return "orphan"
    if launch is None:
        return "running"
    if launch.server_state == RESTING and launch.since is not None:
        return f"{RESTING} {_tell_shortly(time.time() - launch.since)}"
    return f"installing {launch.installs}" if launch.installs else launch.server_state


def _tell_rate(server: Server) -> Text:
    return Text(str(server.recent.in_minute)) if server.recent else _NOTHING


def _list_notes(server: Server, ids: dict[str, str]) -> Iterator[str]:
    """Return what a user should know about a server, in short."""
    if server.is_unrecorded:
        yield "no lease"
    launch = server.launch
    if launch is None:
        return
    if launch.failure:
        yield launch.failure["problem"]
    if server.earlier:
        # Its host has moved on to another session, whatever the evidence was.
        did = "last called" if launch.calls else "started"
        yield f"{did} for {ids[server.earlier]}"
    counts = {
        "failed call": server.recent.failed_in_hour if server.recent else 0,
        "restart": launch.restarts,
        "refusal": launch.refusals,
    }
    yield from (units.count(number, what) for what, number in counts.items() if number)
    if launch.noise:
        yield "noise"
    if launch.place_note:
        yield f"in {launch.place_note}"
    if launch.is_host_directory:
        yield "in its host's directory"


def _list_details(server: Server) -> Iterator[str]:
    """Return how a server is known, and all that does not fit into its row."""
    launch = server.launch
    if launch is None:
        yield _NO_LEASE if server.is_unrecorded else "not started by mcp-launch"
    else:
        yield from _describe_launch(server, launch)
        yield from _describe_siblings(server, launch)
    if server.why_ownerless:
        yield server.why_ownerless
    others = [str(pid) for pid in server.processes if pid not in {server.pid, server.launcher}]
    launcher = f"launcher: process {server.launcher}" if server.launcher else ""
    more = f"also processes {', '.join(others)}" if others else ""
    if launcher or more:
        yield "; ".join(filter(None, [launcher, more]))
    if server.command:
        yield f"command: {shlex.join(server.command)}"


def _describe_launch(server: Server, launch: LeasedLaunch) -> Iterator[str]:
    evidence = f" ({launch.evidence})" if launch.evidence else ""
    yield f"launch {launch.id}, {launch.state}{evidence}"
    if launch.failure:
        yield f"fix: {launch.failure['fix']}"
    if launch.wire == "direct":
        yield "its host is connected to it directly, so its calls are not counted"
    if server.recent and server.recent.failed_in_hour:
        failed = f"mcp-launch calls --failed --since 1h {shlex.quote(server.name)}"
        yield f"calls of the last hour that failed: {failed}"
    if launch.noise:
        yield f"{units.count(launch.noise, 'line')} of its stdout were not messages"
    if launch.place_note:
        yield f"it runs in {launch.place_note}, not in a project"
    if launch.is_host_directory:
        yield "it runs in its host's directory, regardless of where its session works"
    if launch.runner and launch.runner.get("left_out"):
        yield f"started without its runner: {launch.runner.get('why')}"
    if launch.outer:
        yield f"inside launch {launch.outer}"
    if launch.server_state in ABSENT and server.saved:
        yield f"the next call starts it; it had {units.tell_size(server.saved)} of memory"


def _describe_siblings(server: Server, launch: LeasedLaunch) -> Iterator[str]:
    """Return with what a server shares its launch, or who shares the server."""
    if launch.backend:
        yield f"{launch.backend} of this launch (one per session)"
    if server.pool:
        users = units.count(server.pool.sessions, "session")
        pool = f"pool process {server.pool.pid}" if server.pool.pid else "its pool is gone"
        yield f"shared by {users}; {pool}"


def _describe(census: Census) -> dict[str, Any]:
    """Return everything as data; keys may be added, but never change their meaning."""
    return {
        "version": VERSION,
        "sees_all": census.sees_all,
        "hosts": [_describe_host(host) for host in census.hosts],
        "ownerless": [_describe_server(server) for server in census.ownerless],
    }


def _describe_host(host: HostProcess) -> dict[str, Any]:
    return {
        "host": host.name,
        "title": host.title,
        "role": host.role or None,
        "pid": host.pid,
        "age": host.age,
        "memory": _describe_memory(host),
        "not_running": len(host.absent),
        "saved": host.saved,
        "sessions": [_describe_session(session) for session in host.sessions],
    }


def _describe_session(session: Session) -> dict[str, Any]:
    return {
        "session": session.session or None,
        "thread": session.thread or None,
        "title": session.title or None,
        "project": session.project or None,
        "memory": _describe_memory(session),
        "servers": [_describe_server(server) for server in session.servers],
    }


def _describe_memory(what: HostProcess | Session | Server) -> dict[str, object]:
    return {"bytes": what.memory.amount, "kind": what.memory.kind}


def _describe_pool(pool: KnownPool) -> dict[str, object]:
    return {"pool": pool.pid or None, "sessions": pool.sessions}


def _describe_server(server: Server) -> dict[str, object]:
    return {
        "server": server.name,
        "pid": server.pid,
        "launcher": server.launcher or None,
        "pids": list(server.processes),
        "command": list(server.command),
        "project": server.project or None,
        "age": server.age,
        "memory": _describe_memory(server),
        "stdin": server.stdin._asdict(),
        "stdout": server.stdout._asdict(),
        "earlier_session": server.earlier or None,
        "is_unrecorded": server.is_unrecorded,
        "launch": server.launch._asdict() if server.launch else None,
        "calls_last_minute": server.recent.in_minute if server.recent else None,
        "failures_last_hour": server.recent.failed_in_hour if server.recent else None,
        "shared": _describe_pool(server.pool) if server.pool else None,
        "why_ownerless": server.why_ownerless or None,
    }
