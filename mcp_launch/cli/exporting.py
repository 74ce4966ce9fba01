"""`export`: the records of calls, for OpenTelemetry."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import app
from mcp_launch.cli.parameters import Json


@app.command("export")
def _export(  # noqa: PLR0913  # one for each option
    *,
    otlp: Annotated[
        str,
        typer.Option(
            "--otlp",
            metavar="URL",
            help="The collector; default: OTEL_EXPORTER_OTLP_ENDPOINT.",
        ),
    ] = "",
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="NAME=VALUE",
            help="A header for it; may be repeated. Better: OTEL_EXPORTER_OTLP_HEADERS.",
        ),
    ] = None,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="TIME",
            help="On the first run, only later calls: 10m, 2h, 2026-11-17T10:00; default: all.",
        ),
    ] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep exporting, until it is ended.")
    ] = False,
    interval: Annotated[
        str, typer.Option("--interval", metavar="AGE", help="How often, with --follow.")
    ] = "15s",
    as_json: Json = False,
) -> None:
    """Send calls and servers to an OpenTelemetry collector, as spans and metrics.

    Only what is new since the last export to the same collector is sent. With --follow, it goes
    on, and waits while the collector is away.

    Exit code: 0, or 1 if the collector did not accept something.

    \b
    Examples:
      mcp-launch export --otlp http://127.0.0.1:4318            once
      mcp-launch export --otlp http://127.0.0.1:4318 --follow   as a service
    """  # noqa: D301  # keeps the line breaks of what follows
    from mcp_launch.commands import export

    request = export.ExportRequest(
        otlp,
        tuple(header or ()),
        since,
        interval,
        is_following=follow,
        is_json=as_json,
    )
    raise typer.Exit(export.run(request, os.environ))
