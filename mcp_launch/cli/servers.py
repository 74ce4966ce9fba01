"""`ps` and `reap`: the servers on this machine."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Json, Yes


@app.command("ps")
def _ps(
    *,
    as_json: Json = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every second; q quits.")
    ] = False,
) -> None:
    """Show the servers, running or not, with the host and session of each."""
    from mcp_launch.commands import ps

    raise typer.Exit(ps.run(os.environ, is_json=as_json, is_watching=watch))


@app.command("reap")
def _reap(
    *,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", help="Only servers of this age or older: 30m, 2h, 1d."
        ),
    ] = "",
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """End the servers whose host is provably gone.

    Shows them with their proof, and asks. Servers that may still be needed are never ended.

    Exit code: 0, or 1 if one could not be ended.

    \b
    Examples:
      mcp-launch reap --dry-run          what would be ended
      mcp-launch reap --older-than 1h -y
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import reap

    request = reap.ReapRequest(yes, dry_run, older_than, as_json)
    raise typer.Exit(reap.run(request, os.environ))
