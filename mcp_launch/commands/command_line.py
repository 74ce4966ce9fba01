"""The full command line: every command except `run`, and every error in a command line.

An error is for a person, or for the host that started a faulty entry and waits for an answer.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import sys
from io import TextIOWrapper
from typing import Any

import typer

from mcp_launch import state
from mcp_launch.commands.app import COMMANDS, app
from mcp_launch.config_files import entry_script
from mcp_launch.errors import LaunchError, UsageError, suggest, tell

# A shell sets these to ask typer what may come next, and after which words.
_COMPLETE = "_MCP_LAUNCH_COMPLETE"
_WORDS = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")

# The exit code for invalid command lines, and for commands that could not begin.
_USAGE = 2

# Typer's class for all errors in a command line, wherever the installed version keeps it.
_BadUsage: type[Exception] = typer.BadParameter.__mro__[1]


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    if _COMPLETE in os.environ:
        with contextlib.suppress(Exception):  # a prompt must not show our errors
            line = next((os.environ[name] for name in _WORDS if name in os.environ), "")
            _import_commands(line.split()[1:])
            app([], prog_name="mcp-launch")
        return 0
    _open_closed_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a locale without UTF-8 must not make us fail
    try:
        # An upgrade may have moved us. If that is not possible, `wrap` and `doctor` say so.
        with contextlib.suppress(LaunchError):
            entry_script.renew(state.find_directory(os.environ))
        return _run(arguments)
    except LaunchError as error:
        tell(error, sys.stderr)
        return _finish(error, arguments)
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


def _run(arguments: list[str]) -> int:
    _check_command(arguments)
    _import_commands(arguments)
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
    except _BadUsage as bad:
        raise _translate(bad, arguments[0]) from None
    except typer.Abort:
        raise UsageError("nothing was changed", fix="answer the question, or add --yes") from None
    return code if isinstance(code, int) else 0


def _import_commands(words: list[str]) -> None:
    """Import the module of a command, which registers it; without one, those of all commands."""
    named = COMMANDS.get(words[0]) if words else None
    # `explain` shows the help text of any of them.
    for module in {named} if named and named != "explain" else {*COMMANDS.values()}:
        importlib.import_module(f"mcp_launch.commands.{module}")


def _check_command(arguments: list[str]) -> None:
    """Check that a command line begins with a command: an entry may lack the word `run`.

    Raises:
        UsageError: It does not.

    """
    first = arguments[0] if arguments else ""
    if first in COMMANDS or (not arguments and os.isatty(0)):
        return  # without any, a person gets the help text
    from mcp_launch import masking
    from mcp_launch.launch.options import SWITCHES, TAKE_A_VALUE

    name = first.partition("=")[0]
    if name in {*TAKE_A_VALUE, *SWITCHES}:
        command = masking.join(["mcp-launch", "run", *masking.mask(arguments)])
        raise UsageError(f"the word run is missing before {name}", fix=f"write run: {command}")
    if first == "--" or first[:1] != "-":
        raise UsageError(
            f"mcp-launch has no command {first!r}" if first else "the command is missing",
            fix=suggest(first, COMMANDS).strip()
            or "write before a server's command: mcp-launch run -- COMMAND (see mcp-launch --help)",
        )


def _translate(bad: Any, command: str) -> UsageError:  # noqa: ANN401  # an instance of `_BadUsage`
    """Return our error for one of typer's."""
    from mcp_launch.launch.options import SWITCHES, TAKE_A_VALUE

    said = bad.format_message().rstrip(".")
    said = f"{said[:1].lower()}{said[1:]}"
    option = getattr(bad, "option_name", "")
    if option in {*TAKE_A_VALUE, *SWITCHES} and command == "wrap":
        return UsageError(
            f"{option} is an option of run, not of wrap",
            fix=f"write it after --: mcp-launch wrap [SERVER...] -- {option}",
        )
    path = bad.ctx.command_path if bad.ctx else f"mcp-launch {command}"
    return UsageError(said, fix=f"{path} --help shows how to use it")


def _finish(error: LaunchError, arguments: list[str]) -> int:
    """Return the exit code for an error, after answering a waiting host."""
    is_by_person = "".join(arguments[:1]) in COMMANDS.keys() - {"run"}
    if is_by_person or isinstance(error, UsageError):
        error.exit_code = _USAGE
    if not is_by_person and not os.isatty(0) and hasattr(select, "poll"):
        from mcp_launch.launch import context, failed_launch
        from mcp_launch.runtime.answer_failure import answer_failure

        found = failed_launch.reconstruct([], context.make_launch_id())
        answer_failure(error, found=found)
    return error.exit_code
