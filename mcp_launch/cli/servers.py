"""`list`, `ps`, `env` and `reap`: the servers in files, and on this machine."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import TakesRunCommand, app
from mcp_launch.cli.parameters import Hosts, Json, Names, Verbose, Yes, offer_servers


@app.command("list")
def _list(
    servers: Names = None,
    *,
    hosts: Hosts = None,
    profiles: Annotated[
        bool, typer.Option("--profiles", help="List your profiles instead, and what each sets.")
    ] = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Show every server in the hosts' files: wrapped or not, running or not.

    These are the files of this user and of the current project. With -v, the file and line of
    each entry are shown, and its whole command.

    Exit code: 1 if a file could not be read, else 0.

    \b
    Examples:
      mcp-launch list                all servers of all hosts
      mcp-launch list docs           the servers called docs
      mcp-launch list --host codex   the servers of one host
      mcp-launch list --profiles     your profiles, and what each sets
    """  # noqa: D301  # keeps the line breaks of what follows
    from mcp_launch.commands import list_profiles, list_servers

    if profiles:
        raise typer.Exit(list_profiles.run(os.environ, is_json=as_json))
    code = list_servers.run(
        servers or [], hosts or [], os.environ, is_json=as_json, is_verbose=verbose
    )
    raise typer.Exit(code)


@app.command("ps")
def _ps(  # noqa: PLR0913  # one for each option
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Servers, hosts, or the beginnings of session ids; default: all.",
            metavar="NAME",
            show_default=False,
            autocompletion=offer_servers,
        ),
    ] = None,
    *,
    hosts: Hosts = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Refresh every second; q quits."),
    ] = False,
    short: Annotated[
        bool, typer.Option("--short", help="Print one line for a prompt, or nothing at all.")
    ] = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Show the servers, running or not, with the host and session of each.

    UP is the age of the server itself, LAST how long ago it was last called. With -v, everything
    else that is known is shown below each server: how its session is known, its processes, its
    command.

    \b
    Examples:
      mcp-launch ps                the servers of all hosts and sessions
      mcp-launch ps docs           only the servers called docs
      mcp-launch ps 01a1ebf6       only those of one session
      mcp-launch ps --watch        refresh every second
      mcp-launch ps --short        3 sessions, 9 servers, 412 MB, 1 orphan
    """  # noqa: D301  # as above
    from mcp_launch.commands import ps

    request = ps.PsRequest(
        tuple(names or ()),
        tuple(hosts or ()),
        is_json=as_json,
        is_watching=watch,
        is_short=short,
        is_verbose=verbose,
    )
    raise typer.Exit(ps.run(request, os.environ))


@app.command("env", cls=TakesRunCommand)
def _env(  # noqa: PLR0913  # typer wants a parameter for each option
    context: typer.Context,
    server: Annotated[
        str,
        typer.Argument(
            help="A server of a host or profile; or, after --, the arguments of `run`.",
            metavar="SERVER",
            show_default=False,
            autocompletion=offer_servers,
        ),
    ] = "",
    *,
    host: Hosts = None,
    explain: Annotated[
        str,
        typer.Option(
            "--explain",
            metavar="NAME",
            help="Show where this variable, or option of `run` (--start), comes from.",
        ),
    ] = "",
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also list the variables that are passed on."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a server started here would get, and where each value comes from.

    Starts nothing. Exit code: 0, or 1 if the launch would fail or the variable is missing.

    \b
    Examples:
      mcp-launch env docs                       as its host would start it here
      mcp-launch env docs --explain API_KEY     where one variable is looked for
      mcp-launch env docs --explain --cwd       where a setting comes from
      mcp-launch env -- --pass-env safe npx x   as `mcp-launch run` would start it
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import env

    request = env.EnvRequest(server, host or [], explain, as_json, context.obj, verbose)
    raise typer.Exit(env.run(request, os.environ))


@app.command("reap")
def _reap(
    *,
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """End the servers whose host is provably gone.

    Shows them with their proof, and asks. A server is never ended while a process holds the other
    end of its stdin or stdout.

    Exit code: 0, or 1 if one could not be ended.

    \b
    Examples:
      mcp-launch reap --dry-run    what would be ended
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import reap

    request = reap.ReapRequest(yes, dry_run, as_json)
    raise typer.Exit(reap.run(request, os.environ))
