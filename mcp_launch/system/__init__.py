"""The process table, behind one interface: `/proc` on Linux, psutil elsewhere.

psutil takes twice as long to import as the rest of a launch, so on Linux we read `/proc`
ourselves. Both readers are plain modules with the same functions, and both are tested on Linux.
"""

from __future__ import annotations

import os
import sys

from mcp_launch.values import SHELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mcp_launch.values import Process, Verdict

    class ProcessTable(Protocol):
        """What a reader can return; any result may be empty for lack of permission."""

        # Whether other processes can be read.
        SEES_ALL: bool

        def boot_id(self) -> str:
            """Return an id of this boot of the machine."""

        def look(self, pid: int) -> Process | None:
            """Return one process; None if it does not exist."""

        def is_running(self, pid: int) -> bool:
            """Return whether the process exists and is not a zombie."""

        def read_argv(self, pid: int) -> list[str]:
            """Return its command line; empty when it cannot be read."""

        def read_executable(self, pid: int) -> str:
            """Return the path of its program; empty when it cannot be read."""

        def read_cwd(self, pid: int) -> str:
            """Return its working directory; empty when it cannot be read."""

        def read_variable(self, pid: int, name: str) -> str | None:
            """Return one variable of the environment it was started with."""

        def read_environ(self, pid: int) -> dict[str, str]:
            """Return the environment it was started with; empty when it cannot be read."""

        def read_owner(self, pid: int) -> int | None:
            """Return the id of the user who runs it."""

        def list_open_files(self, pid: int) -> list[str]:
            """Return the paths of the regular files it holds open."""

        def holds_writing_end(self, pid: int, fd: int) -> Verdict:
            """Return whether the process can write into the pipe that is our `fd`."""

        def list_pids(self) -> list[int]:
            """Return every pid."""

        def list_descendants(self, pid: int) -> list[int]:
            """Return all processes below `pid`, nearest first."""

        def list_listening(self, pid: int) -> list[str]:
            """Return the sockets on which it listens."""

        def measure_share(self, pid: int) -> int | None:
            """Return its memory in bytes; None when it cannot be read."""

        def started_seconds_ago(self, pid: int) -> float | None:
            """Return the age of a process; None when it cannot be read."""


def open_table() -> ProcessTable:
    """Return the reader for this machine."""
    if sys.platform != "linux":
        from mcp_launch.system import portable

        return portable
    from mcp_launch.system import linux

    try:
        is_ours = os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        is_ours = False  # it is not mounted
    if not is_ours:
        linux.ignore_proc()
    return linux


def read_namespace() -> str:
    """Return an id of our pid namespace, where there are such; empty elsewhere.

    Two processes in different namespaces can have the same pid.
    """
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""  # not on this system


def is_of_process(path: str) -> bool:
    """Return whether an absolute path leads to something else in each process that follows it."""
    plain = "/" + os.path.normpath(path).lstrip("/")
    return f"{plain}/".startswith(("/proc/", "/dev/fd/", "/dev/stdin/"))


def list_ancestors(table: ProcessTable, pid: int) -> list[Process]:
    """Return the ancestors of `pid`, its parent first."""
    found: list[Process] = []
    process = table.look(pid)
    while process is not None and process.parent > 0:
        process = table.look(process.parent)
        if process is not None:
            found.append(process)
    return found


# Interpreters whose scripts may replace their command line with a title.
_TITLED = {"bun", "deno", "node", "nodejs", "php", "pypy", "python", "ruby", "tsx"}


def name_program(table: ProcessTable, process: Process) -> str:
    """Return what a person would call the program of a process.

    That is not the kernel's name for it, which is the name of its main thread and which Node
    sets to `MainThread`. Nor is it always its file, which may be a version or an interpreter.
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
