"""The full command line: every command except `run`, which `mcp_launch.main` starts itself."""

from __future__ import annotations

import contextlib
import os
import sys
from io import TextIOWrapper

import typer

from mcp_launch import state
from mcp_launch.cli import (  # noqa: F401  # each registers its commands
    calls,
    exporting,
    findings,
    learning,
    logs,
    restarting,
    servers,
    wrapping,
)
from mcp_launch.cli.app import app, list_command_names
from mcp_launch.cli.bad_usage import BadUsage, check_command, finish, translate
from mcp_launch.config_files import entry_script
from mcp_launch.errors import LaunchError, UsageError, tell

# A shell sets it to ask typer what may come next.
_COMPLETE = "_MCP_LAUNCH_COMPLETE"


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    if _COMPLETE in os.environ:
        with contextlib.suppress(Exception):  # a prompt must not show our errors
            app([], prog_name="mcp-launch")
        return 0
    _open_closed_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a locale without UTF-8 must not make us fail
    commands = list_command_names()
    try:
        # An upgrade may have moved us. If that is not possible, `wrap` and `doctor` say so.
        with contextlib.suppress(LaunchError):
            entry_script.renew(state.find_directory(os.environ))
        return _run(arguments, commands)
    except LaunchError as error:
        tell(error, sys.stderr)
        return finish(error, arguments, commands)
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
    check_command(arguments, commands)
    at = len(arguments)
    if "".join(arguments[:1]) in {"env", "wrap"} and "--" in arguments:
        at = arguments.index("--")  # the rest are arguments of `run`, not ours
    try:
        code = app(
            args=arguments[:at] or ["--help"],
            prog_name="mcp-launch",
            obj=arguments[at + 1 :],
            standalone_mode=False,  # errors are ours to show
        )
    except BadUsage as bad:
        raise translate(bad, arguments[0]) from None
    except typer.Abort:
        raise UsageError("nothing was changed", fix="answer the question, or add --yes") from None
    return code if isinstance(code, int) else 0
