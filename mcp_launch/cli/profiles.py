"""`trust` and `env`: what a server gets, and who may say so."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from mcp_launch.cli.app import TakesRunCommand, app
from mcp_launch.cli.parameters import Hosts, Json, Yes
from mcp_launch.commands.screen import say
from mcp_launch.errors import UsageError


@app.command("trust")
def _trust(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A .mcp-launch.toml or its directory; default: this project's.",
            show_default=False,
        ),
    ] = "",
    *,
    yes: Yes = False,
    forget: Annotated[bool, typer.Option("--forget", help="Stop trusting it.")] = False,
) -> None:
    """Allow a project's .mcp-launch.toml to be used, as it is now."""
    from mcp_launch.commands import trust

    if forget:
        path = trust.locate_kept(path)
        was_trusted = trust.forget(path, os.environ)
        say(path)
        say("No longer trusted." if was_trusted else "It was not trusted, so nothing was changed.")
        return
    path = trust.locate(path)
    record = trust.read(path, os.environ)
    for line in (path, *trust.describe(record)):
        say(line)
    if record["trusted"]:
        say("Already trusted.")
        return
    if not yes and not (sys.stdin.isatty() and typer.confirm("Do you trust it?")):
        raise UsageError("nothing was changed", fix="answer yes, or add --yes")
    trust.decide(record, os.environ, is_trusted=True)
    say("Trusted until it changes.")


@app.command("env", cls=TakesRunCommand)
def _env(
    context: typer.Context,
    server: Annotated[
        str,
        typer.Argument(
            help="A server of a host or profile; or, after --, the arguments of `run`.",
            metavar="SERVER",
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
