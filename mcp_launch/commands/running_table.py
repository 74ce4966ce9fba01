"""The table of `mcp-launch ps`: a row for each server, below its session and its host."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch.commands.output import Column, Layout, cut, cut_id, make_text, wrap
from mcp_launch.machine import recognize_server, units
from mcp_launch.machine.running import list_distinct
from mcp_launch.state.leases import ABSENT, ENDED, FAILED, RESTING
from mcp_launch.values import shorten_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_launch.commands.screen import Screen
    from mcp_launch.machine.process_snapshot import LeasedLaunch, Server
    from mcp_launch.machine.running import Census, HostProcess, Session

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

# A launch has 8 servers, unless its user wants more.
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")

_STYLES = {FAILED: "bold red", ENDED: "red", "running": "green"}


class TableRequest(NamedTuple):
    """What of a census is shown, and how."""

    screen: Screen
    home: str = ""  # shown as `~`
    is_verbose: bool = False


def draw(census: Census, request: TableRequest) -> list[Text]:
    """Return the table of all servers."""
    return _Table(census, request).draw()


def draw_nothing(request: TableRequest, names: list[str]) -> list[Text]:
    """Return what is shown if nothing matches the names of servers, hosts or sessions."""
    words = f"No MCP server that runs matches {' or '.join(names)}. mcp-launch ps shows all."
    return wrap(request.screen, words)


class _Table:
    def __init__(self, census: Census, request: TableRequest) -> None:
        self._census = census
        self._request = request
        self._ids = _cut_ids(census, is_whole=request.is_verbose or not request.screen.is_terminal)
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
        self._table = Layout(request.screen, self._columns, self._rows.values(), indent=_OF_SERVER)

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
        if self._request.is_verbose:
            body += self._wrap(recognize_server.EXPLANATION, 0, "dim")
        return [self._table.draw_header(), *body] if self._rows else body

    def _draw_host(self, host: HostProcess) -> Iterator[Text]:
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
        line, width = title, self._request.screen.width
        for fact in facts:
            part = make_text(f"  {fact}")
            if line.cell_len + part.cell_len > width:
                yield line
                line, part = Text(" " * indent), make_text(fact)
            line = Text().append_text(line).append_text(part)
        yield line

    def _draw_session(self, session: Session) -> Text:
        """Return one line: which session it is, where, and what the user calls it."""
        screen, margin = self._request.screen, " " * _OF_SESSION
        kind = "thread" if session.thread else "session"
        name = f"{kind} {self._ids[session.id]}" if session.id else "no session known"
        line = make_text(cut(screen, margin + name, screen.width), "cyan")
        project = shorten_home(session.project, self._request.home)
        for text, keeps_end in ((project, True), (session.title, False)):
            room = screen.width - line.cell_len - 2
            if text and room > _OF_DETAIL:
                shown = cut(screen, make_text(text).plain, room, keeps_end=keeps_end)
                line = Text().append_text(line).append(f"  {shown}", "" if keeps_end else "italic")
        return line

    def _draw_server(self, server: Server) -> Iterator[Text]:
        yield from self._table.draw(self._rows[id(server)])
        if self._request.is_verbose:
            for detail in _list_details(server):
                yield from self._wrap(detail, _OF_DETAIL, "dim")

    def _wrap(self, text: str, indent: int, style: str) -> list[Text]:
        return wrap(self._request.screen, text, style, indent=indent)

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
        notes += [f"in {shorten_home(server.project, self._request.home)}"] if is_elsewhere else []
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
        yield f"{_tell_order(launch.backend)} server of this launch (one per session)"
    if server.pool:
        users = units.count(server.pool.sessions, "session")
        pool = f"pool process {server.pool.pid}" if server.pool.pid else "its pool is gone"
        yield f"shared by {users}; {pool}"


def _tell_order(name: str) -> str:
    """Return which server of its launch one is: `server-2` is the second."""
    digits = name.removeprefix("server").strip(" -")
    number = int(digits) if digits.isdecimal() else 1
    return _ORDINALS[number - 1] if number <= len(_ORDINALS) else f"{number}th"
