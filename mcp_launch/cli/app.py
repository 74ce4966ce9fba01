"""The command line itself: its commands by topic, and its help text.

Commands register themselves with `@app.command`; `SECTIONS` says where the help text lists them.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mcp_launch import __version__
from mcp_launch.commands.screen import say
from mcp_launch.errors import LaunchError

# The sections of the help text, and the order of the commands in each.
SECTIONS = {
    "Set up": ("wrap", "unwrap", "profile", "trust", "completion", "uninstall"),
    "See what runs": ("list", "ps", "logs", "env"),
    "Find out what is wrong": ("doctor", "explain"),
    "Act": ("run", "restart", "reap"),
    "Learn": ("demo", "help", "schema"),
}


class Commands(TyperGroup):
    """All commands; the help text lists them in sections, each with a whole sentence."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401  # typer's own, or click's
        """Return the names of all commands, in the order of the sections."""
        order = [name for names in SECTIONS.values() for name in names]
        return sorted(super().list_commands(ctx), key=order.index)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002  # ditto
        """Write the sections of the help text."""
        for title, names in SECTIONS.items():
            # The first sentence, and all of it: the formatter wraps what is too long.
            rows = [
                (name, self.commands[name].get_short_help_str(limit=1000))
                for name in names
                if name in self.commands
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=Commands,
    help="Start MCP servers in the right place, for the right session, and leave nothing behind.",
    epilog="mcp-launch help lists the topics of the documentation.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,  # the environment is among them
    context_settings={"help_option_names": ["-h", "--help"]},
)


def list_command_names() -> list[str]:
    """Return the names of all commands."""
    return [command.name or "" for command in app.registered_commands] + [
        group.name or "" for group in app.registered_groups
    ]


def _show_version(asked: bool) -> None:  # noqa: FBT001  # typer calls it so
    if asked:
        say(f"mcp-launch {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[  # its callback does the work
        bool,
        typer.Option(
            "--version", "-V", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Declare the options that come before any command."""


@app.command(
    "run",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def _run() -> None:
    """Start a server: mcp-launch run [OPTIONS] [--] COMMAND [ARGS...]."""
    # `mcp_launch.main` handles every `run` itself, except on systems without fork.
    raise LaunchError(
        "`mcp-launch run` cannot guarantee that a server's processes end on this system",
        fix="run it on Linux, on macOS or in WSL, or remove it from the entry on this machine",
    )
