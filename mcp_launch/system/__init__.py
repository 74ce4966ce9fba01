"""The process table, behind one interface: `/proc` on Linux, psutil elsewhere.

psutil costs twice the rest of a launch to import, so Linux reads `/proc` itself, and does
with what system calls tell where there is none that it could use (psutil needs it, too).
The readers are plain modules with the same functions, and all are tested on Linux.
"""

from __future__ import annotations

import os
import sys

from mcp_launch import trace
from mcp_launch.values import SHELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mcp_launch.values import Process, Verdict

    class ProcessTable(Protocol):
        """What a reader can tell; every answer may be "nothing" for lack of permission."""

        # Whether other processes can be looked at; if not, only our own children are found.
        SEES_ALL: bool

        def boot_id(self) -> str:
            """Tell this boot of the machine from any other."""

        def look(self, pid: int) -> Process | None:
            """See one process; None when there is no such process."""

        def is_running(self, pid: int) -> bool:
            """Tell whether there is such a process, and more of it than its exit code."""

        def read_argv(self, pid: int) -> list[str]:
            """Return its command line; empty when it cannot be read."""

        def read_executable(self, pid: int) -> str:
            """Return the path of its program; empty when it cannot be read."""

        def read_cwd(self, pid: int) -> str:
            """Return the directory it is in; empty when it cannot be read."""

        def read_variable(self, pid: int, name: str) -> str | None:
            """Return one variable of the environment it was started with."""

        def read_environ(self, pid: int) -> dict[str, str]:
            """Return the environment it was started with; empty when it cannot be read."""

        def read_owner(self, pid: int) -> int | None:
            """Return the number of the user who runs it."""

        def list_open_files(self, pid: int) -> list[str]:
            """Return the paths of the regular files it holds open."""

        def holds_writing_end(self, pid: int, fd: int) -> Verdict:
            """Tell whether the process can write into the pipe that is our `fd`."""

        def list_pids(self) -> list[int]:
            """Return every pid there is."""

        def list_descendants(self, pid: int) -> list[int]:
            """Return all processes below `pid`, nearest first."""

        def started_seconds_ago(self, pid: int) -> float | None:
            """Return the age of a process."""


def open_table() -> ProcessTable:
    """Return the reader for this machine."""
    if sys.platform != "linux":
        from mcp_launch.system import portable

        return portable
    try:
        is_ours = os.readlink("/proc/self") == str(os.getpid())
        why = "the /proc here is another pid namespace's"
    except OSError:
        is_ours = False
        why = "there is no /proc here"
    if is_ours:
        from mcp_launch.system import linux

        return linux
    from mcp_launch.system import blind

    trace.note(f"{why}: processes cannot be looked at")
    return blind


def read_namespace() -> str:
    """Return whose pids ours are, where two processes can have the same; empty elsewhere."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""  # not on this system


def list_ancestors(table: ProcessTable, pid: int) -> list[Process]:
    """Return the parent of `pid`, its parent, and so on up to the top."""
    found: list[Process] = []
    process = table.look(pid)
    while process is not None and process.parent > 0:
        process = table.look(process.parent)
        if process is not None:
            found.append(process)
    return found


# Interpreters whose scripts may put a title in the place of their command line.
_TITLED = {"bun", "deno", "node", "nodejs", "php", "pypy", "python", "ruby", "tsx"}


def name_program(table: ProcessTable, process: Process) -> str:
    """Return what a person would call the program of a process.

    Not what the kernel calls it: that is the name of its main thread, which Node sets to
    `MainThread`. Nor always its file, which may be named for a version, or be an interpreter.
    """
    pid = process.identity.pid
    words = "".join(table.read_argv(pid)[:1]).split()
    title = os.path.basename(words[0]).lstrip("-") if words else ""
    file = os.path.basename(table.read_executable(pid))
    is_version = file.lstrip("v").replace(".", "").isdigit()
    is_titled = _cut_version(file) in _TITLED and _cut_version(title) not in _TITLED | SHELLS
    if title and (not file or is_version or is_titled):
        return title
    return file or process.name


def _cut_version(name: str) -> str:
    return name.rstrip("0123456789.")
