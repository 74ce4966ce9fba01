"""`wrap`, `unwrap` and `uninstall`: mcp-launch in the hosts' files."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from mcp_launch.cli.app import TakesRunOptions, app
from mcp_launch.cli.parameters import Dry, Files, Hosts, Names, Yes


@app.command("wrap", cls=TakesRunOptions)
def _wrap(  # noqa: PLR0913  # typer wants a parameter for each option
    context: typer.Context,
    names: Names = None,
    *,
    host: Hosts = None,
    file: Files = None,
    yes: Yes = False,
    dry_run: Dry = False,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Also wrap files that Git tracks, naming mcp-launch without its path.",
        ),
    ] = False,
) -> None:
    """Put mcp-launch in front of the servers' commands in the hosts' files.

    Options of run after -- are written into the entries.
    """
    options = tuple(context.obj)
    how = {"is_sure": yes, "is_dry": dry_run, "is_shared": shared, "options": options}
    _edit((names, host, file), how, is_wrapping=True)


@app.command("unwrap")
def _unwrap(  # noqa: PLR0913  # typer wants a parameter for each option
    names: Names = None,
    *,
    host: Hosts = None,
    file: Files = None,
    yes: Yes = False,
    dry_run: Dry = False,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Also unwrap the files of other projects.")
    ] = False,
) -> None:
    """Remove mcp-launch from the hosts' files."""
    how = {"is_sure": yes, "is_dry": dry_run, "is_everywhere": everywhere}
    _edit((names, host, file), how, is_wrapping=False)


def _edit(
    narrowed: tuple[list[str] | None, ...], how: dict[str, Any], *, is_wrapping: bool
) -> None:
    from mcp_launch.commands import wrap

    names, hosts, files = (given or [] for given in narrowed)
    request = wrap.WrapRequest(names, hosts, files, **how)
    raise typer.Exit(wrap.run(request, os.environ, is_wrapping=is_wrapping))


@app.command("uninstall")
def _uninstall(*, yes: Yes = False, dry_run: Dry = False) -> None:
    """Remove mcp-launch from every file and delete its state, but not the program itself."""
    from mcp_launch.commands import uninstall

    raise typer.Exit(uninstall.run(os.environ, is_sure=yes, is_dry=dry_run))
