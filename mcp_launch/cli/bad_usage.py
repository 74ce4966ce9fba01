"""Errors in a command line, for a person or for the host that started a faulty entry."""

from __future__ import annotations

import os
import select
from typing import Any

import typer

from mcp_launch import masking
from mcp_launch.errors import LaunchError, UsageError, suggest
from mcp_launch.launch.options import SWITCHES, TAKE_A_VALUE

# The exit code for invalid command lines, and for commands that could not begin.
USAGE = 2

# Typer's class for all errors in a command line, wherever the installed version keeps it.
BadUsage: type[Exception] = typer.BadParameter.__mro__[1]


def check_command(arguments: list[str], commands: list[str]) -> None:
    """Check that a command line begins with a command: an entry may lack the word `run`.

    Raises:
        UsageError: It does not.

    """
    if not arguments and os.isatty(0):
        return  # a person, who gets the help text
    first = arguments[0] if arguments else ""
    name = first.partition("=")[0]
    if name in {*TAKE_A_VALUE, *SWITCHES}:
        command = masking.join(["mcp-launch", "run", *masking.mask(arguments)])
        raise UsageError(f"the word run is missing before {name}", fix=f"write run: {command}")
    if first not in commands and (first == "--" or first[:1] != "-"):
        raise UsageError(
            f"mcp-launch has no command {first!r}" if first else "the command is missing",
            fix=suggest(first, commands).strip()
            or "write before a server's command: mcp-launch run -- COMMAND (see mcp-launch --help)",
        )


def translate(bad: Any, command: str) -> UsageError:  # noqa: ANN401  # an instance of `BadUsage`
    """Return our error for one of typer's."""
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


def finish(error: LaunchError, arguments: list[str], commands: list[str]) -> int:
    """Return the exit code for an error, after answering a waiting host."""
    is_by_person = "".join(arguments[:1]) in {*commands} - {"run"}
    if is_by_person or isinstance(error, UsageError):
        error.exit_code = USAGE
    if not is_by_person and not os.isatty(0) and hasattr(select, "poll"):
        from mcp_launch.launch import context, failed_launch
        from mcp_launch.runtime.answer_failure import answer_failure

        found = failed_launch.reconstruct([], context.make_launch_id())
        answer_failure(error, found=found)
    return error.exit_code
