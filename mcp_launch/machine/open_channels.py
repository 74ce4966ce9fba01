"""Every way in which somebody may still reach a process, so that only who has none is ended.

What is not proven to be harmless is a way. A socket is one whatever its family, its state and
its network namespace; only a Unix socket whose other end is closed, or open in the same tree
alone, is none. A pipe is one unless the same is true of it.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from mcp_launch.machine.command_line import SHELLS
from mcp_launch.machine.pipe_ends import Endpoints, is_pipe_left, read_access_mode, read_link

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
            for process in _list_tasks(pid):
                try:
                    numbers = os.listdir(f"{process}/fd")
                except (FileNotFoundError, ProcessLookupError):
                    continue  # it has ended
                except OSError:
                    return f"nobody shows us what process {pid} has open"
                for number in numbers:
                    if why := self._judge(process, number, pids):
                        return f"process {pid} has {why} open"
        return ""

    def _judge(self, process: str, number: str, tree: set[int]) -> str:
        """Return what a descriptor is, if somebody outside may use its other end."""
        path = f"{process}/fd/{number}"
        name = read_link(path)
        kind, _, rest = name.partition(":")
        if not name:
            return "" if not os.path.lexists(path) else "something that cannot be read"
        if name.startswith("/"):
            return _judge_file(process, path, name)
        if kind == "pipe":
            return self._judge_pipe(process, number, name, tree)
        if kind == "socket":
            peer = self._everybody.find_peer(name)
            holders = self._everybody.list_holders(peer or "")
            return "" if peer == "" or (holders and holders <= tree) else "a socket"
        if kind == "anon_inode" and rest in _HARMLESS:
            return _judge_ring(process, number) if rest == "[io_uring]" else ""
        return "" if kind in _NAMESPACES else f"a channel ({name})"

    def _judge_pipe(self, process: str, number: str, name: str, tree: set[int]) -> str:
        mode = read_access_mode(process, number)
        if number == _STDERR and mode == os.O_WRONLY:
            return ""  # whoever reads what it complains of cannot speak to it
        path = f"{process}/fd/{number}"
        if mode in {os.O_RDONLY, os.O_WRONLY} and is_pipe_left(path, mode, name):
            return ""
        holders = self._everybody.list_pipe_holders(name, mode)
        return "" if holders and holders <= tree else "a pipe"


def find_shell(pid: int) -> str:
    """Return the shell or terminal whose job a process may be; empty: it is nobody's job."""
    facts = _read_stat(f"/proc/{pid}")
    if len(facts) < 5:  # noqa: PLR2004  # state, parent, group, session, terminal
        return "" if not os.path.exists(f"/proc/{pid}") else "its session is not known"
    session, terminal = int(facts[3]), int(facts[4])
    if terminal:
        return "it belongs to a terminal, in which somebody may have started it"
    if session == 0:
        return "its session is not known"
    program = os.path.basename(read_link(f"/proc/{session}/exe"))
    try:
        with open(f"/proc/{session}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
    except OSError:
        return ""  # the session's leader has ended
    if _read_stat(f"/proc/{session}")[:1] != ["Z"] and not SHELLS.isdisjoint((program, name)):
        return f"process {session} ({name}), a shell, may have started it"
    return ""


def _list_everybody() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []  # a system without /proc: nothing is proven there


def _list_tasks(pid: int) -> Iterator[str]:
    """Return the directories of a process's threads: each may have descriptors of its own."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return  # it has ended
    for task in tasks:
        process = f"/proc/{pid}/task/{task}"
        if _read_stat(process)[:1] != ["Z"]:
            yield process


def _read_stat(process: str) -> list[str]:
    try:
        with open(f"{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _judge_file(process: str, path: str, name: str) -> str:
    """Return what an open file is, if others may speak through it."""
    is_deleted = name.endswith(" (deleted)")
    try:
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            # What has no place among the files is something else, such as a message queue.
            is_file = is_deleted or os.path.samestat(status, os.stat(f"{process}/root{name}"))
            return "" if is_file else f"a channel ({name})"
    except FileNotFoundError:
        return "" if not os.path.lexists(path) else f"a channel ({name})"
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


def _judge_ring(process: str, number: str) -> str:
    """Return what an io_uring is, unless it holds no files: they are shown nowhere else."""
    try:
        with open(f"{process}/fdinfo/{number}", encoding="ascii", errors="replace") as file:
            counts = [line.split()[1] for line in file if line.startswith("UserFiles:")]
    except (OSError, IndexError):
        counts = []
    return "" if counts == ["0"] else "a ring of requests"
