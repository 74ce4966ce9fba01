"""`mcp-launch ps`: the servers with the host, session and memory of each, running or not."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from mcp_launch.commands import live_screen
from mcp_launch.commands.json_output import print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, printable
from mcp_launch.machine import units
from mcp_launch.machine.survey import open_survey
from mcp_launch.state.leases import RESTING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Census, HostProcess, Session
    from mcp_launch.system import ProcessTable

VERSION = 1

# Wide enough for every line when the output is not a terminal.
_NO_SCREEN_WIDTH = 1000


def run(
    environ: Mapping[str, str],
    *,
    is_json: bool = False,
    is_watching: bool = False,
    table: ProcessTable | None = None,
) -> int:
    """Show the running servers, once or until the user quits."""
    if is_json and is_watching:
        raise UsageError("--watch and --json cannot be combined", fix="leave out one of them")
    survey = open_survey(environ, table)
    if is_json:
        print_json(describe(survey.take_census()))
    elif is_watching:
        live_screen.watch(lambda: _draw_screen(survey.take_census()))
    else:
        width = None if sys.stdout.isatty() else _NO_SCREEN_WIDTH
        show(survey.take_census(), Screen(width=width, soft_wrap=False))
    return 0


def show(census: Census, console: Console) -> None:
    """Print the tree."""
    console.print(_draw(census))


def _draw_screen(census: Census) -> Group:
    return Group(
        Text(f"mcp-launch ps  {time.strftime('%H:%M:%S')}  q: quit\n", "dim"), _draw(census)
    )


def _draw(census: Census) -> Group:
    """Return the tree: host, session or thread, server."""
    trees = [_draw_host(host) for host in census.hosts]
    for title, style, servers in (
        ("no host (mcp-launch reap ends them)", "bold red", census.ownerless),
        ("no host seen (mcp-launch reap skips them)", "bold", census.doubtful),
    ):
        if servers:
            trees.append(Tree(Text(title, style), guide_style="dim"))
            for server in servers:
                trees[-1].add(_draw_server(server))
    return Group(*trees) if trees else Group(Text("No MCP servers are running."))


def _draw_host(host: HostProcess) -> Tree:
    label = Text(printable(host.title), "bold")
    facts = [f"pid {host.pid}"] if host.pid else []
    facts += [f"up {units.tell_age(host.age)}"] if host.age is not None else []
    facts += [_sum_up(host), str(host.memory)]
    label.append(f"  {'  '.join(facts)}", "not bold")
    tree = Tree(label, guide_style="dim")
    for session in host.sessions:
        branch = tree.add(_label_session(session))
        for server in session.servers:
            branch.add(_draw_server(server))
    return tree


def _sum_up(host: HostProcess) -> str:
    """Return how many servers a host has, and what is saved by those that do not run."""
    words = [_count(len(host.servers), "server")]
    words += [f"{len(host.absent)} not running"] if host.absent else []
    words += [f"saves {units.tell_size(host.saved)}"] if host.saved else []
    return ", ".join(words)


def _label_session(session: Session) -> Text:
    if session.thread:
        label = f"thread {session.thread}"
    elif session.session:
        label = f"session {session.session}"
    else:
        label = "no session known"
    return Text(printable(f"{label}  {session.memory}"), "cyan")


def _draw_server(server: Server) -> Text:
    """Return one line: name, project, age, memory, session and how it is known."""
    facts = [server.project, f"pid {server.pid}", _tell_state(server), str(server.memory)]
    facts += [f"saves {units.tell_size(server.saved)}"] if server.saved else []
    facts += _describe_launch(server) or [_describe_starter(server)]
    facts += [server.why_ownerless or server.doubt]
    label = Text(printable(server.name), "bold" if server.launch else "dim bold")
    label.append(printable("  " + "  ".join(filter(None, facts))), "not bold")
    return label


def _tell_state(server: Server) -> str:
    """Return how long a server has run, or why there is none."""
    launch = server.launch
    if launch is None or launch.server_state == "running":
        return f"up {units.tell_age(server.age)}"
    if launch.server_state == RESTING and launch.since is not None:
        return f"{RESTING} {units.tell_age(time.time() - launch.since)}"
    return f"installing {launch.installs}" if launch.installs else launch.server_state


def _describe_starter(server: Server) -> str:
    if server.state:
        return f"started by an mcp-launch that keeps its files in {server.state}"
    return "not started by mcp-launch"


def _describe_launch(server: Server) -> list[str]:
    launch = server.launch
    if launch is None:
        return []
    facts = [_count(launch.calls, "call")]
    if launch.last_call is not None:
        facts.append(f"last {units.tell_age(time.time() - launch.last_call)} ago")
    if server.earlier:
        # Its host has moved on to another session, whatever the evidence was.
        did = "last called" if launch.calls else "started"
        facts.append(f"{did} for {server.earlier}")
    else:
        evidence = f" ({launch.evidence})" if launch.evidence else ""
        facts.append(f"{launch.state}{evidence}")
    troubles = ((launch.restarts, "restart"), (launch.refusals, "refusal"))
    facts += [_count(number, what) for number, what in troubles if number]
    facts += [_count(launch.noise, "line") + " of noise"] if launch.noise else []
    facts += [f"in {launch.place_note}, not a project"] if launch.place_note else []
    if launch.runner and launch.runner.get("left_out"):
        facts.append(f"without its runner: {launch.runner.get('why')}")
    return facts + ([f"inside launch {launch.outer}"] if launch.outer else [])


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def describe(census: Census) -> dict[str, Any]:
    """Return everything as data; keys may be added, but never change their meaning."""
    return {
        "version": VERSION,
        "hosts": [
            {
                "host": host.name,
                "title": host.title,
                "pid": host.pid,
                "age": host.age,
                "memory": _describe_memory(host),
                "not_running": len(host.absent),
                "saved": host.saved,
                "sessions": [
                    {
                        "session": session.session or None,
                        "thread": session.thread or None,
                        "memory": _describe_memory(session),
                        "servers": [_describe_server(server) for server in session.servers],
                    }
                    for session in host.sessions
                ],
            }
            for host in census.hosts
        ],
        "ownerless": [_describe_server(server) for server in census.ownerless],
        "doubtful": [_describe_server(server) for server in census.doubtful],
    }


def _describe_memory(what: HostProcess | Session | Server) -> dict[str, object]:
    return {"bytes": what.memory.amount, "kind": what.memory.kind}


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
        "state": server.state or None,
        "launch": server.launch._asdict() if server.launch else None,
        "why_ownerless": server.why_ownerless or None,
        "doubt": server.doubt or None,
    }
