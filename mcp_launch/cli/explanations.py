"""`explain`: what the doctor's codes mean."""

from __future__ import annotations

from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Json


@app.command("explain")
def _explain(
    codes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Codes such as ML206, or their beginnings; default: list all.",
            metavar="CODE",
            show_default=False,
        ),
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Say what a code of the doctor means, why it matters and how to fix it.

    Without a code, all codes are listed; with the beginning of some (ML2), those.

    Exit code: 0, or 2 if a code does not exist.

    \b
    Examples:
      mcp-launch explain             list all codes
      mcp-launch explain ML206       explain one
      mcp-launch explain ML2         list those that begin with ML2
    """  # noqa: D301  # the command line needs the character itself
    from mcp_launch.commands import explain

    raise typer.Exit(explain.run(codes or [], is_json=as_json))
