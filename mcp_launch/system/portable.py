"""The process table through psutil, for systems without `/proc`.

It cannot answer two questions: which process holds the other end of a pipe (always
"unknown"), and which children of init were ours (their parent is gone).
"""

from __future__ import annotations

import os
import time

import psutil

from mcp_launch.values import Process, ProcessIdentity, compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from mcp_launch.values import Verdict

    _Answer = TypeVar("_Answer")

SEES_ALL = True


def boot_id() -> str:
    """Return an id of this boot of the machine."""
    # Whole seconds: the value is derived from the clock and may jitter below that.
    return f"boot-{int(psutil.boot_time())}"


def look(pid: int) -> Process | None:
    """Return one process; None if it does not exist."""
    try:
        seen = psutil.Process(pid)
        identity = ProcessIdentity(pid, f"time:{seen.create_time():.2f}")
        return Process(identity, seen.ppid(), seen.name())
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return Process(ProcessIdentity(pid, None), 0, "")


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    return psutil.pid_exists(pid) and not _is_zombie(pid)


def _ask(pid: int, question: Callable[[psutil.Process], _Answer], otherwise: _Answer) -> _Answer:
    try:
        return question(psutil.Process(pid))
    except psutil.Error:
        return otherwise


def read_argv(pid: int) -> list[str]:
    """Return its command line; empty when it cannot be read."""
    return _ask(pid, psutil.Process.cmdline, [])


def read_executable(pid: int) -> str:
    """Return the path of its program; empty when it cannot be read."""
    return _ask(pid, psutil.Process.exe, "")


def read_cwd(pid: int) -> str:
    """Return its working directory; empty when it cannot be read."""
    return _ask(pid, psutil.Process.cwd, "")


def read_variable(pid: int, name: str) -> str | None:
    """Return one variable of the environment it was started with."""
    return read_environ(pid).get(name)


def read_environ(pid: int) -> dict[str, str]:
    """Return the environment it was started with; empty when it cannot be read."""
    return _ask(pid, psutil.Process.environ, {})


def read_owner(pid: int) -> int | None:
    """Return the id of the user who runs it."""
    return _ask(pid, lambda one: one.uids().real, None)


def list_open_files(pid: int) -> list[str]:
    """Return the paths of the regular files it holds open."""
    return _ask(pid, lambda one: [file.path for file in one.open_files()], [])


def holds_writing_end(pid: int, fd: int) -> Verdict:  # noqa: ARG001  # one interface
    """Return "unknown": only Linux shows it."""
    return "unknown"


def list_pids() -> list[int]:
    """Return every pid."""
    return psutil.pids()


def list_descendants(pid: int) -> list[int]:
    """Return all processes below `pid`, and those that are known to have been there.

    Orphans go to init here. Two things still identify them: an earlier call in this process
    saw them below `pid`, or their environment holds our launch id.
    """
    try:
        below = [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        below = []
    for child in below:
        process = look(child)
        if process is not None:
            _seen[child] = process.identity
    orphans = [*_list_seen(), *_list_marked(os.environ.get("MCP_LAUNCH_ID"))]
    ours = {os.getpid(), os.getppid(), pid}
    return list(dict.fromkeys(one for one in [*below, *orphans] if one not in ours))


# Every process that was once below us, by pid. Its identity is kept as well: the pid may have
# been reused, and we are going to signal it.
_seen: dict[int, ProcessIdentity] = {}


def _list_seen() -> list[int]:
    for pid, identity in list(_seen.items()):
        now = look(pid)
        if now is None or compare(identity, now.identity) != "same" or _is_zombie(pid):
            del _seen[pid]
    return list(_seen)


def _list_marked(mark: str | None) -> list[int]:
    if not mark:
        return []
    marked = (pid for pid in psutil.pids() if read_variable(pid, "MCP_LAUNCH_ID") == mark)
    return [pid for pid in marked if not _is_zombie(pid)]


def _is_zombie(pid: int) -> bool:
    return _ask(pid, psutil.Process.status, "") == psutil.STATUS_ZOMBIE


def started_seconds_ago(pid: int) -> float | None:
    """Return the age of a process; None when it cannot be read."""
    return _ask(pid, lambda one: time.time() - one.create_time(), None)


def list_listening(pid: int) -> list[str]:
    """Return the network sockets on which it listens."""
    return _ask(pid, _list_tcp_ports, [])


def _list_tcp_ports(process: psutil.Process) -> list[str]:
    connections = process.net_connections("inet")
    return [f"tcp port {one.laddr.port}" for one in connections if one.status == psutil.CONN_LISTEN]


def measure_share(pid: int) -> int | None:
    """Return its memory in bytes; pages that it shares count in full."""
    return _ask(pid, lambda one: int(one.memory_info().rss), None)
