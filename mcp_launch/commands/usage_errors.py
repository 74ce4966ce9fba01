"""Errors in a command line, reported to a person or to a waiting host."""

from __future__ import annotations

import os
import select

from mcp_launch import masking
from mcp_launch.errors import LaunchError, UsageError, suggest
from mcp_launch.launch.options import SWITCHES, TAKE_A_VALUE

# The exit code for invalid command lines, and for commands that could not begin.
USAGE = 2


# What other tools call what a command of ours does.
_OTHER_NAMES = {
    "check": "mcp-launch doctor finds out what is wrong",
    "init": "mcp-launch wrap sets up your hosts",
    "install": "mcp-launch wrap puts it in front of your servers",
    "kill": "mcp-launch restart replaces a server, mcp-launch reap ends those without a host",
    "ls": "mcp-launch list shows the servers in the hosts' files, mcp-launch ps those that run",
    "status": "mcp-launch ps shows what runs, mcp-launch list what the hosts' files have",
    "stop": "end its host's session; mcp-launch reap ends servers without a host",
    "top": "mcp-launch ps --watch shows what runs",
    "update": "mcp-launch help install says how",
    "upgrade": "mcp-launch help install says how",
}


def check_command(arguments: list[str], commands: list[str]) -> None:
    """Check that a command line begins with a command.

    Raises:
        LaunchError: It does not.

    """
    if not arguments and os.isatty(0):
        return  # a person, who gets the help text
    if not arguments or (arguments[0] not in commands and arguments[0][:1] != "-"):
        raise explain(arguments, commands)


def check_wrap(arguments: list[str]) -> None:
    """Check that no option of `run` comes before the `--` of `wrap`.

    Raises:
        UsageError: One does.

    """
    if arguments[:1] != ["wrap"]:
        return
    for word in arguments[1:]:
        name = word.partition("=")[0]
        if name in {*TAKE_A_VALUE, *SWITCHES}:
            value = " VALUE" if name in TAKE_A_VALUE else ""
            raise UsageError(
                f"{name} is an option of run, not of wrap",
                fix=f"write it after --: mcp-launch wrap [SERVER...] -- {name}{value}",
            )


def explain(arguments: list[str], commands: list[str]) -> LaunchError:
    """Return the error for a missing or unknown command: usually an entry lacks the word `run`."""
    first = arguments[0] if arguments else ""
    name = first.partition("=")[0]
    if name in {*TAKE_A_VALUE, *SWITCHES}:
        command = masking.join(["mcp-launch", "run", *masking.mask(arguments)])
        error = UsageError(f"the word run is missing before {name}", fix=f"write run: {command}")
        error.exit_code = USAGE
        return error
    error = UsageError(
        f"mcp-launch has no command {first!r}" if first else "the command is missing",
        fix=_OTHER_NAMES.get(first)
        or suggest(first, commands).strip()
        or "write before a server's command: mcp-launch run -- COMMAND (see mcp-launch --help)",
    )
    error.exit_code = USAGE
    return error


def is_by_person(arguments: list[str], commands: list[str]) -> bool:
    """Return whether this is a command that no entry of a host has."""
    return arguments[:1] != ["run"] and "".join(arguments[:1]) in commands


def finish(error: LaunchError, arguments: list[str], commands: list[str]) -> int:
    """Return the exit code for an error, after answering a waiting host."""
    return USAGE if is_by_person(arguments, commands) else answer_host(error)


def answer_host(error: LaunchError) -> int:
    """Return an error's exit code, after answering the host that started a faulty entry."""
    if not os.isatty(0) and hasattr(select, "poll"):
        from mcp_launch.launch import context, failed_launch
        from mcp_launch.runtime.answer_failure import answer_failure

        found = failed_launch.reconstruct([], context.make_launch_id())
        answer_failure(error, found=found)
    return error.exit_code
