"""The full command line: everything but `run`, which never comes through here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mcp_launch import __version__
from mcp_launch.errors import LaunchError, tell

app = typer.Typer(
    help="Start MCP servers in the right place, for the right session, and leave nothing behind.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        result = app(args=arguments, prog_name="mcp-launch", standalone_mode=True)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1
    except LaunchError as error:
        return tell(error, sys.stderr)
    return result if isinstance(result, int) else 0


def _show_version(asked: bool) -> None:  # noqa: FBT001  # typer calls it so
    if asked:
        typer.echo(f"mcp-launch {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[  # its callback does the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Hold the options of no command."""


@app.command(
    "run",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def _run() -> None:
    """Start a server: mcp-launch run [OPTIONS] [--] COMMAND [ARGS...]."""
    # __main__ takes every `run` before us, except where there is no fork.
    raise LaunchError(
        "`mcp-launch run` cannot promise to end a server's processes on this system",
        fix="run it on Linux, on macOS or in WSL, or take it out of the entry here",
    )


@app.command("demo")
def _demo() -> None:
    """Show two sessions side by side, and what is left when a host is killed."""
    from mcp_launch.demo import show

    raise typer.Exit(show())
