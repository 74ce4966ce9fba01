"""What all commands have in common: the help text, and the parameters that several of them share.

`SECTIONS` says where the help text lists a command. For the help text and for a shell's completion
typer needs the modules of commands, so these import late what is slow: the hosts, the survey of
this machine, the checks.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mcp_launch import __version__
from mcp_launch.commands.screen import say
from mcp_launch.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# The sections of the help text, and the order of the commands in each.
SECTIONS = {
    "Set up": ("wrap", "unwrap", "uninstall"),
    "See what runs": ("list", "ps", "calls", "logs", "env", "export"),
    "Find out what is wrong": ("doctor", "explain"),
    "Act": ("run", "restart", "reap"),
    "Learn": ("demo", "schema"),
}

# The module of each command.
COMMANDS = {name: name for names in SECTIONS.values() for name in names} | {
    "list": "list_servers",
    "run": "app",
    "schema": "explain",
    "unwrap": "wrap",
}

_EPILOG = "mcp-launch COMMAND --help shows the options of a command."

# The type that typer adds to a name ("SERVER <list[str]>"), and its notation for a range.
_TYPE = re.compile(r" <[^>]*>$")
_RANGE = re.compile(r"\s*\[x[<>]=?\d+\]|; x[<>]=?\d+(?=\])")


class PlainCommand(TyperCommand):
    """A command whose help text is for people: no types of Python, no notation for ranges."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401  # typer's own, or click's
        """Return the parts of the usage line, without typer's braces around a needed argument."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # typer's, or click's
        """Write the sections of the help text on arguments and options."""
        for kind, title in (("argument", "Arguments"), ("option", "Options")):
            if rows := list(self._list_rows(ctx, kind)):
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _list_rows(self, ctx: Any, kind: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401  # ditto
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and parameter.param_type_name == kind:
                yield _TYPE.sub("", record[0]), _RANGE.sub("", record[1])


class TakesRunOptions(PlainCommand):
    """A command that takes options of `run` after `--`, which typer does not parse."""

    after_dashes = "[-- RUN-OPTIONS]"

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401  # typer's own, or click's
        """Return the parts of the usage line."""
        return [*super().collect_usage_pieces(ctx), self.after_dashes]


class TakesRunCommand(TakesRunOptions):
    """A command that takes all arguments of `run` after `--`."""

    after_dashes = "[-- [RUN-OPTIONS] [COMMAND...]]"


class Commands(TyperGroup):
    """All commands; the help text lists them in sections, each with a whole sentence."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401  # typer's own, or click's
        """Return the names of all commands, in the order of the sections."""
        return sorted(super().list_commands(ctx), key=[*COMMANDS].index)

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


class App(typer.Typer):
    """A command line whose commands have our help text."""

    def command(self, *args: Any, **settings: Any) -> Callable[..., Any]:  # noqa: ANN401  # typer's own
        """Register a command."""
        return super().command(*args, **{"cls": PlainCommand} | settings)


app = App(
    cls=Commands,
    help="Start MCP servers in the right place, for the right session, and leave nothing behind.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,  # the environment is among them
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(context: typer.Context, asked: bool) -> None:  # noqa: FBT001  # typer calls it so
    if asked and not context.resilient_parsing:  # a shell only completes the line
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


# A project's file may name its servers as it likes, and typer's script for zsh evaluates what it
# is offered: no other names are.
_HARMLESS = re.compile(r"[\w.@/+-]+", re.ASCII)


def offer(names: Iterable[str]) -> list[str]:
    """Return the names that may be offered to a shell; typer takes those that fit the word."""
    return sorted({name for name in names if _HARMLESS.fullmatch(name)})


def offer_hosts() -> list[str]:
    """Return the names of all hosts."""
    from mcp_launch.hosts.configured import HOSTS

    return offer(HOSTS)


def offer_servers() -> list[str]:
    """Return the names of the servers in the hosts' files."""
    from mcp_launch.machine.survey import open_survey

    return offer(item.name for item in open_survey(os.environ).items)


def offer_sessions() -> list[str]:
    """Return the ids of the sessions that have servers."""
    from mcp_launch.machine.survey import open_survey

    hosts = open_survey(os.environ).take_census().hosts
    return offer(one.thread or one.session for host in hosts for one in host.sessions)


def name_servers(text: str, metavar: str = "SERVER") -> Any:  # noqa: ANN401  # typer's own
    """Return an argument for which a shell offers the servers in the hosts' files."""
    return typer.Argument(
        help=text, metavar=metavar, show_default=False, autocompletion=offer_servers
    )


Names = Annotated[list[str] | None, name_servers("Servers; default: all.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="HOST",
        help="Only this host; may be repeated.",
        autocompletion=offer_hosts,
    ),
]
Session = Annotated[
    str,
    typer.Option(
        "--session",
        metavar="ID",
        help="A session or thread, or the beginning of its id.",
        autocompletion=offer_sessions,
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="FILE", help="Only this file; may be repeated."),
]
Since = Annotated[
    str,
    typer.Option(
        "--since", metavar="TIME", help="Only what came later: 10m, 2h, 10:00, 2026-11-17T10:00."
    ),
]
Lines = Annotated[
    int | None,
    typer.Option(
        "--lines",
        "-n",
        min=1,
        metavar="NUMBER",
        help="How many of the last; default: 30 calls or 200 lines, or all with --since.",
        show_default=False,
    ),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep showing what is new.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show more.")]
