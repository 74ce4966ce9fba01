"""Tell by its command line whether a process is a server, and which.

Conservative: hosts run shells, linters and each other with pipes to them, too. A process is
a server if its command is a configured one, or if the name of its program or package says so.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

# How many words (an interpreter and its options) may stand before a configured command.
_WORDS_BEFORE = 3

_SAYS_SO = re.compile("mcp|modelcontextprotocol", re.IGNORECASE)

# Who runs what its first word names, and how that is said.
_RUNNER = re.compile(
    r"(python|pypy|node|nodejs|bun|deno|ruby|php|tsx|npx|npm|pnpm|yarn|bunx|uv|uvx|pipx)[\d.]*"
)
_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ksh"}
_SUBCOMMANDS = {"run", "exec", "x", "dlx", "tool"}
_CONTAINERS = {"docker", "podman"}

# What makes a host a server: `codex mcp-server`, `claude mcp serve`.
_SERVING = {"mcp", "mcp-server"}

_PACKAGES = ("/node_modules/.bin/", "/node_modules/", "/site-packages/")

# npx shows this in place of its command line, and does not show `-y`.
_NPX_TITLE = "npm exec "
_NPX_ANSWERS = {"-y", "--yes"}


class Configured(NamedTuple):
    """A server in a host's file."""

    name: str
    words: tuple[str, ...]  # its own command, without a launcher before it
    host: str = ""


def prefer(configured: Iterable[Configured], host: str) -> list[Configured]:
    """Return all of them, those of one host first: others may call the same command otherwise."""
    return sorted(configured, key=lambda one: one.host != host)


def name_server(
    argv: list[str], configured: Iterable[Configured], *, is_host: bool = False
) -> str | None:
    """Return the name of the server that a process is; None if it is none."""
    if not argv:
        return None
    for one in configured:
        if is_same_command(argv, one.words):
            return one.name
    if is_host:
        return " ".join(argv[:2]) if argv[1:2] and argv[1] in _SERVING else None
    names = (_name_program(word) for word in _list_programs(argv))
    return next((name for name in names if _SAYS_SO.search(name)), None)


def _list_programs(argv: list[str]) -> list[str]:
    """Return the words of a command line that name what is run: others may be about anything."""
    words = argv[0].split() if argv[0].startswith(_NPX_TITLE) else argv
    first = os.path.basename(words[0])
    plain = [word for word in words[1:] if _is_plain(word) and word not in _SUBCOMMANDS]
    if first in _CONTAINERS:
        return plain  # an image may stand behind any number of options with values
    if _RUNNER.fullmatch(first):
        return [words[0], *plain[:1]]
    # `clumsies mcp serve`; and a shell that runs a script, but not one that runs a command.
    is_next = bool(plain) and words[1] == plain[0] and (first in _SHELLS or plain[0] in _SERVING)
    return words[: 2 if is_next else 1]


def is_same_command(argv: list[str], words: tuple[str, ...]) -> bool:
    """Tell whether a command line is this command, or an interpreter's that runs it."""
    if argv[0].startswith(_NPX_TITLE):
        argv = ["npx", *argv[0].split()[2:]]
        words = tuple(word for word in words if word not in _NPX_ANSWERS)
    before = len(argv) - len(words)
    return (
        bool(words)
        and 0 <= before <= _WORDS_BEFORE
        and tuple(argv[before + 1 :]) == words[1:]
        and os.path.basename(argv[before]) == os.path.basename(words[0])
    )


def _is_plain(word: str) -> bool:
    """Tell whether a word may name a program: no option, address, assignment, or sentence."""
    return not word.startswith("-") and not re.search(r"://|=|\s", word)


def _name_program(word: str) -> str:
    """Return what a word names, without the directories that merely lead to it."""
    for mark in _PACKAGES:
        if mark in word:
            parts = word.rpartition(mark)[2].split("/")
            return "/".join(parts[: 2 if parts[0].startswith("@") else 1])
    return os.path.basename(word) if word.startswith(("/", "./", "../")) else word
