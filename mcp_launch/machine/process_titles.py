"""What a process is called in front of people: by what it is, not by its main thread's name."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcp_launch import hosts
from mcp_launch.machine.command_line import RUNNERS, SHELLS, list_programs, name_program

if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process

# Files and directories that many programs have, and that tell none from another.
_SCRIPTS = {"index", "main", "cli", "__main__", "bin", "start", "server", "app", "run"}
_DIRECTORIES = {"", ".", "..", "dist", "bin", "build", "bundle", "lib", "out", "src", "scripts"}
_ENDINGS = re.compile(r"\.(js|mjs|cjs|ts|py|rb|php|sh)$")

# Some programs are installed as a file that is named for its version.
_VERSION = re.compile(r"v?\d[\d.]*")


def name_process(table: ProcessTable, process: Process) -> str:
    """Return a host's title; of a program that is no host, its own name.

    Node calls its main thread `MainThread`, which the kernel then shows as the process's name:
    what runs is the script, or the package that it is from.
    """
    host = hosts.recognise(table, process)
    if host is not None:
        return host.title
    pid = process.identity.pid
    argv = table.read_argv(pid)
    executable = os.path.basename(table.read_executable(pid))
    if argv and argv[0]:
        names = [os.path.basename(argv[0].split()[0]), executable]
        if any(RUNNERS.fullmatch(name) or name in SHELLS for name in names):
            return _name_script(argv, executable)
        if not executable or _VERSION.fullmatch(executable):
            return names[0].lstrip("-")
    return executable or process.name


def name_pid(table: ProcessTable, pid: int) -> str:
    """Return the same for a process that may have ended."""
    process = table.look(pid)
    return name_process(table, process) if process else "a program"


def _name_script(argv: list[str], executable: str) -> str:
    """Return what an interpreter runs; its own name, if it was given code or nothing."""
    if not RUNNERS.fullmatch(os.path.basename(argv[0])) and RUNNERS.fullmatch(executable):
        # It has put a title in the place of its command line: `npm exec …`, or its own name.
        first = os.path.basename(argv[0].split()[0])
        return first if first not in SHELLS else executable
    *_, word = list_programs(argv)
    if word == argv[0]:
        return executable or os.path.basename(word).lstrip("-")
    name = name_program(word)
    if "/" in name or name != os.path.basename(word):
        return name  # a package
    stem = _ENDINGS.sub("", name)
    parts = [part for part in os.path.dirname(word).split("/") if part not in _DIRECTORIES]
    return parts[-1] if stem in _SCRIPTS and parts else stem
