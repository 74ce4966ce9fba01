"""Parameters that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Names = Annotated[
    list[str] | None,
    typer.Argument(help="Servers; default: all.", metavar="SERVER", show_default=False),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", help="Only this host; may be repeated."),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="FILE", help="Only this file; may be repeated."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show more.")]
