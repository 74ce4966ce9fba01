"""`mcp-launch reap`: end the servers that are provably ownerless, and nothing else.

The census has the proof, and it is checked again right before anything is ended: while the
user decides, a host may come back. A pid is signalled only if its process is still the one
that was seen.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch.commands import output
from mcp_launch.commands.app import Dry, Json, Yes, app
from mcp_launch.commands.output import print_json, print_paragraph
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import LaunchError, tell
from mcp_launch.machine import recognize_server, units

if TYPE_CHECKING:
    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Survey


class _Ended(NamedTuple):
    """What happened to one server."""

    server: Server
    status: str
    error: str = ""


@app.command("reap")
def reap(
    *,
    yes: Yes = False,
    dry_run: Dry = False,
    as_json: Json = False,
) -> int:
    """End the servers whose host is provably gone.

    Shows them with their proof, and asks. A server is never ended while a process holds the other
    end of its stdin or stdout.

    Exit code: 0, or 1 if one could not be ended.

    \b
    Examples:
      mcp-launch reap --dry-run    what would be ended
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.launch import ended
    from mcp_launch.machine.survey import open_survey

    console: Screen = Screen(is_stderr=as_json)
    console.quiet = as_json and not (output.can_ask() and not (yes or dry_run))
    survey = open_survey(os.environ)
    outcomes = _end_all(console, survey, is_sure=yes, is_dry=dry_run)
    ended.tidy(survey.table, f"{survey.state}/leases")
    if as_json:
        servers = [_describe(one) for one in outcomes]
        print_json({"version": 1, "is_dry_run": dry_run, "servers": servers})
    return 1 if any(one.error for one in outcomes) else 0


def _end_all(console: Screen, survey: Survey, *, is_sure: bool, is_dry: bool) -> list[_Ended]:
    """Show the ownerless servers and ask, then end them; return what happened to each."""
    servers = survey.take_census().ownerless
    if not servers:
        console.print("Nothing to reap: no server is provably orphaned.")
        print_paragraph(console, recognize_server.EXPLANATION, hang=0)
        return []
    _show(console, servers)
    if is_dry:
        console.print("Nothing was ended (--dry-run).")
        return [_Ended(server, "would end") for server in servers]
    question = f"End {units.count(len(servers), 'server')} and all child processes?"
    if not output.is_agreed(console, question, is_sure=is_sure):
        console.print("Nothing was ended.")
        return [_Ended(server, "not ended") for server in servers]
    return [_end(console, survey, server) for server in servers]


def _show(console: Screen, servers: list[Server]) -> None:
    for server in servers:
        facts = f"{units.tell_age(server.age)} old, {server.memory}"
        print_paragraph(console, f"{server}, {facts}", "bold")
        print_paragraph(console, server.why_ownerless, indent=2, hang=0)


def _end(console: Screen, survey: Survey, server: Server) -> _Ended:
    from mcp_launch.machine import end_server

    try:
        end_server.reap(survey, server)
    except LaunchError as error:
        tell(error, sys.stderr)
        return _Ended(server, "not ended", error.problem)
    console.print(Text(f"Ended {server}"))
    return _Ended(server, "ended")


def _describe(outcome: _Ended) -> dict[str, Any]:
    server = outcome.server
    return {
        "name": server.name,
        "pid": server.pid,
        "processes": list(server.processes),
        "command": list(server.command),
        "project": server.project,
        "age": server.age,
        "memory": {"bytes": server.memory.amount, "kind": server.memory.kind},
        "why": server.why_ownerless,
        "status": outcome.status,
        "error": outcome.error or None,
    }
