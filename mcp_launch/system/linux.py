"""The process table as Linux writes it down, read without importing anything.

All reading of `/proc` is done in this package. The functions below the table are for those
who judge running servers: what a process has open, and who may own it. Where there is no
`/proc` they have nothing to return, or raise OSError if they say so.
"""

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
    name, fields = _read_stat(pid)
    if not fields:
        return None
    return Process(ProcessIdentity(pid, f"ticks:{int(fields[19])}"), int(fields[1]), name)


def is_running(pid: int) -> bool:
    """Tell whether there is such a process, and more of it than its exit code."""
    return read_state(pid) not in {"", "Z", "X", "x"}


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
    links = (link for _, link in list_links(pid))
    return [link for link in links if link.startswith("/") and not link.startswith("/dev/")]


def holds_writing_end(pid: int, fd: int) -> Verdict:
    """Tell whether the process can write into the pipe that is our `fd`.

    Both ends of a pipe show the same inode, and a shell between host and us holds
    our own reading end: only the access mode in fdinfo tells the ends apart.
    """
    ours = read_link("self", fd)
    links = list_links(pid)
    if not ours.startswith("pipe:") or not links:
        return "unknown"
    for number, link in links:
        if link == ours and read_access_mode(pid, number) in {os.O_WRONLY, os.O_RDWR}:
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


# In the functions from here on a process is its pid, a thread what `list_threads` calls it.


def list_threads(pid: int) -> list[str]:
    """Return the threads of a process, of which each may have descriptors of its own."""
    try:
        return [f"{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []  # it has ended


def read_state(process: int | str) -> str:
    """Return the letter of its state, `Z` for a zombie; empty when it cannot be read."""
    _, fields = _read_stat(process)
    return fields[0].decode() if fields else ""


def read_job(pid: int) -> tuple[int, int] | None:
    """Return its session and its terminal, each 0 if it has none; None: it cannot be read."""
    _, fields = _read_stat(pid)
    return (int(fields[3]), int(fields[4])) if fields else None


def is_listed(pid: int) -> bool:
    """Tell whether there is such a process, though nothing of it may be readable."""
    return os.path.exists(f"/proc/{pid}")


def measure_share(pid: int) -> int | None:
    """Return the bytes it holds, with what it shares split among its users (PSS)."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return None


def shows_descriptors() -> bool:
    """Tell whether this system shows what a process has open."""
    return os.path.exists("/proc/self/fd")


def list_descriptors(process: int | str) -> list[str]:
    """Return the numbers of its descriptors.

    Raises:
        OSError: It has ended, or is not ours to look at.

    """
    return os.listdir(f"/proc/{process}/fd")


def list_links(process: int | str) -> list[tuple[str, str]]:
    """Return the number of each descriptor, and what it leads to; empty: it cannot be read."""
    try:
        numbers = list_descriptors(process)
    except OSError:
        return []  # gone, or another user's
    return [(number, read_link(process, number)) for number in numbers]


def read_link(process: int | str, number: int | str) -> str:
    """Return what a descriptor leads to; empty when it cannot be read."""
    return _link(f"/proc/{process}/fd/{number}")


def has_descriptor(process: int | str, number: int | str) -> bool:
    """Tell whether a descriptor is still there, though it may not be readable."""
    return os.path.lexists(f"/proc/{process}/fd/{number}")


def look_at_descriptor(process: int | str, number: int | str) -> os.stat_result:
    """Return what is open under a number.

    Raises:
        OSError: It has been closed, or is not ours to look at.

    """
    return os.stat(f"/proc/{process}/fd/{number}")


def reopen(process: int | str, number: int | str, flags: int) -> int:
    """Open what is open under a number once more, with flags of our own.

    Raises:
        OSError: It has been closed, or is not ours to open.

    """
    return os.open(f"/proc/{process}/fd/{number}", flags)


def look_at_file(process: int | str, path: str) -> os.stat_result:
    """Return what a path leads to for a process, which may have another root than we.

    Raises:
        OSError: Nothing, or it is not ours to look at.

    """
    return os.stat(f"/proc/{process}/root{path}")


def read_detail(process: int | str, number: int | str, name: str) -> str:
    """Return one fact of a descriptor; empty when there is none of this name."""
    start = f"{name}:".encode()
    for line in _read(f"/proc/{process}/fdinfo/{number}").splitlines():
        if line.startswith(start):
            return line[len(start) :].decode(errors="replace").strip()
    return ""


def read_access_mode(process: int | str, number: int | str) -> int:
    """Return whether a descriptor is open for reading, writing, or both; -1: nobody knows."""
    flags = read_detail(process, number, "flags")
    return int(flags, 8) & os.O_ACCMODE if flags else -1


def count_connections(path: str) -> int:
    """Return the number of connections to a Unix socket that is a file; 0 if unknown."""
    rows = (line.split(maxsplit=7) for line in _read("/proc/net/unix").split(b"\n"))
    connected = b"03"
    return sum(row[7:] == [os.fsencode(path)] and row[5] == connected for row in rows)


def list_foreign_formats() -> list[str]:
    """Return the names of the formats, besides its own, whose programs the kernel runs."""
    try:
        return os.listdir("/proc/sys/fs/binfmt_misc")
    except OSError:
        return []  # it runs no foreign programs


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
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


def _read_stat(process: int | str) -> tuple[str, list[bytes]]:
    """Return the name of a process, and the fields behind it; nothing when there are none."""
    # The second field is the program's name in parentheses, and a name may hold
    # spaces and ")" itself: only what follows the last ")" can be split safely.
    head, _, tail = _read(f"/proc/{process}/stat").rpartition(b")")
    return os.fsdecode(head.partition(b"(")[2]), tail.split()


def _children(pid: int) -> list[int]:
    threads = list_threads(pid)
    if not threads:
        return []  # it has ended: whoever was below it is somebody else's child now
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        # A kernel without CONFIG_PROC_CHILDREN (or it ended just now).
        return [other for other in list_pids() if _parent_of(other) == pid]
    listed = (_read(f"/proc/{thread}/children") for thread in threads)
    return [int(child) for line in listed for child in line.split()]


def _parent_of(pid: int) -> int:
    process = look(pid)
    return process.parent if process else 0
