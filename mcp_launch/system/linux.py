"""The process table of Linux, read from `/proc` without importing anything.

Only this package reads `/proc`. The first part implements `ProcessTable`. The second part serves
the commands that examine running servers: what a process has open, and which terminal it has.
Where there is no `/proc` its functions return an empty value, or raise OSError where they say so.

A process may end between any two reads, and another user's may be unreadable. Both look the same
to callers: an empty result. A pid read here may be reused by the time it is signalled, unless it
is a child that has not been reaped.
"""

from __future__ import annotations

import os
import time

from mcp_launch.values import Process, ProcessIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.values import Verdict

SEES_ALL = True
_proc = "/proc"


def ignore_proc() -> None:
    """Read no process from here on: `/proc` is missing, or shows another pid namespace.

    Its numbers are not our pids then (`unshare -pf`, `bwrap --unshare-pid` without `--proc`):
    acting on them would signal other people's processes.
    """
    global SEES_ALL, _proc  # a process has one /proc
    SEES_ALL, _proc = False, os.devnull  # there is nothing below it


def boot_id() -> str:
    """Return an id of this boot of the machine."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def look(pid: int) -> Process | None:
    """Return one process; None if it does not exist."""
    if not SEES_ALL:
        return Process(ProcessIdentity(pid, None), 0, "") if _is_pid(pid) else None
    name, fields = _read_stat(pid)
    if not fields:
        return None
    # Field 22 of proc(5) is the start in clock ticks since boot, which no later process with
    # this pid shares; field 4 is the parent. `fields` begins with field 3.
    return Process(ProcessIdentity(pid, f"ticks:{int(fields[19])}"), int(fields[1]), name)


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    if not SEES_ALL:
        return _is_pid(pid)
    _, fields = _read_stat(pid)
    return bool(fields) and fields[0] not in {b"Z", b"X", b"x"}


def read_argv(pid: int) -> list[str]:
    """Return its command line; empty when it cannot be read."""
    # Each argument ends with a NUL. A program that writes a title over them may leave it out,
    # and then what follows the last NUL is not an argument.
    words = _read(f"{_proc}/{pid}/cmdline").split(b"\0")
    return [os.fsdecode(word) for word in words[:-1]]


def read_executable(pid: int) -> str:
    """Return the path of its program; empty when it cannot be read."""
    return _link(f"{_proc}/{pid}/exe").removesuffix(" (deleted)")


def read_cwd(pid: int) -> str:
    """Return its working directory; empty when it cannot be read."""
    return _link(f"{_proc}/{pid}/cwd").removesuffix(" (deleted)")


def read_variable(pid: int, name: str) -> str | None:
    """Return one variable of the environment it was started with."""
    wanted = os.fsencode(name) + b"="
    for entry in _read(f"{_proc}/{pid}/environ").split(b"\0"):
        if entry.startswith(wanted):
            return os.fsdecode(entry[len(wanted) :])
    return None


def read_environ(pid: int) -> dict[str, str]:
    """Return the environment it was started with; empty when it cannot be read."""
    entries = _read(f"{_proc}/{pid}/environ").split(b"\0")
    pairs = (entry.partition(b"=") for entry in entries if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(text) for name, _, text in pairs}


def read_owner(pid: int) -> int | None:
    """Return the id of the user who runs it."""
    for line in _read(f"{_proc}/{pid}/status").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def list_open_files(pid: int) -> list[str]:
    """Return the paths of the regular files it holds open."""
    links = (link for _, link in list_links(pid))
    return [link for link in links if link.startswith("/") and not link.startswith("/dev/")]


def holds_writing_end(pid: int, fd: int) -> Verdict:
    """Return whether the process can write into the pipe that is our `fd`.

    Both ends of a pipe show the same inode, and a shell between the host and us holds our own
    reading end: only the access mode in fdinfo distinguishes the ends.
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
    """Return every pid."""
    return [int(name) for name in os.listdir(_proc) if name.isdigit()] if SEES_ALL else []


def list_descendants(pid: int) -> list[int]:
    """Return all processes below `pid`, nearest first.

    A child that is forked while we read may be missing. Callers that must not miss one ask
    again until nothing is left (see `sweep.end_all`).
    """
    below = _children(pid)
    for child in below:  # the list grows while it is walked
        below += _children(child)
    return below


def started_seconds_ago(pid: int) -> float | None:
    """Return the age of a process; None when it cannot be read."""
    process = look(pid)
    if process is None or process.identity.start is None:
        return None
    # Not btime from /proc/stat: it is rounded to whole seconds.
    ticks = int(process.identity.start.partition(":")[2])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def measure_share(pid: int) -> int | None:
    """Return its memory in bytes, shared pages divided among their users (PSS)."""
    return _read_size(f"{_proc}/{pid}/smaps_rollup", b"Pss:")


def measure_swapped(pid: int) -> int:
    """Return its memory that is swapped out, in bytes; 0 when this cannot be read."""
    share = _read_size(f"{_proc}/{pid}/smaps_rollup", b"SwapPss:")
    if share is None:
        share = _read_size(f"{_proc}/{pid}/status", b"VmSwap:")
    return share or 0


def list_listening(pid: int) -> list[str]:
    """Return the sockets on which it listens, as `tcp 127.0.0.1:80` or `unix /run/it`."""
    own = {name[8:-1] for _, name in list_links(pid) if name.startswith("socket:[")}
    if not own:
        return []
    found = []
    for kind in ("tcp", "tcp6"):
        for line in _read(f"{_proc}/{pid}/net/{kind}").decode().splitlines()[1:]:
            # Columns: number, local address, remote address, state (0A: LISTEN), …, inode.
            columns = line.split()
            if columns[3] == "0A" and columns[9] in own:
                found.append(f"{kind} port {int(columns[1].rpartition(':')[2], 16)}")
    for line in _read(f"{_proc}/{pid}/net/unix").decode(errors="replace").splitlines()[1:]:
        # Columns: address, count, protocol, flags (0x10000: it accepts connections), type, state,
        # inode, and the path if it has one.
        columns = line.split(None, 7)
        if int(columns[3], 16) & 0x10000 and columns[6] in own:
            found.append(f"unix {columns[7] if len(columns) > 7 else columns[6]}")  # noqa: PLR2004
    return found


def shows_descriptors() -> bool:
    """Return whether this system shows which files a process has open."""
    return os.path.exists("/proc/self/fd")


def list_links(process: int | str) -> list[tuple[str, str]]:
    """Return each descriptor's number and target; empty when they cannot be read."""
    try:
        numbers = os.listdir(f"{_proc}/{process}/fd")
    except OSError:
        return []  # gone, or another user's
    return [(number, read_link(process, number)) for number in numbers]


def read_link(process: int | str, number: int | str) -> str:
    """Return the target of a descriptor; empty when it cannot be read."""
    return _link(f"{_proc}/{process}/fd/{number}")


def reopen(process: int | str, number: int | str, flags: int) -> int:
    """Open the file of another process's descriptor again, with our own flags.

    A new open file, not a copy of the descriptor: its flags and offset are ours alone.

    Raises:
        OSError: It has been closed, or we may not open it.

    """
    return os.open(f"{_proc}/{process}/fd/{number}", flags)


def read_access_mode(process: int | str, number: int | str) -> int:
    """Return O_RDONLY, O_WRONLY or O_RDWR for a descriptor; -1 when it cannot be read."""
    for line in _read(f"{_proc}/{process}/fdinfo/{number}").splitlines():
        if line.startswith(b"flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE
    return -1


def _is_pid(pid: int) -> bool:
    """Return whether a process, or a zombie, has this pid."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def _read_size(path: str, field: bytes) -> int | None:
    """Return a field in bytes from a file that has it in kB."""
    for line in _read(path).splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return None


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""  # it has ended, or we may not read it: callers treat both as "unknown"
    try:
        # To the end: these files have no size (`stat` says 0), and a read may be short.
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
        return ""  # it has ended, or we may not read it


def _read_stat(process: int | str) -> tuple[str, list[bytes]]:
    """Return the name of a process and the fields after it; both empty if it does not exist."""
    # The second field is the program's name in parentheses, and a name may hold
    # spaces and ")" itself: only what follows the last ")" can be split safely.
    head, _, tail = _read(f"{_proc}/{process}/stat").rpartition(b")")
    return os.fsdecode(head.partition(b"(")[2]), tail.split()


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"{_proc}/{pid}/task")
    except OSError:
        return []  # it has ended: its children have another parent now
    if not os.path.exists(f"{_proc}/{pid}/task/{pid}/children"):
        # A kernel without CONFIG_PROC_CHILDREN (or it has just ended).
        return [other for other in list_pids() if _parent_of(other) == pid]
    # Each thread lists the children that it forked itself.
    listed = (_read(f"{_proc}/{pid}/task/{thread}/children") for thread in threads)
    return [int(child) for line in listed for child in line.split()]


def _parent_of(pid: int) -> int:
    process = look(pid)
    return process.parent if process else 0


def set_process_name(title: str) -> None:
    """Change the name and the command line that `ps` and `pkill` see, where /proc allows it.

    A fork keeps its parent's: `pkill -9 mcp-launch` would kill launcher, keeper and guardian
    together, which exist to survive each other.
    """
    name = os.fsencode(title)
    try:
        _write("/proc/self/comm", name, 0)
        with open("/proc/self/stat", "rb") as stat:
            # Fields 48 and 49, arg_start and arg_end, counted after the last ")": the name
            # in field 2 may hold spaces and ")" itself.
            first, last = map(int, stat.read().rpartition(b")")[2].split()[45:47])
        # The arguments are on our own stack, so we may overwrite them. The last byte stays
        # NUL: otherwise the kernel takes it that they continue into the environment.
        if first:
            _write("/proc/self/mem", name[: last - first - 1].ljust(last - first, b"\0"), first)
    except (OSError, ValueError):
        pass  # not Linux, or no /proc: it keeps its parent's name


def _write(path: str, data: bytes, at: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.lseek(fd, at, os.SEEK_SET)  # `comm` does not support pwrite
        os.write(fd, data)
    finally:
        os.close(fd)
