"""Name a process or a command for people: by what it runs, not by its interpreter."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcp_launch import hosts
from mcp_launch.system import name_program
from mcp_launch.values import SHELLS

if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process

# npx sets its process title to this plus its arguments, without `-y`.
NPX_TITLE = "npm exec "

# Programs that run another: a script, a module or a package.
RUNNERS = re.compile(
    r"(?:python|pypy|node|nodejs|bun|deno|ruby|php|tsx)[\d.]*|npx|npm|pnpm|yarn|bunx|uv|uvx|pipx"
)
_CONTAINERS = {"docker", "podman"}
_SUBCOMMANDS = {"run", "exec", "x", "dlx", "tool"}

# Options whose value names no program, and options with the code to run.
_VALUED = {"-r", "--require", "--import", "--loader", "-W", "-X", "--with", "-e", "--env"}
_CODE = {"-c", "-e", "--eval", "-p", "--print", "-"}

_PACKAGES = ("/node_modules/.bin/", "/node_modules/", "/site-packages/")

# Names of files and directories that are too common to identify a program.
_SCRIPTS = {"index", "main", "cli", "__main__", "bin", "start", "server", "app", "run"}
_DIRECTORIES = {"", ".", "..", "dist", "bin", "build", "bundle", "lib", "out", "src", "scripts"}
_ENDINGS = re.compile(r"\.(js|mjs|cjs|ts|py|rb|php|sh)$")


def name_process(table: ProcessTable, process: Process) -> str:
    """Return a host's title, or else the name of the script or package that runs."""
    host = hosts.recognise(table, process)
    if host is not None:
        return host.title
    return _name_script(table.read_argv(process.identity.pid)) or name_program(table, process)


def name_pid(table: ProcessTable, pid: int) -> str:
    """Return the same for a process that may have exited."""
    process = table.look(pid)
    return name_process(table, process) if process else "a program"


def _name_script(argv: list[str]) -> str:
    """Return the script or package that an interpreter runs; empty if there is none."""
    word = find_telling_word(argv) if argv else ""
    if not word or word == argv[0]:
        return ""
    name = _name_word(word)
    if "/" in name or name != os.path.basename(word):
        return name  # a package
    stem = _ENDINGS.sub("", name)
    parts = [part for part in os.path.dirname(word).split("/") if part not in _DIRECTORIES]
    return parts[-1] if stem in _SCRIPTS and parts else stem


def find_telling_word(argv: list[str]) -> str:
    """Return the word of a command that says what it runs: the program, or what a runner runs."""
    first = os.path.basename(argv[0])
    is_container = first in _CONTAINERS
    if not (is_container or RUNNERS.fullmatch(first) or first in SHELLS):
        return argv[0]
    words = iter(argv[1:])
    for word in words:
        if word in _CODE and not is_container:
            break
        if word in _VALUED:
            next(words, None)
        elif word and word not in _SUBCOMMANDS and not re.search(r"^-|://|=|\s", word):
            return word
    return argv[0]


def _name_word(word: str) -> str:
    """Return the package, image or file that a word names, without its directories."""
    if word.startswith("/"):
        for mark in _PACKAGES:
            if mark in word:
                parts = word.rpartition(mark)[2].split("/")
                return "/".join(parts[: 2 if parts[0].startswith("@") else 1])
    return word if re.fullmatch("@[^/]+/[^/]+", word) else os.path.basename(word)
