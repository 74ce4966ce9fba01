"""`logs`: what servers wrote, and what happened to them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Json, Session, offer_servers


@app.command("logs")
def _logs(  # noqa: PLR0913  # one for each option
    server: Annotated[
        str,
        typer.Argument(
            help="A server; default: all.",
            metavar="SERVER",
            show_default=False,
            autocompletion=offer_servers,
        ),
    ] = "",
    *,
    session: Session = "",
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="TIME", help="Only later lines: 10m, 2h, 10:00, 2026-11-17T10:00."
        ),
    ] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only what went wrong.")] = False,
    lines: Annotated[
        int | None,
        typer.Option(
            "--lines",
            "-n",
            min=1,
            metavar="NUMBER",
            help="How many of the last lines; default: 200, or all with --since.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep showing new lines.")] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also show each decision of a launch, and all times."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what servers wrote to stderr, what failed, and when they started and ended.

    One line each: a time, the server and its launch, a kind and a text. Kinds are stderr, stdout
    (lines that are not messages), failure, start, end, restart, rest, refusal and, with -v,
    decision. With --json, each line is a JSON object.

    \b
    Examples:
      mcp-launch logs files -f               follow one server
      mcp-launch logs --failed --since 1h    what went wrong in the last hour
      mcp-launch logs files -v               why it got its directory
    """  # noqa: D301  # keeps the line breaks of what follows
    from mcp_launch.commands import logs

    request = logs.LogsRequest(
        server,
        session,
        lines,
        since,
        is_following=follow,
        is_verbose=verbose,
        is_json=as_json,
        only_failed=failed,
    )
    raise typer.Exit(logs.run(request, os.environ))
