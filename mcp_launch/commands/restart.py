"""`mcp-launch restart`: have launchers replace their servers while the hosts stay connected.

A launcher that has a server for each session replaces all of them, and a server that several
sessions share is replaced for all of them. What is reported is what happened, not what was asked.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.text import Text

from mcp_launch.commands.app import Hosts, Json, Session, app, name_servers
from mcp_launch.commands.output import cut_id, print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, printable, suggest
from mcp_launch.machine import restart_server
from mcp_launch.machine.restart_server import Restarted

if TYPE_CHECKING:
    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Census, HostProcess
    from mcp_launch.machine.survey import Survey

VERSION = 1


class _Wish(NamedTuple):
    """Which servers are meant."""

    names: list[str]  # none: every one
    hosts: list[str]
    session: str  # or a thread, or the beginning of its id

    @property
    def where(self) -> str:
        """What is said if only some of all servers are meant."""
        return " there" if self.hosts or self.session else ""


class _Chosen(NamedTuple):
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


@app.command("restart")
def restart(
    servers: Annotated[
        list[str] | None,
        name_servers("Servers that run."),
    ] = None,
    *,
    host: Hosts = None,
    session: Session = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Every server that mcp-launch has started.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Replace running servers by fresh ones while their hosts stay connected.

    Calls that are being answered may finish, for at most 10 s. The new server gets the handshake
    of its host again, and the host sees nothing of it, unless the tools have changed. If a
    server does not come back, calls say why, and the next restart tries again.

    Sessions on one connection, and sessions that share a server, are restarted together.

    Exit code: 0 restarted, or not running; 1 one did not come back; 2 no such server.

    \b
    Examples:
      mcp-launch restart files                 in every session
      mcp-launch restart files --host codex    only those of one host
      mcp-launch restart --all                 every server
    """  # noqa: D301  # keeps the line breaks of what follows
    from mcp_launch.machine.survey import check_hosts, open_survey

    check_hosts(host or [])
    if bool(servers) == everything:
        raise UsageError(
            "--all and names of servers cannot be combined"
            if everything
            else "which server is to be restarted?",
            fix="name one, as in mcp-launch restart files, or restart every one with --all",
        )
    survey = open_survey(os.environ)
    chosen = _choose(_Wish(servers or [], host or [], session), survey.take_census())
    launches: dict[str, list[_Chosen]] = {}
    for one in chosen:
        launches.setdefault(_name_launch(one), []).append(one)
    # All are asked first, so that they restart at the same time.
    replies = [(theirs, _ask(survey, theirs[0])) for theirs in launches.values()]
    outcomes: list[tuple[_Chosen, Restarted]] = []
    for theirs, reply in replies:
        done = reply if isinstance(reply, Restarted) else restart_server.wait(survey.table, reply)
        outcomes += [(one, _pick(one, done)) for one in theirs]
    if as_json:
        found = [_describe(one, done) for one, done in outcomes]
        print_json({"version": VERSION, "servers": found})
    else:
        _show(Screen(), outcomes)
    return 1 if any(done.outcome == "failed" for _, done in outcomes) else 0


def _choose(wish: _Wish, census: Census) -> list[_Chosen]:
    """Return the servers that are meant, each followed by those that are restarted with it.

    Raises:
        UsageError: No server of a name runs.

    """
    everyone = _list_all(census)
    candidates = [one for one in everyone if _matches(one, wish)]
    ours = [one for one in candidates if one.is_ours]
    chosen = [] if wish.names else ours
    for name in wish.names:
        # Others are named only if there is none of ours: then it is said why they are not.
        named = [one for one in ours if one.server.name == name]
        named = named or [one for one in candidates if one.server.name == name]
        if not named:
            raise _explain_unknown(name, ours, wish, everyone)
        chosen += [one for one in named if one not in chosen]
    if not chosen:
        fix = "mcp-launch ps shows what runs"
        raise UsageError(f"no server of mcp-launch runs{wish.where}", fix=fix)
    launches = {_name_launch(one) for one in chosen}
    others = [one for one in everyone if one not in chosen and _name_launch(one) in launches]
    return chosen + [one._replace(is_asked_for=False) for one in others]


def _list_all(census: Census) -> list[_Chosen]:
    everyone = [
        _Chosen(host, session.session, session.thread, server)
        for host in census.hosts
        for session in host.sessions
        for server in session.servers
    ]
    users = Counter(one.server.shared_as for one in everyone)
    return [
        one._replace(users=users[one.server.shared_as]) if one.server.shared_as else one
        for one in everyone
    ]


def _matches(one: _Chosen, wish: _Wish) -> bool:
    """Return whether a server belongs to a host and a session that are meant."""
    from mcp_launch.hosts.configured import HOSTS

    # Some hosts are extensions of another, whose process starts their servers.
    of_hosts = {each for name in wish.hosts for each in HOSTS[name].processes}
    is_of_host = not of_hosts or one.host.name in of_hosts
    return is_of_host and any(each.startswith(wish.session) for each in (one.session, one.thread))


def _name_launch(one: _Chosen) -> str:
    """Return what is asked to restart a server: its launch, or nobody for a foreign one."""
    launch = one.server.launch
    return launch.id if launch is not None and one.is_ours else f"process {one.server.pid}"


def _explain_unknown(
    name: str, candidates: list[_Chosen], wish: _Wish, everyone: list[_Chosen]
) -> UsageError:
    elsewhere = [one for one in everyone if one.server.name == name]
    if elsewhere:
        return _explain_elsewhere(name, elsewhere, wish)
    known = sorted({one.server.name for one in candidates})
    running = f"there are {', '.join(map(printable, known))}" if known else "none runs now"
    return UsageError(
        f"no server called {printable(name)} runs{wish.where}",
        fix=f"{suggest(name, known)}{running}; a server that does not run needs no restart",
    )


def _explain_elsewhere(name: str, elsewhere: list[_Chosen], wish: _Wish) -> UsageError:
    """Explain that a server runs, but not for the session or host that is meant."""
    of_hosts = [one for one in elsewhere if _matches(one, wish._replace(session=""))]
    if not of_hosts:
        hosts = sorted({one.host.name or one.host.title for one in elsewhere})
        return UsageError(
            f"{printable(name)} runs, but not in {' or '.join(wish.hosts)}; "
            f"it runs in {', '.join(map(printable, hosts))}",
            fix="choose one of these with --host, or leave out --host",
        )
    ids = list(dict.fromkeys(one.id for one in of_hosts if one.id))
    shown = ", ".join(printable(cut_id(one, ids)) for one in ids)
    sessions = f"its sessions: {shown}" if ids else "its sessions are not known"
    return UsageError(
        f"{printable(name)} runs, but for no session {printable(wish.session)}; {sessions}",
        fix=("give one of these ids, or its beginning, or " if ids else "") + "leave out --session",
    )


def _ask(survey: Survey, one: _Chosen) -> restart_server.AskedLauncher | Restarted:
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


def _pick(one: _Chosen, done: Restarted | dict[str, Restarted]) -> Restarted:
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


def _show(console: Screen, outcomes: list[tuple[_Chosen, Restarted]]) -> None:
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


def _tell(name: str, one: _Chosen, done: Restarted) -> Text:
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


def _tell_shared(one: _Chosen, same: list[Restarted]) -> Text:
    """Return one line for a server that several launchers have replaced together."""
    last = [done for done in same if done.outcome == "restarted"][-1]
    line = Text(f"{printable(one.server.name)}: ").append("restarted", "green")
    return line.append(f" for {one.users} sessions, {_tell_pids(last)}, {last.seconds:.1f} s")


def _tell_pids(done: Restarted) -> str:
    return f"pid {done.before} -> {done.after}" if done.before else f"pid {done.after}"


def _explain_others(outcomes: list[tuple[_Chosen, Restarted]], ids: list[str]) -> str:
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


def _name(one: _Chosen, ids: list[str]) -> str:
    kind = "thread" if one.thread else "session"
    place = f", {kind} {cut_id(one.id, ids)}" if one.id else ""
    return f"{printable(one.server.name)} ({printable(one.host.title)}{printable(place)})"


def _describe(one: _Chosen, done: Restarted) -> dict[str, Any]:
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
