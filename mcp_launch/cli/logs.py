"""`logs`: what servers wrote, and what launches did."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app


@app.command("logs")
def _logs(
    server: Annotated[
        str, typer.Argument(help="A server; default: all.", metavar="SERVER", show_default=False)
    ] = "",
    *,
    session: Annotated[
        str,
        typer.Option("--session", metavar="ID", help="A session or thread, or a part of its id."),
    ] = "",
    lines: Annotated[
        int,
        typer.Option("--lines", "-n", metavar="NUMBER", min=1, help="How many of the last lines."),
    ] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep showing new lines.")] = False,
) -> None:
    """Show what servers wrote to stderr, and what launches decided."""
    from mcp_launch.commands import logs

    wanted = logs.Wanted(server, session)
    raise typer.Exit(logs.run(wanted, os.environ, count=lines, is_following=follow))
