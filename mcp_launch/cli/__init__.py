"""The full command line: every command except `run`, which `mcp_launch.main` starts itself."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from mcp_launch.cli import (  # noqa: F401  # each registers its commands
    explanations,
    findings,
    learning,
    logs,
    profiles,
    servers,
    wrapping,
)
from mcp_launch.cli.app import app, list_command_names
from mcp_launch.commands import usage_errors
from mcp_launch.errors import LaunchError, tell


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a locale without UTF-8 must not make us fail
    commands = list_command_names()
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
