"""`mcp-launch reap`: end the servers that are provably ownerless, and nothing else.

The census has the proof, and it is checked again right before anything is ended: while the
user decides, a host may come back. A pid is signalled only if its process is still the one
that was seen.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from mcp_launch.commands import confirm
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import LaunchError, printable, tell
from mcp_launch.machine import end_server, recognize_server, units
from mcp_launch.machine.survey import open_survey
from mcp_launch.state import leases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Survey
    from mcp_launch.system import ProcessTable


def run(
    environ: Mapping[str, str],
    *,
    is_sure: bool,
    older_than: str = "",
    table: ProcessTable | None = None,
) -> int:
    """Show the ownerless servers, ask, and end them; return 1 if one could not be ended."""
    console: Console = Screen()
    youngest = units.read_age(older_than) if older_than else None
    survey = open_survey(environ, table)
    census = survey.take_census()
    found = [
        server
        for server in census.ownerless
        if youngest is None or (server.age is not None and server.age >= youngest)
    ]
    if not found:
        console.print("Nothing to reap: no server is provably orphaned.")
        console.print(recognize_server.EXPLANATION)
    elif not _is_agreed(console, found, is_sure=is_sure):
        console.print("Nothing was ended.")
        return 0
    outcomes = [_end(console, survey, server) for server in found]
    for server in census.doubtful:
        console.print(Text(printable(f"Skipped {server}: {server.doubt}")))
    for path in leases.reclaim_stale(survey.table, f"{survey.state}/leases"):
        console.print(Text(printable(f"Removed the stale lease {path}")))
    return 0 if all(outcomes) else 1


def _is_agreed(console: Console, servers: list[Server], *, is_sure: bool) -> bool:
    table = Table("server", "pid", "age", "memory", "why", box=None, header_style="bold")
    for server in servers:
        cells = (
            server.name,
            str(server.pid),
            units.tell_age(server.age),
            str(server.memory),
            server.why_ownerless,
        )
        table.add_row(*[Text(printable(cell)) for cell in cells])
    console.print(table)
    count = len(servers)
    question = f"End {count} server{'s' if count > 1 else ''} and all child processes?"
    return confirm.is_agreed(console, question, is_sure=is_sure)


def _end(console: Console, survey: Survey, server: Server) -> bool:
    try:
        end_server.reap(survey, server)
    except LaunchError as error:
        tell(error, sys.stderr)
        return False
    console.print(Text(f"Ended {server}"))
    return True
