"""The full command line: everything but `run`, which never comes through here."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from mcp_launch import __version__
from mcp_launch.commands import usage_errors
from mcp_launch.commands.screen import say
from mcp_launch.errors import LaunchError, UsageError, tell

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
    commands = _list_commands()
    try:
        usage_errors.check_command(arguments, commands)
        at = len(arguments)
        if "".join(arguments[:1]) in {"env", "wrap"} and "--" in arguments:
            at = arguments.index("--")  # what follows are the words of a launch, none of ours
        usage_errors.check_wrap(arguments[:at])
        app(args=arguments[:at], prog_name="mcp-launch", obj=arguments[at + 1 :])
    except LaunchError as error:
        tell(error, sys.stderr)
        return usage_errors.finish(error, arguments, commands)
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
        is_for_host = code == usage_errors.USAGE and not usage_errors.is_by_person(
            arguments, commands
        )
        return (
            usage_errors.answer_host(usage_errors.explain(arguments, commands))
            if is_for_host
            else code
        )
    except Exception as fault:  # noqa: BLE001  # a fault of ours: reported, without a traceback
        from mcp_launch.state import crash

        return tell(crash.describe(fault, is_launch=False), sys.stderr)
    return 0


def _list_commands() -> list[str]:
    return [command.name or "" for command in app.registered_commands]


def _show_version(asked: bool) -> None:  # noqa: FBT001  # typer calls it so
    if asked:
        say(f"mcp-launch {__version__}")
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


class _WithRunOptions(TyperCommand):
    """A command whose `--` is followed by options of `run`, which typer does not know of."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401  # typer's own, or click's
        """Return what stands in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- RUN-OPTIONS]"]


@app.command("wrap", cls=_WithRunOptions)
def _wrap(  # noqa: PLR0913  # typer wants one for each
    context: typer.Context,
    names: _Names = None,
    *,
    host: _Hosts = None,
    file: _Files = None,
    yes: _Yes = False,
    dry_run: _Dry = False,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Also wrap files that Git tracks; mcp-launch is written there without its path.",
        ),
    ] = False,
) -> None:
    """Put mcp-launch before the servers in the hosts' files.

    What follows -- are options of run, which are written into the entries.
    """
    options = tuple(context.obj)
    how = {"is_sure": yes, "is_dry": dry_run, "is_shared": shared, "options": options}
    _edit((names, host, file), how, is_wrapping=True)


@app.command("unwrap")
def _unwrap(  # noqa: PLR0913  # as many as it has options
    names: _Names = None,
    *,
    host: _Hosts = None,
    file: _Files = None,
    yes: _Yes = False,
    dry_run: _Dry = False,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Also the files of other projects that were wrapped.")
    ] = False,
) -> None:
    """Take mcp-launch out of the hosts' files again."""
    how = {"is_sure": yes, "is_dry": dry_run, "is_everywhere": everywhere}
    _edit((names, host, file), how, is_wrapping=False)


def _edit(
    narrowed: tuple[list[str] | None, ...], how: dict[str, Any], *, is_wrapping: bool
) -> None:
    from mcp_launch.commands import wrap

    names, hosts, files = (given or [] for given in narrowed)
    request = wrap.WrapRequest(names, hosts, files, **how)
    raise typer.Exit(wrap.run(request, os.environ, is_wrapping=is_wrapping))


@app.command("uninstall")
def _uninstall(*, yes: _Yes = False, dry_run: _Dry = False) -> None:
    """Take mcp-launch out of every file and remove its state, not the program itself."""
    from mcp_launch.commands import uninstall

    raise typer.Exit(uninstall.run(os.environ, is_sure=yes, is_dry=dry_run))


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
    from mcp_launch.commands import trust

    if forget:
        path = trust.locate_kept(path)
        was_trusted = trust.forget(path, os.environ)
        say(path)
        say("No longer trusted." if was_trusted else "It was not trusted: nothing was changed.")
        return
    path = trust.locate(path)
    record = trust.read(path, os.environ)
    for line in (path, *trust.describe(record)):
        say(line)
    if record["trusted"]:
        say("Trusted already.")
        return
    if not yes and not (sys.stdin.isatty() and typer.confirm("Do you trust it?")):
        raise UsageError("nothing was changed", fix="answer yes, or add --yes")
    trust.decide(record, os.environ, is_trusted=True)
    say("Trusted until it changes.")


@app.command("doctor")
def _doctor(
    *,
    host: _Hosts = None,
    as_json: _Json = False,
    live: Annotated[bool, typer.Option("--live", help="Start every server, too.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Show what could be mended.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --fix: do it without asking.")
    ] = False,
) -> None:
    """Say what is wrong with the servers of all hosts, and what to do.

    Exit code: 0 nothing is wrong, 1 something is, 2 it could not look.
    """
    from mcp_launch.commands import doctor

    request = doctor.DoctorRequest(host or [], as_json, live, fix, yes)
    raise typer.Exit(doctor.run(request, os.environ))


@app.command("ps")
def _ps(
    *,
    as_json: _Json = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every second; q quits.")
    ] = False,
) -> None:
    """Show which servers run, for which session of which host."""
    from mcp_launch.commands import ps

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
    from mcp_launch.commands import reap

    raise typer.Exit(reap.run(os.environ, is_sure=yes, older_than=older_than))


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
    from mcp_launch.commands import env

    request = env.EnvRequest(server, host or [], explain, as_json, context.obj)
    raise typer.Exit(env.run(request, os.environ))


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
    from mcp_launch.commands import logs

    wanted = logs.Wanted(server, session)
    raise typer.Exit(logs.run(wanted, os.environ, count=lines, is_following=follow))


@app.command("demo")
def _demo() -> None:
    """Show two sessions, and what is left when a host is killed."""
    from mcp_launch.commands.demo import show

    raise typer.Exit(show())
