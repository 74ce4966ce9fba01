"""`demo`, `help` and `schema`: mcp-launch for those who do not know it yet."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from mcp_launch.cli.app import app


@app.command("demo")
def _demo() -> None:
    """Kill a stand-in for a host, and show which processes are left."""
    from mcp_launch.commands.demo import show

    raise typer.Exit(show())


@app.command("help")
def _help(
    context: typer.Context,
    topic: Annotated[
        str,
        typer.Argument(
            help="A topic, a command or a code of doctor; default: list the topics.",
            metavar="TOPIC",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Explain a topic, a command or a code of doctor.

    \b
    Examples:
      mcp-launch help            list the topics
      mcp-launch help options    the options of run
      mcp-launch help ps         the command ps, and how to read what it shows
      mcp-launch help ML206      the same as: mcp-launch explain ML206
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import explain
    from mcp_launch.commands import help as topics

    if re.fullmatch(r"(ML)?\d+", topic, re.IGNORECASE):
        raise typer.Exit(explain.run([topic], is_json=False))
    raise typer.Exit(topics.run(topic, _read_help(context, topic)))


def _read_help(context: typer.Context, name: str) -> str:
    """Return the help text of a command; empty: there is no such command."""
    group = context.parent
    command = group.command.get_command(group, name) if group else None  # type: ignore[attr-defined]
    if command is None:
        return ""
    own = command.make_context(name, [], parent=group, resilient_parsing=True)
    return str(command.get_help(own))


@app.command("schema")
def _schema(
    name: Annotated[
        str,
        typer.Argument(
            help="config, or a command that prints JSON; default: list them all.",
            metavar="SCHEMA",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Print the JSON Schema of the user's file, or of what a command prints with --json.

    With it, editors complete and check ~/.config/mcp-launch/config.toml.

    \b
    Examples:
      mcp-launch schema          list all schemas
      mcp-launch schema ps       of what `mcp-launch ps --json` prints
      mcp-launch schema config > ~/.config/mcp-launch/config.schema.json
                                 for editors; the first line of config.toml
                                 is then: #:schema ./config.schema.json
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import schema

    raise typer.Exit(schema.run(name))
