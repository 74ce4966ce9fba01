"""Name a process for people: by what it runs, not by its main thread's name."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcp_launch import hosts
from mcp_launch.machine.command_line import RUNNERS, list_programs, name_word
from mcp_launch.system import name_program
from mcp_launch.values import SHELLS

if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process

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
    first = os.path.basename(argv[0]) if argv else ""
    if not RUNNERS.fullmatch(first) and first not in SHELLS:
        return ""
    *_, word = list_programs(argv)
    if word == argv[0]:
        return ""
    name = name_word(word)
    if "/" in name or name != os.path.basename(word):
        return name  # a package
    stem = _ENDINGS.sub("", name)
    parts = [part for part in os.path.dirname(word).split("/") if part not in _DIRECTORIES]
    return parts[-1] if stem in _SCRIPTS and parts else stem
