"""The process table where Linux shows none: `/proc` is not mounted, or is another's.

In a chroot or a sandbox `/proc` may be missing. In a pid namespace that still sees the
outer `/proc` (`unshare -pf`, `bwrap --unshare-pid` without `--proc`) it is there, but its
numbers are other processes' than ours: whoever acted on them would signal strangers.

So nothing is read here. What the system calls themselves tell is little, but true: whether
a pid exists, who our parent is, and which processes are our own children. The last is
enough to end everything: as each of them dies, its children become ours.
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

# No Linux has a larger pid (PID_MAX_LIMIT); what the limit is here is told in /proc alone.
_LARGEST_PID = 1 << 22


def boot_id() -> str:
    """Return nothing: this boot cannot be told from another."""
    return ""


def look(pid: int) -> Process | None:
    """See that there is such a process, and of our own who started it."""
    if not is_running(pid):
        return None
    parent = os.getppid() if pid == os.getpid() else 0
    return Process(ProcessIdentity(pid, None), parent, "")


def is_running(pid: int) -> bool:
    """Tell whether there is such a process."""
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
    """Return one of our own variables: as it is now, for want of how it was at the start."""
    return os.environ.get(name) if pid == os.getpid() else None


def read_environ(pid: int) -> dict[str, str]:
    """Return our own environment."""
    return dict(os.environ) if pid == os.getpid() else {}


def list_open_files(pid: int) -> list[str]:  # noqa: ARG001  # one interface
    """Return nothing: they cannot be listed."""
    return []


def holds_writing_end(pid: int, fd: int) -> Verdict:  # noqa: ARG001  # one interface
    """Tell whether the process can write into our pipe: nobody says."""
    return "unknown"


def list_pids() -> list[int]:
    """Return nothing: they cannot be listed."""
    return []


def list_descendants(pid: int) -> list[int]:
    """Return our own children that live: who asks again after their end finds the rest.

    `waitid` answers for any number whether it is a child of ours. Pids are given out in
    turn, so whoever descends from us has one between ours and the newest, or, where the
    numbers have since started again from below, above ours or below the newest. Only if
    that finds nobody, because they have come round to ours again, are all of them tried,
    which takes seconds; not while there is one to be collected, who may be the last.
    """
    if pid != os.getpid() or not _has_children():
        return []
    newest = _take_a_pid()
    if newest > pid:
        found = _list_children(range(pid + 1, newest))
    else:
        found = _list_children(range(2, newest)) + _list_children(range(pid + 1, _LARGEST_PID))
    if found or os.waitid(os.P_ALL, 0, _LOOK_ONLY) is not None:
        return found
    return _list_children(range(2, _LARGEST_PID))


def started_seconds_ago(pid: int) -> float | None:  # noqa: ARG001  # one interface
    """Return nothing: it cannot be read."""
    return None


_LOOK_ONLY = os.WEXITED | os.WNOHANG | os.WNOWAIT if hasattr(os, "WNOWAIT") else 0


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, _LOOK_ONLY)
    except ChildProcessError:
        return False
    return True


def _take_a_pid() -> int:
    newest = os.fork()
    if newest == 0:
        os._exit(0)
    os.waitpid(newest, 0)
    return newest


def _list_children(pids: Iterable[int]) -> list[int]:
    children = []
    for pid in pids:
        try:
            # An answer: it has ended, and waits to be collected.
            if os.waitid(os.P_PID, pid, _LOOK_ONLY) is None:
                children.append(pid)
        except ChildProcessError:
            pass  # not ours, or nobody's
    return children
