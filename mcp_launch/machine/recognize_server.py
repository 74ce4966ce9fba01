"""Recognize a server by its command line.

Conservative, because hosts also run shells, linters and each other through pipes. A process is
a server if its command is a configured one, or if "mcp" is a word in the name of what it runs:
its program, script, module, package or image, never a directory or an argument.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.machine.command_line import (
    CONTAINERS,
    NPX_TITLE,
    PACKAGE_RUNNERS,
    RUNNERS,
    list_programs,
    name_word,
)
from mcp_launch.values import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterable

# How many words (an interpreter and its options) may precede a configured command.
_WORDS_BEFORE = 3

# Only as a separate word: `mcp23017-daemon` and `mcpelauncher` are something else.
_SAYS_SO = re.compile(
    r"(?<![a-z0-9])(fast)?mcp(servers?)?(?![a-z0-9])|modelcontextprotocol", re.IGNORECASE
)

# The same rule, as shown to users.
EXPLANATION = (
    "A server is recognised by its command, if a host's file has it, or by the word mcp in the "
    "name of its program, script, module or package."
)

# Subcommands that make a host a server: `codex mcp-server`, `claude mcp serve`.
_SERVING = {"mcp", "mcp-server"}

# Options that npx leaves out of its process title.
_NPX_ANSWERS = {"-y", "--yes"}


class Configured(NamedTuple):
    """A server in a host's file."""

    name: str
    words: tuple[str, ...]  # its own command, without the launcher
    host: str = ""


def prefer(configured: Iterable[Configured], host: str) -> list[Configured]:
    """Return all of them, one host's first: hosts may use other names for the same command."""
    return sorted(configured, key=lambda one: one.host != host)


def recognize(
    argv: list[str],
    configured: Iterable[Configured],
    *,
    is_host: bool = False,
    is_proof: bool = False,
) -> str | None:
    """Return the server's name; None if the process is not a server.

    With `is_proof` a configured command counts only if it runs the same program everywhere.
    """
    if not argv:
        return None
    for one in configured:
        if is_same_command(argv, one.words) and (not is_proof or means_one_program(one.words)):
            return one.name
    if is_host:
        return " ".join(argv[:2]) if argv[1:2] and argv[1] in _SERVING else None
    names = (name_word(word) for word in list_programs(argv))
    return next((name for name in names if _says_so(name)), None)


def _says_so(name: str) -> bool:
    # Both parts of `@scope/name` name the package; of an image only the last part counts.
    return bool(_SAYS_SO.search(name if name.startswith("@") else os.path.basename(name)))


def is_same_command(argv: list[str], words: tuple[str, ...]) -> bool:
    """Return whether a command line is this command, or an interpreter that runs it."""
    if argv[0].startswith(NPX_TITLE):
        argv = ["npx", *argv[0].split()[2:]]
        words = tuple(word for word in words if word not in _NPX_ANSWERS)
    before = len(argv) - len(words)
    return (
        bool(words)
        and 0 <= before <= _WORDS_BEFORE
        and tuple(argv[before + 1 :]) == words[1:]
        and os.path.basename(argv[before]) == os.path.basename(words[0])
        and runs_what_follows(argv[:before])
    )


def runs_what_follows(before: list[str]) -> bool:
    """Return whether words are an interpreter and its options: `tail -f server` does not count."""
    if not before:
        return True
    first = os.path.basename(before[0])
    is_runner = bool(RUNNERS.fullmatch(first)) or first in SHELLS or first == "env"
    return is_runner and all(word.startswith("-") for word in before[1:])


def means_one_program(words: tuple[str, ...]) -> bool:
    """Return whether a command runs the same program everywhere, unlike `python main.py`."""
    program = os.path.basename(words[0])
    *_, last = list_programs(list(words))
    if program in {"npm", "pnpm", "yarn"}:
        return words[1:2] in {("exec",), ("dlx",)}  # not a script of the project
    if program in PACKAGE_RUNNERS or program in CONTAINERS:
        return True
    if RUNNERS.fullmatch(program) or program in SHELLS:
        return last.startswith("/") and last != words[0]
    return os.path.isabs(words[0]) or "/" not in words[0]
