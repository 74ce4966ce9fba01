"""`doctor`: what is wrong."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Hosts, Json, Verbose
from mcp_launch.errors import UsageError


@app.command("doctor")
def _doctor(  # noqa: PLR0913  # typer wants a parameter for each option
    *,
    host: Hosts = None,
    level: Annotated[
        str, typer.Option(metavar="LEVEL", help="Show this and worse: error, warning or note.")
    ] = "note",
    select: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Only these codes, such as ML201 or ML2,ML401."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Not these codes, such as ML117 or ML206:docs."),
    ] = None,
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
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit with 0 whatever is found.")
    ] = False,
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
      mcp-launch doctor --level error      only errors, for a script
      mcp-launch doctor --ignore ML2       without the findings about environments
      mcp-launch doctor --fix --select ML401 --yes    end servers without a host
    """  # noqa: D301  # click looks for this character, which keeps line breaks
    from mcp_launch.commands import doctor

    if explain:
        from mcp_launch.commands import explain as explaining

        if live or fix or yes:
            raise UsageError(
                "--explain cannot be combined with --live, --fix or --yes",
                fix="leave out --explain, or the others",
            )
        raise typer.Exit(explaining.run(explain, is_json=as_json))
    request = doctor.DoctorRequest(
        hosts=host or [],
        is_json=as_json,
        is_live=live,
        is_fixing=fix,
        is_sure=yes,
        is_verbose=verbose,
        level=level,
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
        exits_zero=exit_zero,
    )
    raise typer.Exit(doctor.run(request, os.environ))
