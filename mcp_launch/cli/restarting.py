"""`restart`: replace servers while their hosts stay connected."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Hosts, Json, Session, offer_servers


@app.command("restart")
def _restart(
    servers: Annotated[
        list[str] | None,
        typer.Argument(
            help="Servers that run.",
            metavar="SERVER",
            show_default=False,
            autocompletion=offer_servers,
        ),
    ] = None,
    *,
    host: Hosts = None,
    session: Session = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Every server that mcp-launch has started.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Replace running servers by fresh ones while their hosts stay connected.

    Calls that are being answered may finish, for at most 10 s. The new server gets the handshake
    of its host again, and the host sees nothing of it, unless the tools have changed. If a
    server does not come back, calls say why, and the next restart tries again.

    Sessions on one connection, and sessions that share a server, are restarted together.

    Exit code: 0 restarted, or not running; 1 one did not come back; 2 no such server.

    \b
    Examples:
      mcp-launch restart files                 in every session
      mcp-launch restart files --host codex    only those of one host
      mcp-launch restart --all                 every server
    """  # noqa: D301  # keeps the line breaks of what follows
    from mcp_launch.commands import restart

    request = restart.RestartRequest(
        tuple(servers or ()), tuple(host or ()), session, is_all=everything, is_json=as_json
    )
    raise typer.Exit(restart.run(request, os.environ))
