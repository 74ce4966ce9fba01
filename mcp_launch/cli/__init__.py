"""The full command line: every command except `run`, which `mcp_launch.main` starts itself."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

import typer

from mcp_launch.cli import (  # noqa: F401  # each registers its commands
    calls,
    completion,
    explanations,
    exporting,
    findings,
    learning,
    logs,
    profiles,
    restarting,
    servers,
    wrapping,
)
from mcp_launch.cli.app import app, list_command_names
from mcp_launch.cli.bad_usage import BadUsage, translate
from mcp_launch.commands import own_state, usage_errors
from mcp_launch.errors import LaunchError, UsageError, tell


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    _open_closed_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a locale without UTF-8 must not make us fail
    if arguments[:1] == [completion.COMMAND]:
        return completion.print_suggestions(arguments[1:])
    commands = list_command_names()
    try:
        own_state.renew_script(os.environ)
        return _run(arguments, commands)
    except LaunchError as error:
        tell(error, sys.stderr)
        return usage_errors.finish(error, arguments, commands)
    except SystemExit as ended:
        # The reader of a pipe has left, as in `logs | head`; or a signal ended us, with its code.
        return ended.code if isinstance(ended.code, int) else 0
    except Exception as fault:  # noqa: BLE001  # a bug in mcp-launch: reported without a traceback
        from mcp_launch.state import crash

        return tell(crash.describe(fault, is_launch=False), sys.stderr)


def _open_closed_streams() -> None:
    """Replace the streams that our parent has closed (`>&-`), which are None."""
    # In this order each gets its own number back, which no other file may then have.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # stays open


def _run(arguments: list[str], commands: list[str]) -> int:
    usage_errors.check_command(arguments, commands)
    at = len(arguments)
    if "".join(arguments[:1]) in {"env", "wrap"} and "--" in arguments:
        at = arguments.index("--")  # the rest are arguments of `run`, not ours
    usage_errors.check_wrap(arguments[:at])
    try:
        code = app(
            args=arguments[:at] or ["--help"],
            prog_name="mcp-launch",
            obj=arguments[at + 1 :],
            standalone_mode=False,  # errors are ours to show
        )
    except BadUsage as bad:
        if arguments[0] not in commands:  # perhaps an entry that lacks the word `run`
            raise usage_errors.explain(arguments, commands) from None
        raise translate(bad, arguments[0]) from None
    except typer.Abort:
        raise UsageError("nothing was changed", fix="answer the question, or add --yes") from None
    return code if isinstance(code, int) else 0
