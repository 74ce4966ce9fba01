"""`wrap`, `unwrap` and `uninstall`: mcp-launch in the hosts' files."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from mcp_launch.cli.app import TakesRunOptions, app
from mcp_launch.cli.parameters import Dry, Files, Hosts, Json, Names, Verbose, Yes


@app.command("wrap", cls=TakesRunOptions)
def _wrap(  # noqa: PLR0913  # typer wants a parameter for each option
    context: typer.Context,
    names: Names = None,
    *,
    host: Hosts = None,
    file: Files = None,
    yes: Yes = False,
    dry_run: Dry = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Put mcp-launch in front of the servers' commands in the hosts' files.

    Shows every change and asks before it writes. `mcp-launch unwrap` restores the files to the
    byte. Entries that are wrapped already stay as they are, unless options of `run` follow
    after --: these are written into the entries.

    Exit code: 0, or 1 if a file could not be read or written, or 2 for a wrong command line.

    \b
    Examples:
      mcp-launch wrap --dry-run               only show what would change
      mcp-launch wrap docs --host codex       one server of one host
      mcp-launch wrap docs -- --pass-env safe write an option of run
    """  # noqa: D301  # typer's mark for lines to keep as they are
    options = tuple(context.obj)
    how: dict[str, Any] = {"options": options}
    how |= {"is_sure": yes, "is_dry": dry_run, "is_verbose": verbose, "is_json": as_json}
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
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Remove mcp-launch from the hosts' files.

    A file that was wrapped and unwrapped is identical to the byte.

    Exit code: 0, or 1 if a file could not be read or written, or 2 for a wrong command line.

    \b
    Examples:
      mcp-launch unwrap docs          one server, in every host
      mcp-launch unwrap --all --yes   everything, in all projects
    """  # noqa: D301  # typer's mark for lines to keep as they are
    how = {"is_everywhere": everywhere}
    how |= {"is_sure": yes, "is_dry": dry_run, "is_verbose": verbose, "is_json": as_json}
    _edit((names, host, file), how, is_wrapping=False)


def _edit(
    narrowed: tuple[list[str] | None, ...], how: dict[str, Any], *, is_wrapping: bool
) -> None:
    from mcp_launch.commands import wrap

    names, hosts, files = (given or [] for given in narrowed)
    request = wrap.WrapRequest(names, hosts, files, **how)
    raise typer.Exit(wrap.run(request, os.environ, is_wrapping=is_wrapping))


@app.command("uninstall")
def _uninstall(*, yes: Yes = False, dry_run: Dry = False, as_json: Json = False) -> None:
    """Remove mcp-launch from every file and delete its state, but not the program itself.

    Exit code: 0, or 1 if something is in the way (with --dry-run: would be).

    \b
    Examples:
      mcp-launch uninstall --dry-run   what would be unwrapped and removed
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import uninstall

    raise typer.Exit(uninstall.run(os.environ, is_sure=yes, is_dry=dry_run, is_json=as_json))
