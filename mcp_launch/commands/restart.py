"""`mcp-launch restart`: have launchers replace their servers while the hosts stay connected.

A launcher that has a server for each session replaces all of them, and a server that several
sessions share is replaced for all of them. What is reported is what happened, not what was asked.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch.commands.output import cut_id, print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, printable, suggest
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import restart_server
from mcp_launch.machine.restart_server import Restarted
from mcp_launch.machine.survey import check_hosts, open_survey

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    is_asked_for: bool = True  # False: its launcher restarts it together with one that is
    users: int = 1  # how many sessions have this server

    @property
    def is_ours(self) -> bool:
        """Whether its launcher keeps its lease where we look."""
        return self.server.launch is not None

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
    launches: dict[str, Chosen] = {}
    for one in chosen:
        launches.setdefault(_name_launch(one), one)
    replies = {launch: _ask(survey, one) for launch, one in launches.items()}
    outcomes: list[tuple[Chosen, Restarted]] = []
    for launch, reply in replies.items():
        done = reply if isinstance(reply, Restarted) else restart_server.wait(survey.table, reply)
        theirs = [one for one in chosen if _name_launch(one) == launch]
        outcomes += [(one, _pick(one, done)) for one in theirs]
    if request.is_json:
        servers = [_describe(one, done) for one, done in outcomes]
        print_json({"version": VERSION, "servers": servers})
    else:
        show(Screen(), outcomes)
    return 1 if any(done.outcome == "failed" for _, done in outcomes) else 0


def choose(request: RestartRequest, census: Census) -> list[Chosen]:
    """Return the servers that are meant, each followed by those that are restarted with it.

    Raises:
        UsageError: No server of a name runs.

    """
    everyone = _list_all(census)
    candidates = [one for one in everyone if _matches(one, request)]
    ours = [one for one in candidates if one.is_ours]
    chosen = ours if request.is_all else []
    for name in request.names:
        # Others are named only if there is none of ours: then it is said why they are not.
        named = [one for one in ours if one.server.name == name]
        named = named or [one for one in candidates if one.server.name == name]
        if not named:
            raise _explain_unknown(name, ours, request, everyone)
        chosen += [one for one in named if one not in chosen]
    if not chosen:
        there = " there" if request.hosts or request.session else ""
        fix = "mcp-launch ps shows what runs"
        raise UsageError(f"no server of mcp-launch runs{there}", fix=fix)
    launches = {_name_launch(one) for one in chosen}
    others = [one for one in everyone if one not in chosen and _name_launch(one) in launches]
    return chosen + [one._replace(is_asked_for=False) for one in others]


def _list_all(census: Census) -> list[Chosen]:
    everyone = [
        Chosen(host, session.session, session.thread, server)
        for host in census.hosts
        for session in host.sessions
        for server in session.servers
    ]
    users = Counter(one.server.shared_as for one in everyone)
    return [
        one._replace(users=users[one.server.shared_as]) if one.server.shared_as else one
        for one in everyone
    ]


def _matches(one: Chosen, request: RestartRequest) -> bool:
    """Return whether a server belongs to a host and a session that are meant."""
    # Some hosts are extensions of another, whose process starts their servers.
    of_hosts = {each for name in request.hosts for each in HOSTS[name].processes}
    is_of_host = not of_hosts or one.host.name in of_hosts
    return is_of_host and (request.session in one.session or request.session in one.thread)


def _name_launch(one: Chosen) -> str:
    """Return what is asked to restart a server: its launch, or nobody for a foreign one."""
    launch = one.server.launch
    return launch.id if launch is not None and one.is_ours else f"process {one.server.pid}"


def _explain_unknown(
    name: str, candidates: list[Chosen], request: RestartRequest, everyone: list[Chosen]
) -> UsageError:
    elsewhere = [one for one in everyone if one.server.name == name]
    if elsewhere:
        return _explain_elsewhere(name, elsewhere, request)
    known = sorted({one.server.name for one in candidates})
    narrowed = " there" if request.hosts or request.session else ""
    running = f"there are {', '.join(map(printable, known))}" if known else "none runs now"
    return UsageError(
        f"no server called {printable(name)} runs{narrowed}",
        fix=f"{suggest(name, known)}{running}; a server that does not run needs no restart",
    )


def _explain_elsewhere(name: str, elsewhere: list[Chosen], request: RestartRequest) -> UsageError:
    """Explain that a server runs, but not for the session or host that is meant."""
    of_hosts = [one for one in elsewhere if _matches(one, request._replace(session=""))]
    if not of_hosts:
        hosts = sorted({one.host.name or one.host.title for one in elsewhere})
        return UsageError(
            f"{printable(name)} runs, but not in {' or '.join(request.hosts)}; "
            f"it runs in {', '.join(map(printable, hosts))}",
            fix="choose one of these with --host, or leave out --host",
        )
    ids = list(dict.fromkeys(one.id for one in of_hosts if one.id))
    shown = ", ".join(printable(cut_id(one, ids)) for one in ids)
    sessions = f"its sessions: {shown}" if ids else "its sessions are not known"
    return UsageError(
        f"{printable(name)} runs, but for no session {printable(request.session)}; {sessions}",
        fix=("give a part of one of these ids, or " if ids else "") + "leave out --session",
    )


def _ask(survey: Survey, one: Chosen) -> restart_server.AskedLauncher | Restarted:
    server = one.server
    if server.launch is not None:
        return restart_server.ask(survey.table, survey.state, server.launch.id)
    if server.is_unrecorded:
        problem = f"its launcher has no lease in {survey.state}"
        fix = "run this with the MCP_LAUNCH_HOME of its host, or restart it in its host"
    else:
        problem = "it was not started by mcp-launch"
        fix = "restart it in its host; mcp-launch wrap puts mcp-launch before its command"
    return Restarted("failed", server.pid, problem=problem, fix=fix)


def _pick(one: Chosen, done: Restarted | dict[str, Restarted]) -> Restarted:
    """Return what came of one server of a launch."""
    if isinstance(done, Restarted):
        return done
    launch = one.server.launch
    name = launch.backend if launch is not None else ""
    picked = done.get(name or restart_server.ONLY, Restarted("not running"))
    if one.server.shared_as and picked.outcome == "restarted":
        # The launch that is asked last may have got the next server before it was asked.
        return picked._replace(before=one.server.pid)
    return picked


def show(console: Screen, outcomes: list[tuple[Chosen, Restarted]]) -> None:
    """Print what came of each server; one that several sessions share is one server."""
    ids = [one.id for one, _ in outcomes]
    shared: set[tuple[str, int] | None] = set()
    for one, done in outcomes:
        key = one.server.shared_as if one.users > 1 else None
        if key is None or done.outcome != "restarted":
            console.print(_tell(_name(one, ids), one, done))
        elif key not in shared:
            shared.add(key)
            same = [each for other, each in outcomes if other.server.shared_as == key]
            console.print(_tell_shared(one, same))
    if note := _explain_others(outcomes, ids):
        console.print(Text(note, "dim"))


def _tell(name: str, one: Chosen, done: Restarted) -> Text:
    line = Text(f"{name}: ")
    if done.outcome == "restarted":
        line.append("restarted", "green")
        line.append(f", {_tell_pids(done)}, {done.seconds:.1f} s")
    elif done.outcome == "not running":
        line.append("not running: the next call starts a fresh one", "dim")
    else:
        line.append(f"not restarted: {printable(done.problem)}", "red")
        line.append(f"\n  fix: {printable(done.fix)}; see also mcp-launch logs ")
        line.append(printable(one.server.name))
    return line


def _tell_shared(one: Chosen, same: list[Restarted]) -> Text:
    """Return one line for a server that several launchers have replaced together."""
    last = [done for done in same if done.outcome == "restarted"][-1]
    line = Text(f"{printable(one.server.name)}: ").append("restarted", "green")
    return line.append(f" for {one.users} sessions, {_tell_pids(last)}, {last.seconds:.1f} s")


def _tell_pids(done: Restarted) -> str:
    return f"pid {done.before} -> {done.after}" if done.before else f"pid {done.after}"


def _explain_others(outcomes: list[tuple[Chosen, Restarted]], ids: list[str]) -> str:
    """Return a note on servers that nobody has asked for; empty if there are none."""
    others = [one for one, done in outcomes if not one.is_asked_for and done.outcome == "restarted"]
    if not others:
        return ""
    names = ", ".join(printable(cut_id(one.id, ids)) if one.id else "unknown" for one in others)
    whose = "another session was" if len(others) == 1 else "other sessions were"
    what = "server" if len(others) == 1 else "servers"
    return (
        f"Note: a launcher restarts all its servers. The {what} of {whose} restarted, too: {names}."
    )


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
        "is_asked_for": one.is_asked_for,
        "shared_by": one.users if one.server.shared_as else None,
        "outcome": done.outcome,
        "before": done.before or None,
        "after": done.after or None,
        "seconds": round(done.seconds, 3),
        "problem": done.problem or None,
        "fix": done.fix or None,
    }
