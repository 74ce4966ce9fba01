"""`mcp-launch reap`: end the servers that are provably ownerless, and nothing else.

The census has the proof, and it is checked again right before anything is ended: while the
user decides, a host may come back. A pid is signalled only if its process is still the one
that was seen.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch.commands import output
from mcp_launch.commands.output import print_json, print_paragraph
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import LaunchError, tell
from mcp_launch.launch import ended
from mcp_launch.machine import end_server, recognize_server, units
from mcp_launch.machine.survey import open_survey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Survey
    from mcp_launch.system import ProcessTable


class ReapRequest(NamedTuple):
    """What the user asked for."""

    is_sure: bool = False  # do not ask
    is_dry: bool = False  # only show
    is_json: bool = False


class _Ended(NamedTuple):
    """What happened to one server."""

    server: Server
    status: str
    error: str = ""


def run(
    request: ReapRequest, environ: Mapping[str, str], *, table: ProcessTable | None = None
) -> int:
    """Show the ownerless servers, ask, and end them; return 1 if one could not be ended."""
    console: Screen = Screen(is_stderr=request.is_json)
    is_asked = output.can_ask() and not (request.is_sure or request.is_dry)
    console.quiet = request.is_json and not is_asked
    survey = open_survey(environ, table)
    outcomes = _end_all(console, survey, survey.take_census().ownerless, request)
    ended.tidy(survey.table, f"{survey.state}/leases")
    if request.is_json:
        servers = [_describe(one) for one in outcomes]
        print_json({"version": 1, "is_dry_run": request.is_dry, "servers": servers})
    return 1 if any(one.error for one in outcomes) else 0


def _end_all(
    console: Screen, survey: Survey, servers: list[Server], request: ReapRequest
) -> list[_Ended]:
    """Show the servers and ask, then end them; return what happened to each."""
    if not servers:
        console.print("Nothing to reap: no server is provably orphaned.")
        print_paragraph(console, recognize_server.EXPLANATION, hang=0)
        return []
    _show(console, servers)
    if request.is_dry:
        console.print("Nothing was ended (--dry-run).")
        return [_Ended(server, "would end") for server in servers]
    count = len(servers)
    question = f"End {count} server{'s' if count > 1 else ''} and all child processes?"
    if not output.is_agreed(console, question, is_sure=request.is_sure):
        console.print("Nothing was ended.")
        return [_Ended(server, "not ended") for server in servers]
    return [_end(console, survey, server) for server in servers]


def _show(console: Screen, servers: list[Server]) -> None:
    for server in servers:
        facts = f"{units.tell_age(server.age)} old, {server.memory}"
        print_paragraph(console, f"{server}, {facts}", "bold")
        print_paragraph(console, server.why_ownerless, indent=2, hang=0)


def _end(console: Screen, survey: Survey, server: Server) -> _Ended:
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
