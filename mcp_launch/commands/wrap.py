"""`mcp-launch wrap` and `unwrap`: mcp-launch in the hosts' files."""

from __future__ import annotations

from typing import Annotated

import typer

from mcp_launch.commands.app import (
    Dry,
    Files,
    Hosts,
    Json,
    Names,
    TakesRunOptions,
    Verbose,
    Yes,
    app,
)


@app.command("wrap", cls=TakesRunOptions)
def wrap(  # noqa: PLR0913  # typer wants a parameter for each option
    context: typer.Context,
    names: Names = None,
    *,
    host: Hosts = None,
    file: Files = None,
    yes: Yes = False,
    dry_run: Dry = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
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
    from mcp_launch.commands import edit_files

    request = edit_files.EditRequest(
        names or [],
        host or [],
        file or [],
        context.obj,
        is_wrapping=True,
        is_sure=yes,
        is_dry=dry_run,
        is_verbose=verbose,
        is_json=as_json,
    )
    return edit_files.run(request)


@app.command("unwrap")
def unwrap(  # noqa: PLR0913  # typer wants a parameter for each option
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
) -> int:
    """Remove mcp-launch from the hosts' files.

    A file that was wrapped and unwrapped is identical to the byte.

    Exit code: 0, or 1 if a file could not be read or written, or 2 for a wrong command line.

    \b
    Examples:
      mcp-launch unwrap docs          one server, in every host
      mcp-launch unwrap --all --yes   everything, in all projects
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import edit_files

    request = edit_files.EditRequest(
        names or [],
        host or [],
        file or [],
        is_sure=yes,
        is_dry=dry_run,
        is_everywhere=everywhere,
        is_verbose=verbose,
        is_json=as_json,
    )
    return edit_files.run(request)
