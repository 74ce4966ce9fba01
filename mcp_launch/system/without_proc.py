"""The process table for a Linux without a usable `/proc`, from system calls alone.

In a chroot or a sandbox `/proc` may be missing. In a pid namespace that still sees the outer
`/proc` (`unshare -pf`, `bwrap --unshare-pid` without `--proc`) its numbers are not our pids:
acting on them would signal other people's processes.

So nothing is read from it. System calls show little, but it is true: whether a pid exists, who
our parent is, and which processes are our own children. The last is enough to end everything,
because we are a subreaper: as a child dies, its children become ours.
"""

from __future__ import annotations

import os

from mcp_launch.values import Process, ProcessIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.values import Verdict

# Only children can be found, not what is below them.
SEES_ALL = False

# No Linux has a larger pid (PID_MAX_LIMIT). The limit of this machine is only in /proc.
_LARGEST_PID = 1 << 22

# WNOWAIT leaves the child to be reaped by the code that wants its exit code.
_LOOK_ONLY = os.WEXITED | os.WNOHANG | os.WNOWAIT if hasattr(os, "WNOWAIT") else 0


def boot_id() -> str:
    """Return an empty id: one boot cannot be distinguished from another."""
    return ""


def look(pid: int) -> Process | None:
    """Return a process, with its parent only if it is our own; None if it does not exist."""
    if not is_running(pid):
        return None
    parent = os.getppid() if pid == os.getpid() else 0
    return Process(ProcessIdentity(pid, None), parent, "")


def is_running(pid: int) -> bool:
    """Return whether the process exists; a zombie counts, as it cannot be recognised here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def read_argv(pid: int) -> list[str]:  # noqa: ARG001  # one interface
    """Return nothing: it cannot be read."""
    return []


def read_executable(pid: int) -> str:  # noqa: ARG001  # one interface
    """Return nothing: it cannot be read."""
    return ""


def read_cwd(pid: int) -> str:
    """Return our own directory."""
    try:
        return os.getcwd() if pid == os.getpid() else ""
    except OSError:
        return ""  # it has been deleted


def read_owner(pid: int) -> int | None:
    """Return our own user."""
    return os.getuid() if pid == os.getpid() else None


def read_variable(pid: int, name: str) -> str | None:
    """Return one of our own variables, as it is now: how it was at the start is unknown."""
    return os.environ.get(name) if pid == os.getpid() else None


def read_environ(pid: int) -> dict[str, str]:
    """Return our own environment."""
    return dict(os.environ) if pid == os.getpid() else {}


def list_open_files(pid: int) -> list[str]:  # noqa: ARG001  # one interface
    """Return nothing: they cannot be listed."""
    return []


def holds_writing_end(pid: int, fd: int) -> Verdict:  # noqa: ARG001  # one interface
    """Return "unknown": no system call shows it."""
    return "unknown"


def list_pids() -> list[int]:
    """Return nothing: they cannot be listed."""
    return []


def list_descendants(pid: int) -> list[int]:
    """Return our own living children; callers that end them and ask again find the rest.

    `waitid` answers for any number whether it is a child of ours. The kernel gives out pids in
    turn, so our descendants have pids between ours and the newest, or, if the numbers have
    wrapped around since, above ours or below the newest. If that finds no child, the numbers may
    have come all the way round, and every pid is tried, which takes seconds. That is not done
    while a child waits to be reaped, because that child may be the only one.
    """
    if pid != os.getpid() or not _has_children():
        return []
    newest = _find_newest_pid()
    if newest > pid:
        found = _list_children(range(pid + 1, newest))
    else:
        found = _list_children(range(2, newest)) + _list_children(range(pid + 1, _LARGEST_PID))
    if found or os.waitid(os.P_ALL, 0, _LOOK_ONLY) is not None:
        return found
    return _list_children(range(2, _LARGEST_PID))


def list_listening(pid: int) -> list[str]:  # noqa: ARG001  # one interface
    """Return nothing: the sockets of a process cannot be listed."""
    return []


def measure_share(pid: int) -> int | None:  # noqa: ARG001  # one interface
    """Return None: the memory of a process cannot be read."""
    return None


def started_seconds_ago(pid: int) -> float | None:  # noqa: ARG001  # one interface
    """Return nothing: it cannot be read."""
    return None


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, _LOOK_ONLY)
    except ChildProcessError:
        return False
    return True


def _find_newest_pid() -> int:
    newest = os.fork()  # no call returns the newest pid; a child of ours has it
    if newest == 0:
        os._exit(0)
    os.waitpid(newest, 0)
    return newest


def _list_children(pids: Iterable[int]) -> list[int]:
    children = []
    for pid in pids:
        try:
            # None is a living child; a result is one that has ended and waits to be reaped.
            if os.waitid(os.P_PID, pid, _LOOK_ONLY) is None:
                children.append(pid)
        except ChildProcessError:
            pass  # not our child, or no process
    return children
