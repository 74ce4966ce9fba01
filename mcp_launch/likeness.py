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

# Whoever runs these with options runs a command for a session, whatever it is about.
_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ksh"}

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
    if os.path.basename(argv[0]) in _SHELLS and "".join(argv[1:2]).startswith("-"):
        return None
    words = argv[0].split() if argv[0].startswith(_NPX_TITLE) else argv
    names = (_name_program(word) for word in words if _is_plain(word))
    return next((name for name in names if _SAYS_SO.search(name)), None)


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
