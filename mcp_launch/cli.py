"""The full command line: every command except `run`, which `mcp_launch.main` starts itself."""

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
            stream.reconfigure(
                errors="backslashreplace"
            )  # a locale without UTF-8 must not make us fail
    commands = _list_commands()
    try:
        usage_errors.check_command(arguments, commands)
        at = len(arguments)
        if "".join(arguments[:1]) in {"env", "wrap"} and "--" in arguments:
            at = arguments.index("--")  # the rest are arguments of `run`, not ours
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
    except Exception as fault:  # noqa: BLE001  # a bug in mcp-launch: reported without a traceback
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
    """A command that takes options of `run` after `--`, which typer does not parse."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401  # typer's own, or click's
        """Return the parts of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- RUN-OPTIONS]"]


@app.command("wrap", cls=_WithRunOptions)
def _wrap(  # noqa: PLR0913  # typer wants a parameter for each option
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
            help="Also wrap files that Git tracks, naming mcp-launch without its path.",
        ),
    ] = False,
) -> None:
    """Put mcp-launch in front of the servers' commands in the hosts' files.

    Options of run after -- are written into the entries.
    """
    options = tuple(context.obj)
    how = {"is_sure": yes, "is_dry": dry_run, "is_shared": shared, "options": options}
    _edit((names, host, file), how, is_wrapping=True)


@app.command("unwrap")
def _unwrap(  # noqa: PLR0913  # typer wants a parameter for each option
    names: _Names = None,
    *,
    host: _Hosts = None,
    file: _Files = None,
    yes: _Yes = False,
    dry_run: _Dry = False,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Also unwrap the files of other projects.")
    ] = False,
) -> None:
    """Remove mcp-launch from the hosts' files."""
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
    """Remove mcp-launch from every file and delete its state, but not the program itself."""
    from mcp_launch.commands import uninstall

    raise typer.Exit(uninstall.run(os.environ, is_sure=yes, is_dry=dry_run))


@app.command("trust")
def _trust(
    path: Annotated[
        str, typer.Argument(help="A .mcp-launch.toml or its directory; default: this project's.")
    ] = "",
    *,
    yes: _Yes = False,
    forget: Annotated[bool, typer.Option("--forget", help="Stop trusting it.")] = False,
) -> None:
    """Allow a project's .mcp-launch.toml to be used, as it is now."""
    from mcp_launch.commands import trust

    if forget:
        path = trust.locate_kept(path)
        was_trusted = trust.forget(path, os.environ)
        say(path)
        say("No longer trusted." if was_trusted else "It was not trusted, so nothing was changed.")
        return
    path = trust.locate(path)
    record = trust.read(path, os.environ)
    for line in (path, *trust.describe(record)):
        say(line)
    if record["trusted"]:
        say("Already trusted.")
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
    live: Annotated[bool, typer.Option("--live", help="Also start every server.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Show what can be fixed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --fix: apply the fixes.")] = False,
) -> None:
    """Check the servers of all hosts: show what is wrong and how to fix it.

    Exit code: 0 no problems, 1 problems found, 2 the checks could not run.
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
    """Show the servers, running or not, with the host and session of each."""
    from mcp_launch.commands import ps

    raise typer.Exit(ps.run(os.environ, is_json=as_json, is_watching=watch))


@app.command("reap")
def _reap(
    *,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", help="Only servers of this age or older: 30m, 2h, 1d."
        ),
    ] = "",
    yes: _Yes = False,
) -> None:
    """End the servers whose host is provably gone."""
    from mcp_launch.commands import reap

    raise typer.Exit(reap.run(os.environ, is_sure=yes, older_than=older_than))


@app.command("env")
def _env(
    context: typer.Context,
    server: Annotated[
        str,
        typer.Argument(
            help="A server of a host or profile; or, after --, the arguments of `run`.",
            metavar="[SERVER] [-- [RUN-OPTIONS] [COMMAND...]]",
            show_default=False,
        ),
    ] = "",
    *,
    host: _Hosts = None,
    explain: Annotated[
        str,
        typer.Option(
            "--explain",
            metavar="NAME",
            help="Show where this variable, or option of `run` (--start), comes from.",
        ),
    ] = "",
    as_json: _Json = False,
) -> None:
    """Show what a server started here would get, and where each value comes from."""
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
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")
    ] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep showing new lines.")] = False,
) -> None:
    """Show what servers wrote to stderr, and what launches decided."""
    from mcp_launch.commands import logs

    wanted = logs.Wanted(server, session)
    raise typer.Exit(logs.run(wanted, os.environ, count=lines, is_following=follow))


@app.command("demo")
def _demo() -> None:
    """Run two sessions, and show which processes are left when a host is killed."""
    from mcp_launch.commands.demo import show

    raise typer.Exit(show())
