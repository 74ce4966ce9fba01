"""`profile`, `trust`, `env` and `schema`: what a server gets, and who may say so."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Hosts, Json, Yes
from mcp_launch.commands.screen import say
from mcp_launch.errors import UsageError


@app.command("trust")
def _trust(
    path: Annotated[
        str, typer.Argument(help="A .mcp-launch.toml or its directory; default: this project's.")
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


@app.command("schema")
def _schema(
    name: Annotated[
        str,
        typer.Argument(
            help="config, project, or a command that prints JSON; default: list them all.",
            metavar="[NAME]",
            show_default=False,
        ),
    ] = "",
) -> None:
    r"""Print the JSON Schema of a profile file, or of what a command prints with --json.

    With it, editors complete and check ~/.config/mcp-launch/config.toml (config) and
    .mcp-launch.toml (project).

    \b
    Examples:
      mcp-launch schema          list all schemas
      mcp-launch schema ps       of what `mcp-launch ps --json` prints
      mcp-launch schema config > ~/.config/mcp-launch/config.schema.json
                                 for editors; the first line of config.toml
                                 is then: #:schema ./config.schema.json
    """
    from mcp_launch.commands import schema

    raise typer.Exit(schema.run(name))
