"""Every way in which somebody may still reach a process, so that only who has none is ended.

What is not proven to be harmless is a way. A socket is one whatever its family, its state and
its network namespace; only a Unix socket whose other end is closed, or open in the same tree
alone, is none. A pipe is one unless the same is true of it.
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

# What has no name and nobody at its other end. Not here: what others are served through
# (fanotify, seccomp's notifier, KVM) and whatever is not known.
_HARMLESS = {
    *("[eventfd]", "[eventpoll]", "[timerfd]", "[signalfd]", "[pidfd]"),
    *("inotify", "[inotify]", "[io_uring]"),
}
_NAMESPACES = {"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"}

# /dev/null, zero, full, random, urandom: all of major 1.
_HARMLESS_DEVICES = {(1, minor) for minor in (3, 5, 7, 8, 9)}

_STDERR = "2"


class Channels:
    """Looks at all that processes have open; who else has it is read once."""

    def __init__(self) -> None:
        self._everybody = Endpoints(_list_everybody())

    def find_way(self, tree: Iterable[int]) -> str:
        """Return a way in which one of these may be reached from outside; empty: there is none."""
        pids = set(tree)
        for pid in sorted(pids):
            for thread in linux.list_threads(pid):
                if linux.read_state(thread) == "Z":
                    continue
                try:
                    numbers = linux.list_descriptors(thread)
                except (FileNotFoundError, ProcessLookupError):
                    continue  # it has ended
                except OSError:
                    return f"nobody shows us what process {pid} has open"
                for number in numbers:
                    if why := self._judge(thread, number, pids):
                        return f"process {pid} has {why} open"
        return ""

    def _judge(self, thread: str, number: str, tree: set[int]) -> str:
        """Return what a descriptor is, if somebody outside may use its other end."""
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
            # The files that a ring holds are shown nowhere else.
            return "a ring of requests" if rest == "[io_uring]" and not is_empty else ""
        return "" if kind in _NAMESPACES else f"a channel ({name})"

    def _judge_pipe(self, thread: str, number: str, name: str, tree: set[int]) -> str:
        mode = linux.read_access_mode(thread, number)
        if number == _STDERR and mode == os.O_WRONLY:
            return ""  # whoever reads what it complains of cannot speak to it
        if mode in {os.O_RDONLY, os.O_WRONLY} and is_pipe_left(thread, number, mode, name):
            return ""
        holders = self._everybody.list_pipe_holders(name, mode)
        return "" if holders and holders <= tree else "a pipe"


def find_shell(pid: int) -> str:
    """Return the shell or terminal whose job a process may be; empty: it is nobody's job."""
    job = linux.read_job(pid)
    if job is None:
        return "its session is not known" if linux.is_listed(pid) else ""
    session, terminal = job
    if terminal:
        return "it belongs to a terminal, in which somebody may have started it"
    if session == 0:
        return "its session is not known"
    leader = linux.look(session)
    if leader is None or not linux.is_running(session):
        return ""  # it has ended
    program = os.path.basename(linux.read_executable(session))
    if SHELLS.isdisjoint((program, leader.name)):
        return ""
    return f"process {session} ({leader.name}), a shell, may have started it"


def _list_everybody() -> list[int]:
    try:
        return linux.list_pids()
    except OSError:
        return []  # a system without /proc: nothing is proven there


def _judge_file(thread: str, number: str, name: str) -> str:
    """Return what an open file is, if others may speak through it."""
    is_deleted = name.endswith(" (deleted)")
    try:
        status = linux.look_at_descriptor(thread, number)
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            # What has no place among the files is something else, such as a message queue.
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
    # A terminal whose other end was closed is gone from its directory.
    is_left = is_deleted and name.startswith("/dev/pts/")
    return "" if is_left or stat.S_ISLNK(status.st_mode) else name
