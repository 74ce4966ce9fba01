"""Find every open channel through which a process may still be reached.

Only an unreachable process may be ended, so whatever is not proven harmless counts. Every
socket counts, whatever its family, state and network namespace, except a Unix socket whose
other end is closed or open only in the same tree. The same exception holds for pipes.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from mcp_launch.machine.pipe_ends import Endpoints, is_pipe_left
from mcp_launch.system import linux
from mcp_launch.values import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterable

# Anonymous inodes without another end. Not listed: those through which other processes are
# served (fanotify, seccomp's notifier, KVM), and unknown ones.
_HARMLESS = {
    *("[eventfd]", "[eventpoll]", "[timerfd]", "[signalfd]", "[pidfd]"),
    *("inotify", "[inotify]", "[io_uring]"),
}
_NAMESPACES = {"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"}

# /dev/null, zero, full, random, urandom: all of major 1.
_HARMLESS_DEVICES = {(1, minor) for minor in (3, 5, 7, 8, 9)}

_STDERR = "2"


class Channels:
    """Finds the open channels of processes; the holders of all pipes and sockets are read once."""

    def __init__(self) -> None:
        self._everybody = Endpoints(_list_everybody())

    def find_way(self, tree: Iterable[int]) -> str:
        """Return how one of these may be reached from outside; empty: it cannot be."""
        pids = set(tree)
        for pid in sorted(pids):
            for thread in linux.list_threads(pid):
                if linux.read_state(thread) == "Z":
                    continue
                try:
                    numbers = linux.list_descriptors(thread)
                except (FileNotFoundError, ProcessLookupError):
                    continue  # it has exited
                except OSError:
                    return f"the open files of process {pid} cannot be read"
                for number in numbers:
                    if why := self._judge(thread, number, pids):
                        return f"process {pid} has {why} open"
        return ""

    def _judge(self, thread: str, number: str, tree: set[int]) -> str:
        """Return what a descriptor is, if a process outside may use its other end."""
        name = linux.read_link(thread, number)
        kind, _, rest = name.partition(":")
        if not name:
            is_there = linux.has_descriptor(thread, number)
            return "something that cannot be read" if is_there else ""
        if name.startswith("/"):
            return _judge_file(thread, number, name)
        if kind == "pipe":
            return self._judge_pipe(thread, number, name, tree)
        if kind == "socket":
            peer = self._everybody.find_peer(name)
            holders = self._everybody.list_holders(peer or "")
            return "" if peer == "" or (holders and holders <= tree) else "a socket"
        if kind == "anon_inode" and rest in _HARMLESS:
            is_empty = linux.read_detail(thread, number, "UserFiles") == "0"
            # Files that are registered with a ring are shown nowhere else.
            return "an io_uring with files" if rest == "[io_uring]" and not is_empty else ""
        return "" if kind in _NAMESPACES else f"a channel ({name})"

    def _judge_pipe(self, thread: str, number: str, name: str, tree: set[int]) -> str:
        mode = linux.read_access_mode(thread, number)
        if number == _STDERR and mode == os.O_WRONLY:
            return ""  # a reader of its stderr cannot send it anything
        if mode in {os.O_RDONLY, os.O_WRONLY} and is_pipe_left(thread, number, mode, name):
            return ""
        holders = self._everybody.list_pipe_holders(name, mode)
        return "" if holders and holders <= tree else "a pipe"


def find_shell(pid: int) -> str:
    """Return the shell or terminal that a process may be a job of; empty: it is not a job."""
    job = linux.read_job(pid)
    if job is None:
        return "its session is unknown" if linux.is_listed(pid) else ""
    session, terminal = job
    if terminal:
        return "it belongs to a terminal and may have been started there"
    if session == 0:
        return "its session is unknown"
    leader = linux.look(session)
    if leader is None or not linux.is_running(session):
        return ""  # the leader has exited
    program = os.path.basename(linux.read_executable(session))
    if SHELLS.isdisjoint((program, leader.name)):
        return ""
    return f"a shell, process {session} ({leader.name}), may have started it"


def _list_everybody() -> list[int]:
    try:
        return linux.list_pids()
    except OSError:
        return []  # without /proc nothing can be proven


def _judge_file(thread: str, number: str, name: str) -> str:
    """Return what an open file is, if others may reach the process through it."""
    is_deleted = name.endswith(" (deleted)")
    try:
        status = linux.look_at_descriptor(thread, number)
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            # A path that leads to another file, or to none: a message queue, for example.
            is_file = is_deleted or os.path.samestat(status, linux.look_at_file(thread, name))
            return "" if is_file else f"a channel ({name})"
    except FileNotFoundError:
        return f"a channel ({name})" if linux.has_descriptor(thread, number) else ""
    except OSError:
        return f"something that cannot be read ({name})"
    if stat.S_ISFIFO(status.st_mode):
        return f"the named pipe {name}"
    device = (os.major(status.st_rdev), os.minor(status.st_rdev))
    if stat.S_ISCHR(status.st_mode) and device in _HARMLESS_DEVICES:
        return ""
    # A pseudo-terminal whose other end was closed is gone from /dev/pts.
    is_left = is_deleted and name.startswith("/dev/pts/")
    return "" if is_left or stat.S_ISLNK(status.st_mode) else name
