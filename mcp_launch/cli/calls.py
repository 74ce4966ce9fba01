"""`calls`: what was called, how long it took, and what came of it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Hosts, Json, Session, offer_servers


@app.command("calls")
def _calls(  # noqa: PLR0913  # one for each option
    servers: Annotated[
        list[str] | None,
        typer.Argument(
            help="Servers, as in docs or 'git*'; default: all.",
            metavar="SERVER",
            show_default=False,
            autocompletion=offer_servers,
        ),
    ] = None,
    *,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            "--tool", metavar="TOOL", help="Only this tool, as in 'read_*'; may be repeated."
        ),
    ] = None,
    session: Session = "",
    hosts: Hosts = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only calls that failed or were refused.")
    ] = False,
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="TIME", help="Only later calls: 10m, 2h, 10:00, 2026-11-17T10:00."
        ),
    ] = "",
    lines: Annotated[
        int | None,
        typer.Option(
            "--lines",
            "-n",
            min=1,
            metavar="NUMBER",
            help="How many rows; default: 30, or all with --since or --stats.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep showing new calls.")] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="Count calls, failures and durations of each tool.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the calls of all sessions: what was called, how long it took, what came of it.

    Results are never recorded; arguments only with --record-arguments, and only --json shows them.
    With --json and -f, each line is a JSON object.

    \b
    Examples:
      mcp-launch calls                      the last 30 calls
      mcp-launch calls docs -f              follow the calls of one server
      mcp-launch calls --failed --since 1h  what failed in the last hour
      mcp-launch calls --stats              how often and how long for each tool
    """  # noqa: D301  # keeps the line breaks of what follows
    from mcp_launch.commands import calls

    request = calls.CallsRequest(
        tuple(servers or ()),
        tuple(tools or ()),
        tuple(hosts or ()),
        session,
        since,
        lines,
        only_failed=failed,
        is_following=follow,
        is_counting=stats,
        is_json=as_json,
    )
    raise typer.Exit(calls.run(request, os.environ))
