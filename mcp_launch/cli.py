"""The full command line: everything but `run`, which never comes through here."""

from __future__ import annotations

import os
import select
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from mcp_launch import __version__
from mcp_launch.errors import LaunchError, UsageError, printable, suggest, tell

# The exit code of command lines that were not understood, and of commands that could not begin.
_USAGE = 2

app = typer.Typer(
    help="Start MCP servers in the right place, for the right session, and leave nothing behind.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,  # the environment is among them
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a poor locale is no reason to fail
    try:
        _check_command(arguments)
        at = len(arguments)
        if "".join(arguments[:1]) in {"env", "wrap"} and "--" in arguments:
            at = arguments.index("--")  # what follows are the words of a launch, none of ours
        app(args=arguments[:at], prog_name="mcp-launch", obj=arguments[at + 1 :])
    except LaunchError as error:
        tell(error, sys.stderr)
        return _USAGE if _is_by_person(arguments) else _answer_host(error)
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
        is_for_host = code == _USAGE and not _is_by_person(arguments)
        return _answer_host(_misunderstood(arguments)) if is_for_host else code
    return 0


def _is_by_person(arguments: list[str]) -> bool:
    """Tell whether this is a command that no host has in an entry."""
    return arguments[:1] != ["run"] and "".join(arguments[:1]) in _list_commands()


def _check_command(arguments: list[str]) -> None:
    if not arguments and os.isatty(0):
        return  # a person, who is shown the help
    if not arguments or (arguments[0] not in _list_commands() and arguments[0][:1] != "-"):
        raise _misunderstood(arguments)


def _list_commands() -> list[str]:
    return [command.name or "" for command in app.registered_commands]


def _misunderstood(arguments: list[str]) -> LaunchError:
    """Say what a host's entry lacks: mostly it is the word `run`."""
    first = arguments[0] if arguments else ""
    error = UsageError(
        f"mcp-launch has no command {first!r}" if first else "mcp-launch was given no command",
        fix=f"{suggest(first, _list_commands())}before a server's command write: "
        "mcp-launch run -- COMMAND (see mcp-launch --help)",
    )
    error.exit_code = _USAGE
    return error


def _answer_host(error: LaunchError) -> int:
    """Tell a host, too: an entry with a slip in it is started by a host that waits."""
    if not os.isatty(0) and hasattr(select, "poll"):
        from mcp_launch import answering

        answering.answer_host(error)
    return error.exit_code


def _show_version(asked: bool) -> None:  # noqa: FBT001  # typer calls it so
    if asked:
        typer.echo(f"mcp-launch {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[  # its callback does the work
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
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


_Names = Annotated[
    list[str] | None,
    typer.Argument(help="Servers; default: all.", metavar="SERVER", show_default=False),
]
_Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", help="Only this host; may be repeated."),
]
_Files = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="FILE", help="Only this file; may be repeated."),
]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
_Dry = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
_How = tuple[bool, bool, tuple[str, ...]]


@app.command("wrap")
def _wrap(  # noqa: PLR0913  # typer wants one for each
    context: typer.Context,
    names: _Names = None,
    *,
    host: _Hosts = None,
    file: _Files = None,
    yes: _Yes = False,
    dry_run: _Dry = False,
) -> None:
    """Put mcp-launch before the servers in the hosts' files; `-- OPTIONS` adds options of run."""
    _edit((names, host, file), (yes, dry_run, tuple(context.obj)), is_wrapping=True)


@app.command("unwrap")
def _unwrap(
    names: _Names = None,
    *,
    host: _Hosts = None,
    file: _Files = None,
    yes: _Yes = False,
    dry_run: _Dry = False,
) -> None:
    """Take mcp-launch out of the hosts' files again."""
    _edit((names, host, file), (yes, dry_run, ()), is_wrapping=False)


def _edit(narrowed: tuple[list[str] | None, ...], how: _How, *, is_wrapping: bool) -> None:
    from mcp_launch import editing

    names, hosts, files = (given or [] for given in narrowed)
    request = editing.Request(names, hosts, files, *how)
    raise typer.Exit(editing.run(request, os.environ, is_wrapping=is_wrapping))


@app.command("trust")
def _trust(
    path: Annotated[
        str, typer.Argument(help="A .mcp-launch.toml or its directory; default: this project's.")
    ] = "",
    *,
    yes: _Yes = False,
    forget: Annotated[bool, typer.Option("--forget", help="Trust it no longer.")] = False,
) -> None:
    """Let a project's .mcp-launch.toml be used as it is now."""
    from mcp_launch import trusting

    path = trusting.locate(path)
    record = trusting.read(path, os.environ)
    for line in (path, *trusting.describe(record)):
        typer.echo(printable(line))
    if forget:
        trusting.decide(record, os.environ, is_trusted=False)
        typer.echo("No longer trusted.")
        return
    if record["trusted"]:
        typer.echo("Trusted already.")
        return
    if not yes and not (sys.stdin.isatty() and typer.confirm("Do you trust it?")):
        raise UsageError("nothing was changed", fix="answer yes, or add --yes")
    trusting.decide(record, os.environ, is_trusted=True)
    typer.echo("Trusted until it changes.")


@app.command("doctor")
def _doctor(
    *,
    host: _Hosts = None,
    as_json: _Json = False,
    live: Annotated[bool, typer.Option("--live", help="Start every server, too.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Show what could be mended.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --fix: mend it.")] = False,
) -> None:
    """Say what is wrong with the servers of all hosts, and what to do.

    Exit code: 0 nothing is wrong, 1 something is, 2 it could not look.
    """
    from mcp_launch.doctor import command

    request = command.Request(host or [], as_json, live, fix, yes)
    raise typer.Exit(command.run(request, os.environ))


@app.command("ps")
def _ps(
    *,
    as_json: _Json = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, until q.")] = False,
) -> None:
    """Show which servers run, for which session of which host."""
    from mcp_launch import ps

    raise typer.Exit(ps.run(os.environ, is_json=as_json, is_watching=watch))


@app.command("reap")
def _reap(
    *,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="Only what is so old: 30m, 2h, 1d."),
    ] = "",
    yes: _Yes = False,
) -> None:
    """End the servers that are proven to have no host any more."""
    from mcp_launch import reaping

    raise typer.Exit(reaping.run(os.environ, is_sure=yes, older_than=older_than))


@app.command("env")
def _env(
    context: typer.Context,
    server: Annotated[
        str,
        typer.Argument(
            help="A server of a host or profile; or, after --, what follows `run`.",
            metavar="[SERVER] [-- [RUN-OPTIONS] [COMMAND...]]",
            show_default=False,
        ),
    ] = "",
    *,
    host: _Hosts = None,
    explain: Annotated[
        str,
        typer.Option("--explain", metavar="NAME", help="Tell where this variable comes from."),
    ] = "",
    as_json: _Json = False,
) -> None:
    """Show what a server would get here and now, and where from."""
    from mcp_launch import explaining

    request = explaining.Request(server, host or [], explain, as_json, context.obj)
    raise typer.Exit(explaining.run(request, os.environ))


@app.command("logs")
def _logs(
    server: Annotated[
        str, typer.Argument(help="A server; default: all.", metavar="SERVER", show_default=False)
    ] = "",
    *,
    session: Annotated[
        str,
        typer.Option("--session", metavar="ID", help="A session or thread, or a part of its id."),
    ] = "",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last.")] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show what comes, too.")] = False,
) -> None:
    """Show what servers said on stderr, and what launches decided."""
    from mcp_launch import logs

    wanted = logs.Wanted(server, session)
    raise typer.Exit(logs.run(wanted, os.environ, count=lines, is_following=follow))


@app.command("demo")
def _demo() -> None:
    """Show two sessions, and what is left when a host is killed."""
    from mcp_launch.demo import show

    raise typer.Exit(show())
