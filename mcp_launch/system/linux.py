"""The process table as Linux writes it down, read without importing anything."""

from __future__ import annotations

import os
import time

from mcp_launch.values import Process, ProcessIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.values import Verdict

SEES_ALL = True


def boot_id() -> str:
    """Tell this boot of the machine from any other."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def look(pid: int) -> Process | None:
    """See one process; None when there is no such process."""
    line = _read(f"/proc/{pid}/stat")
    if not line:
        return None
    # The second field is the program's name in parentheses, and a name may hold
    # spaces and ")" itself: only what follows the last ")" can be split safely.
    head, _, tail = line.rpartition(b")")
    fields = tail.split()
    name = os.fsdecode(head.partition(b"(")[2])
    return Process(ProcessIdentity(pid, f"ticks:{int(fields[19])}"), int(fields[1]), name)


def is_running(pid: int) -> bool:
    """Tell whether there is such a process, and more of it than its exit code."""
    state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1]
    return bool(state) and state[0] not in b"ZXx"


def read_argv(pid: int) -> list[str]:
    """Return its command line; empty when it cannot be read."""
    words = _read(f"/proc/{pid}/cmdline").split(b"\0")
    return [os.fsdecode(word) for word in words[:-1]]


def read_executable(pid: int) -> str:
    """Return the path of its program; empty when it cannot be read."""
    return _link(f"/proc/{pid}/exe").removesuffix(" (deleted)")


def read_cwd(pid: int) -> str:
    """Return the directory it is in; empty when it cannot be read."""
    return _link(f"/proc/{pid}/cwd").removesuffix(" (deleted)")


def read_variable(pid: int, name: str) -> str | None:
    """Return one variable of the environment it was started with."""
    wanted = os.fsencode(name) + b"="
    for entry in _read(f"/proc/{pid}/environ").split(b"\0"):
        if entry.startswith(wanted):
            return os.fsdecode(entry[len(wanted) :])
    return None


def read_environ(pid: int) -> dict[str, str]:
    """Return the environment it was started with; empty when it cannot be read."""
    entries = _read(f"/proc/{pid}/environ").split(b"\0")
    pairs = (entry.partition(b"=") for entry in entries if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(text) for name, _, text in pairs}


def read_owner(pid: int) -> int | None:
    """Return the number of the user who runs it."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def list_open_files(pid: int) -> list[str]:
    """Return the paths of the regular files it holds open."""
    links = (link for _, link in _descriptors(pid))
    return [link for link in links if link.startswith("/") and not link.startswith("/dev/")]


def holds_writing_end(pid: int, fd: int) -> Verdict:
    """Tell whether the process can write into the pipe that is our `fd`.

    Both ends of a pipe show the same inode, and a shell between host and us holds
    our own reading end: only the access mode in fdinfo tells the ends apart.
    """
    ours = _link(f"/proc/self/fd/{fd}")
    descriptors = _descriptors(pid)
    if not ours.startswith("pipe:") or not descriptors:
        return "unknown"
    for number, link in descriptors:
        if link == ours and _access_mode(pid, number) in {os.O_WRONLY, os.O_RDWR}:
            return "same"
    return "different"


def list_pids() -> list[int]:
    """Return every pid there is."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def list_descendants(pid: int) -> list[int]:
    """Return all processes below `pid`, nearest first.

    A child that is born while we read may be missing: who must not miss one asks
    again until nothing is left (see guardian).
    """
    below = _children(pid)
    for child in below:  # the list grows while it is walked
        below += _children(child)
    return below


def started_seconds_ago(pid: int) -> float | None:
    """Return the age of a process."""
    process = look(pid)
    if process is None or process.identity.start is None:
        return None
    # Not btime from /proc/stat: it is rounded to whole seconds.
    ticks = int(process.identity.start.partition(":")[2])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""  # gone, or not ours to look at: callers treat both as "cannot tell"
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""  # it ended between open and read
    finally:
        os.close(fd)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # gone, or not ours to look at


def _descriptors(pid: int) -> list[tuple[str, str]]:
    directory = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(directory)
    except OSError:
        return []  # gone, or another user's
    return [(number, _link(f"{directory}/{number}")) for number in numbers]


def _access_mode(pid: int, number: str) -> int:
    for line in _read(f"/proc/{pid}/fdinfo/{number}").splitlines():
        if line.startswith(b"flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE
    return -1


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []  # it has ended: whoever was below it is somebody else's child now
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        # A kernel without CONFIG_PROC_CHILDREN (or it ended just now).
        return [other for other in list_pids() if _parent_of(other) == pid]
    listed = (_read(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    return [int(child) for line in listed for child in line.split()]


def _parent_of(pid: int) -> int:
    process = look(pid)
    return process.parent if process else 0
