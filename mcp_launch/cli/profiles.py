"""`trust` and `env`: what a server gets, and who may say so."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Dry, Hosts, Json, Yes


@app.command("trust")
def _trust(
    path: Annotated[
        str, typer.Argument(help="A .mcp-launch.toml or its directory; default: this project's.")
    ] = "",
    *,
    yes: Yes = False,
    dry_run: Dry = False,
    forget: Annotated[bool, typer.Option("--forget", help="Stop trusting it.")] = False,
    as_json: Json = False,
) -> None:
    """Allow a project's .mcp-launch.toml to be used, as it is now.

    Shows what the file would do, and what has changed since you trusted it. Trust ends when the
    file changes.

    \b
    Examples:
      mcp-launch trust             the file of this project
      mcp-launch trust --forget    stop trusting it
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import trust

    request = trust.TrustRequest(path, yes, dry_run, forget, as_json)
    raise typer.Exit(trust.run(request, os.environ))


@app.command("env")
def _env(
    context: typer.Context,
    server: Annotated[
        str,
        typer.Argument(
            help="A server of a host or profile; or, after --, the arguments of `run`.",
            metavar="[SERVER] [-- [RUN-OPTIONS] [COMMAND...]]",
            show_default=False,
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
    as_json: Json = False,
) -> None:
    """Show what a server started here would get, and where each value comes from."""
    from mcp_launch.commands import env

    request = env.EnvRequest(server, host or [], explain, as_json, context.obj)
    raise typer.Exit(env.run(request, os.environ))
