"""`mcp-launch restart`: have launchers replace their servers while the hosts stay connected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch.commands.columns import cut_id
from mcp_launch.commands.json_output import print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, printable, suggest
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import restart_server
from mcp_launch.machine.restart_server import Restarted
from mcp_launch.machine.survey import check_hosts, open_survey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Census, HostProcess
    from mcp_launch.machine.survey import Survey
    from mcp_launch.system import ProcessTable

VERSION = 1


class RestartRequest(NamedTuple):
    """Which servers to restart, and how to report it."""

    names: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    session: str = ""  # or a thread, or a part of its id
    is_all: bool = False
    is_json: bool = False


class Chosen(NamedTuple):
    """A server to restart, and its host."""

    host: HostProcess
    session: str
    thread: str
    server: Server

    @property
    def is_ours(self) -> bool:
        """Whether its launcher keeps its lease where we look."""
        return self.server.launch is not None and not self.server.state

    @property
    def id(self) -> str:
        """The id that is shown to a person."""
        return self.thread or self.session


def run(
    request: RestartRequest, environ: Mapping[str, str], table: ProcessTable | None = None
) -> int:
    """Restart the servers; return 1 if one did not come back."""
    check_hosts(list(request.hosts))
    if bool(request.names) == request.is_all:
        raise UsageError(
            "--all and names of servers cannot be combined"
            if request.is_all
            else "which server is to be restarted?",
            fix="name one, as in mcp-launch restart files, or restart every one with --all",
        )
    survey = open_survey(environ, table)
    chosen = choose(request, survey.take_census())
    # All are asked first, so that they restart at the same time.
    asked = [(one, _ask(survey, one)) for one in chosen]
    console = Screen()
    outcomes: list[tuple[Chosen, Restarted]] = []
    for one, reply in asked:
        done = reply
        if not isinstance(done, Restarted):
            done = restart_server.wait(survey.table, done, environ)
        outcomes.append((one, done))
        if not request.is_json:
            show(console, one, done, [other.id for other in chosen])
    if request.is_json:
        servers = [_describe(one, done) for one, done in outcomes]
        print_json({"version": VERSION, "servers": servers})
    return 1 if any(done.outcome == "failed" for _, done in outcomes) else 0


def choose(request: RestartRequest, census: Census) -> list[Chosen]:
    """Return the servers that are meant.

    Raises:
        UsageError: No server of a name runs.

    """
    # Some hosts are extensions of another, whose process starts their servers.
    of_hosts = {one for name in request.hosts for one in HOSTS[name].processes}
    candidates = [
        Chosen(host, session.session, session.thread, server)
        for host in census.hosts
        if not of_hosts or host.name in of_hosts
        for session in host.sessions
        if request.session in session.session or request.session in session.thread
        for server in session.servers
    ]
    candidates = _keep_one_of_each_launch(candidates)
    ours = [one for one in candidates if one.is_ours]
    chosen = ours if request.is_all else []
    for name in request.names:
        # Others are named only if there is none of ours: then it is said why they are not.
        named = [one for one in ours if one.server.name == name]
        named = named or [one for one in candidates if one.server.name == name]
        if not named:
            raise _explain_unknown(name, ours, request)
        chosen += [one for one in named if one not in chosen]
    if not chosen:
        raise UsageError("no server of mcp-launch runs", fix="mcp-launch ps shows what runs")
    return chosen


def _keep_one_of_each_launch(candidates: list[Chosen]) -> list[Chosen]:
    """Return the servers without those that their launcher restarts together with another."""
    kept: dict[str, Chosen] = {}
    for at, one in enumerate(candidates):
        launch = one.server.launch
        key = launch.id if launch and launch.backend else f"number {at}"
        if key not in kept or (kept[key].server.is_absent and not one.server.is_absent):
            kept[key] = one
    return list(kept.values())


def _explain_unknown(name: str, candidates: list[Chosen], request: RestartRequest) -> UsageError:
    known = sorted({one.server.name for one in candidates})
    narrowed = " there" if request.hosts or request.session else ""
    running = f"there are {', '.join(map(printable, known))}" if known else "none runs now"
    return UsageError(
        f"no server called {printable(name)} runs{narrowed}",
        fix=f"{suggest(name, known)}{running}; a server that does not run needs no restart",
    )


def _ask(survey: Survey, one: Chosen) -> restart_server.AskedLauncher | Restarted:
    server = one.server
    if server.launch is not None and one.is_ours:
        return restart_server.ask(survey.table, survey.state, server.launch.id)
    if server.state:
        problem = f"its launcher keeps its records in {server.state}"
        fix = f"run this with MCP_LAUNCH_HOME={server.state}"
    else:
        problem = "it was not started by mcp-launch, or its launcher could not write its records"
        fix = "restart it in its host; mcp-launch wrap puts mcp-launch before its command"
    return Restarted("failed", server.pid, problem=problem, fix=fix)


def show(console: Console, one: Chosen, done: Restarted, ids: list[str]) -> None:
    """Print what came of a restart; the ids are those of all sessions that are shown."""
    line = Text(f"{_name(one, ids)}: ")
    if done.outcome == "restarted":
        before = f"pid {done.before} -> {done.after}" if done.before else f"pid {done.after}"
        line.append("restarted", "green")
        line.append(f", {before}, {done.seconds:.1f} s")
    elif done.outcome == "not running":
        line.append("not running: the next call starts a fresh one", "dim")
    else:
        line.append(f"not restarted: {printable(done.problem)}", "red")
        line.append(f"\n  fix: {printable(done.fix)}; see also mcp-launch logs ")
        line.append(printable(one.server.name))
    console.print(line)


def _name(one: Chosen, ids: list[str]) -> str:
    kind = "thread" if one.thread else "session"
    place = f", {kind} {cut_id(one.id, ids)}" if one.id else ""
    return f"{printable(one.server.name)} ({printable(one.host.title)}{printable(place)})"


def _describe(one: Chosen, done: Restarted) -> dict[str, Any]:
    return {
        "server": one.server.name,
        "host": one.host.name,
        "session": one.session or None,
        "thread": one.thread or None,
        "launch": one.server.launch.id if one.server.launch else None,
        "outcome": done.outcome,
        "before": done.before or None,
        "after": done.after or None,
        "seconds": round(done.seconds, 3),
        "problem": done.problem or None,
        "fix": done.fix or None,
    }
