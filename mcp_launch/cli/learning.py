"""`demo`: mcp-launch for those who do not know it yet."""

from __future__ import annotations

import typer

from mcp_launch.cli.app import app


@app.command("demo")
def _demo() -> None:
    """Run two sessions, and show which processes are left when a host is killed."""
    from mcp_launch.commands.demo import show

    raise typer.Exit(show())
