"""`doctor`: what is wrong."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Hosts, Json, Verbose, Yes


@app.command("doctor")
def _doctor(  # noqa: PLR0913  # typer wants a parameter for each option
    *,
    host: Hosts = None,
    select: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Only these codes or levels: ML201, ML2 or error."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Not these, such as ML117, ML206:docs or note."),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Also start every server.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Ask, then fix what can be fixed.")] = False,
    yes: Yes = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Check the servers of all hosts: show what is wrong and how to fix it.

    Errors come first, then warnings, then notes. To ignore findings for good, list them in
    ~/.config/mcp-launch/config.toml: [doctor] ignore = ["ML117", "ML206:docs"].

    Exit code: 0 no errors or warnings, 1 some were found, 2 a check could not run.

    \b
    Examples:
      mcp-launch doctor --host codex       only Codex
      mcp-launch doctor --select error     only errors, for a script
      mcp-launch doctor --ignore ML2       without the findings about environments
      mcp-launch doctor --fix --select ML401 --yes    end servers without a host
    """  # noqa: D301  # click looks for this character, which keeps line breaks
    from mcp_launch.commands import doctor

    request = doctor.DoctorRequest(
        hosts=host or [],
        is_json=as_json,
        is_live=live,
        is_fixing=fix,
        is_sure=yes,
        is_verbose=verbose,
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
    )
    raise typer.Exit(doctor.run(request, os.environ))
