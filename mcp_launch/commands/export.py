"""`mcp-launch export`: the records of calls, for OpenTelemetry."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.commands.app import app
from mcp_launch.errors import LaunchError


@app.command("export")
def export(
    *,
    otlp: Annotated[
        str,
        typer.Option(
            "--otlp",
            metavar="URL",
            help="The collector; default: OTEL_EXPORTER_OTLP_ENDPOINT, or http://localhost:4318.",
        ),
    ] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep exporting, until it is ended.")
    ] = False,
) -> int:
    """Send calls to an OpenTelemetry collector, as spans.

    Only what is new since the last export to the same collector is sent. With --follow, it goes
    on, and waits while the collector is away.

    Exit code: 0, or 1 if the collector did not accept something.

    \b
    Examples:
      mcp-launch export --otlp http://127.0.0.1:4318            once
      mcp-launch export --otlp http://127.0.0.1:4318 --follow   as a service
    """  # noqa: D301  # keeps the line breaks of what follows
    try:
        from mcp_launch.commands import spans
    except ModuleNotFoundError:
        raise LaunchError(
            "exporting needs OpenTelemetry's SDK, which is not installed with mcp-launch",
            fix="in the clone of its repository: uv tool install --reinstall '.[otel]' "
            "(or: pipx install --force '.[otel]'; in a virtual environment: pip install '.[otel]')",
        ) from None
    return spans.run(otlp, os.environ, is_following=follow)
