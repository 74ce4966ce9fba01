"""Recognize a server by its command line: it is that of an entry in a host's file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.machine.process_titles import NPX_TITLE, RUNNERS
from mcp_launch.values import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterable

# How many words (an interpreter and its options) may precede a configured command.
_WORDS_BEFORE = 3

# The rule, as shown to users.
EXPLANATION = "Without mcp-launch, a server is recognised if its command is in a host's file."

# Options that npx leaves out of its process title.
_NPX_ANSWERS = {"-y", "--yes"}

# Runners that run the same package everywhere, and subcommands with which others do.
_PACKAGE_RUNNERS = {"npx", "bunx", "uvx", "pipx"}
_RUN_PACKAGES = {"exec", "dlx", "x", "tool", "-m"}


class Configured(NamedTuple):
    """A server in a host's file."""

    name: str
    words: tuple[str, ...]  # its own command, without the launcher
    host: str = ""


def prefer(configured: Iterable[Configured], host: str) -> list[Configured]:
    """Return all of them, one host's first: hosts may use other names for the same command."""
    return sorted(configured, key=lambda one: one.host != host)


def recognize(
    argv: list[str], configured: Iterable[Configured], *, is_proof: bool = False
) -> str | None:
    """Return the server's name; None if the process is not a server.

    With `is_proof` a configured command counts only if it runs the same program everywhere.
    """
    for one in configured:
        if is_same_command(argv, one.words) and (not is_proof or means_one_program(one.words)):
            return one.name
    return None


def is_same_command(argv: list[str], words: tuple[str, ...]) -> bool:
    """Return whether a command line is this command, or an interpreter that runs it."""
    if argv and argv[0].startswith(NPX_TITLE):
        argv = ["npx", *argv[0].split()[2:]]
        words = tuple(word for word in words if word not in _NPX_ANSWERS)
    before = len(argv) - len(words)
    return (
        bool(words)
        and 0 <= before <= _WORDS_BEFORE
        and tuple(argv[before + 1 :]) == words[1:]
        and os.path.basename(argv[before]) == os.path.basename(words[0])
        and _runs_what_follows(argv[:before])
    )


def _runs_what_follows(before: list[str]) -> bool:
    """Return whether words are an interpreter and its options: `tail -f server` does not count."""
    if not before:
        return True
    first = os.path.basename(before[0])
    is_runner = bool(RUNNERS.fullmatch(first)) or first in SHELLS or first == "env"
    return is_runner and all(word.startswith("-") for word in before[1:])


def means_one_program(words: tuple[str, ...]) -> bool:
    """Return whether a command runs the same program everywhere, unlike `python main.py`."""
    program, rest = os.path.basename(words[0]), words[1:]
    if not RUNNERS.fullmatch(program) and program not in SHELLS:
        return os.path.isabs(words[0]) or "/" not in words[0]
    is_package = program in _PACKAGE_RUNNERS or not _RUN_PACKAGES.isdisjoint(rest[:1])
    return is_package or any(map(os.path.isabs, rest))
