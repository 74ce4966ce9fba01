"""`doctor`: what is wrong."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Hosts, Json


@app.command("doctor")
def _doctor(  # noqa: PLR0913  # typer wants a parameter for each option
    *,
    host: Hosts = None,
    as_json: Json = False,
    live: Annotated[bool, typer.Option("--live", help="Also start every server.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Show what can be fixed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --fix: apply the fixes.")] = False,
    explain: Annotated[
        list[str] | None,
        typer.Option(
            "--explain",
            metavar="CODE",
            help="Only say what this code means, as `mcp-launch explain` does; may be repeated.",
        ),
    ] = None,
) -> None:
    """Check the servers of all hosts: show what is wrong and how to fix it.

    Exit code: 0 no problems, 1 problems found, 2 the checks could not run.
    """
    from mcp_launch.commands import doctor

    if explain:
        from mcp_launch.commands import explain as explaining

        raise typer.Exit(explaining.run(explain, is_json=as_json))
    request = doctor.DoctorRequest(host or [], as_json, live, fix, yes)
    raise typer.Exit(doctor.run(request, os.environ))
