"""`demo`, `explain` and `schema`: mcp-launch for those who do not know it yet."""

from __future__ import annotations

from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Json, offer


@app.command("demo")
def _demo() -> None:
    """Kill a stand-in for a host, and show which processes are left."""
    from mcp_launch.commands.demo import show

    raise typer.Exit(show())


def _offer_names() -> list[str]:
    from mcp_launch.commands.explain import list_names

    return offer(list_names())


@app.command("explain")
@app.command("help", hidden=True)
def _explain(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Codes of doctor or their beginnings, topics, commands; default: list them.",
            metavar="NAME",
            show_default=False,
            autocompletion=_offer_names,
        ),
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Explain a code of doctor, a topic or a command.

    \b
    Examples:
      mcp-launch explain             list the topics and the codes
      mcp-launch explain ML206       what a finding means, and how to fix it
      mcp-launch explain ML2         list the codes that begin with ML2
      mcp-launch explain options     the options of run
      mcp-launch help ps             the same command by its other name
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import explain

    def read_help(name: str) -> str:
        group = context.parent
        command = group.command.get_command(group, name) if group else None  # type: ignore[attr-defined]
        if command is None:
            return ""
        own = command.make_context(name, [], parent=group, resilient_parsing=True)
        return str(command.get_help(own))

    raise typer.Exit(explain.run(names or [], read_help, is_json=as_json))


@app.command("schema")
def _schema() -> None:
    """Print the JSON Schema of ~/.config/mcp-launch/config.toml, by which editors check it.

    \b
    Examples:
      mcp-launch schema > ~/.config/mcp-launch/config.schema.json
                 for editors; the first line of config.toml
                 is then: #:schema ./config.schema.json
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands.output import print_json
    from mcp_launch.launch import profile_schema

    print_json(profile_schema.describe())
