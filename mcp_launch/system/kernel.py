"""What to ask of the kernel: adopt orphans, die with a parent, tell of another's end.

Two of these Python has no name for, and a third is missing from some builds of it. They
are made without importing `ctypes`: `ctypes` is a thin layer over the C module used here
and costs several times as much to import; where the C module is not what we expect,
`ctypes` itself is used.
"""

from __future__ import annotations

import os
import select
import sys
from _signal import (  # type: ignore[import-not-found]
    ITIMER_REAL,
    SIG_DFL,
    SIG_IGN,
    SIG_SETMASK,
    SIG_UNBLOCK,
    SIGALRM,
    SIGCHLD,
    SIGCONT,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGTERM,
    SIGXFSZ,
    getsignal,
    pthread_sigmask,
    set_wakeup_fd,
    setitimer,
    signal,
)

from mcp_launch.values import compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# The number of pidfd_open(2). Calls that are newer than Linux 5.0 have the same number on
# every architecture but Alpha, where this one is unknown and fails.
_SYS_PIDFD_OPEN = 434


def become_subreaper() -> bool:
    """Adopt every orphan below this process from now on; False where there is no such thing.

    Not inherited by children, and it needs no privilege. Without it a daemon that forked
    twice goes to init, where nobody can tell whose it was.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0


def die_with_parent(signal_number: int) -> bool:
    """Have the kernel send this process a signal when the thread that forked it ends."""
    return _prctl(_PR_SET_PDEATHSIG, signal_number) == 0


def open_watch(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None if none can be had.

    Raises:
        ProcessLookupError: It has ended already.

    """
    try:
        if hasattr(os, "pidfd_open"):
            return os.pidfd_open(pid)
        if sys.platform == "linux":
            return _open_pidfd(pid)
        queue = select.kqueue()  # type: ignore[attr-defined,unused-ignore]  # not on Linux
        event = select.kevent(  # type: ignore[attr-defined,unused-ignore]
            pid,
            filter=select.KQ_FILTER_PROC,  # type: ignore[attr-defined,unused-ignore]
            flags=select.KQ_EV_ADD,  # type: ignore[attr-defined,unused-ignore]
            fflags=select.KQ_NOTE_EXIT,  # type: ignore[attr-defined,unused-ignore]
        )
        queue.control([event], 0)
        return os.dup(queue.fileno())  # the queue closes its own when it is collected
    except ProcessLookupError:
        raise
    except OSError:
        return None  # too old a kernel, a filter on system calls: it has to be looked at


class HostWatch:
    """The processes whose end is the host's, and how the end of each becomes known."""

    __slots__ = ("_looked_at", "_parent", "_table", "descriptors", "is_lost")

    # How often to look whether they are still there, where no descriptor tells of an end
    # (no pidfd to be had: an old kernel, a filter on system calls). It costs microseconds.
    interval = 0.5

    def __init__(self, table: ProcessTable, pids: list[int], parent: int | None = None) -> None:
        """Watch these; `parent` is the one of them that started this very process."""
        self._table = table
        self._parent = parent
        self._looked_at: list[Process] = []
        self.descriptors: list[int] = []  # readable when one has ended
        # Adopted by another: our parent ended while we started.
        self.is_lost = parent is not None and os.getppid() != parent
        for pid in pids:
            # 0: it is outside our pid namespace, where nothing tells of it.
            if pid > 0:
                self._watch(pid)

    def _watch(self, pid: int) -> None:
        try:
            fd = open_watch(pid)
        except ProcessLookupError:
            self.is_lost = True
            return
        if fd is not None:
            self.descriptors.append(fd)
            return
        process = self._table.look(pid)
        if process is None:
            self.is_lost = True
        else:
            self._looked_at.append(process)

    @property
    def needs_looking(self) -> bool:
        """Whether there is one of whose end no descriptor tells."""
        return bool(self._looked_at)

    def look(self) -> bool:
        """Tell whether one of those has ended."""
        if self._parent is not None and os.getppid() != self._parent:
            return True  # sooner than the table, which still shows it until it is collected
        return any(self._has_ended(known) for known in self._looked_at)

    def _has_ended(self, known: Process) -> bool:
        seen = self._table.look(known.identity.pid)
        return (
            seen is None
            or compare(known.identity, seen.identity) == "different"
            or not self._table.is_running(known.identity.pid)
        )


def _open_pidfd(pid: int) -> int | None:
    """Open a pidfd where Python was built against headers too old to know of them.

    Such Pythons are common (uv's builds before July 2026, PyPy); the kernel they run on
    nearly always knows the call.
    """
    fd = _call("syscall", _SYS_PIDFD_OPEN, pid, 0)
    if fd >= 0:
        return fd  # the kernel opens it close-on-exec
    os.kill(pid, 0)  # raises ProcessLookupError if that is the reason
    return None


def rename(title: str) -> None:
    """Show this process under a name of its own, in `ps` and to `pkill`, where /proc allows it.

    A fork has the name and the words of its parent: `pkill -9 mcp-launch`, and `pkill -f`
    all the more, would hit at once everyone who is there to make up for the death of another.
    """
    name = os.fsencode(title)
    try:
        _write("/proc/self/comm", name, 0)
        with open("/proc/self/stat", "rb") as stat:
            # Fields 48 and 49; a name may hold spaces and ")", see processes.linux.
            first, last = map(int, stat.read().rpartition(b")")[2].split()[45:47])
        # The words are the stack's, which we may write. The last byte stays NUL: anything
        # else tells the kernel that the words go on in the environment.
        if first:
            _write("/proc/self/mem", name[: last - first - 1].ljust(last - first, b"\0"), first)
    except (OSError, ValueError):
        pass  # not Linux, or no /proc: then it goes by its parent's name


def _write(path: str, data: bytes, at: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.lseek(fd, at, os.SEEK_SET)  # not pwrite: `comm` has no such thing
        os.write(fd, data)
    finally:
        os.close(fd)


def let_go(kept: Iterable[int]) -> None:
    """Hold neither a descriptor of anybody's, but these, nor a directory.

    The launcher's ends of the server's pipes are among them: while somebody else held one,
    the server would not see the end of its input when the launcher is killed.
    """
    nothing = open_nothing()
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    close_all(kept)
    os.chdir("/")


def open_nothing() -> int:
    """Open what nothing can be read from, and what is written to is lost."""
    try:
        return os.open(os.devnull, os.O_RDWR)
    except FileNotFoundError:
        # A chroot without devices. A pipe that nobody writes to is at its end as well.
        reading, writing = os.pipe()
        os.close(writing)
        return reading


def close_all(kept: Iterable[int] = ()) -> None:
    """Close every descriptor but the standard ones and these."""
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    last = os.sysconf("SC_OPEN_MAX")
    os.closerange(first, last if last > 0 else 1 << 16)


def read_peer(fd: int) -> int | None:
    """Return the process that made the socket at the other end of ours; None: nobody says."""
    import _socket

    family = getattr(_socket, "AF_UNIX", None)
    if family is None:
        return None
    try:
        peer = _socket.socket(fileno=os.dup(fd))
    except OSError:
        return None
    try:
        if hasattr(_socket, "SO_PEERCRED"):
            raw = peer.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        else:
            # macOS: SOL_LOCAL and LOCAL_PEERPID, for which Python has no names.
            raw = peer.getsockopt(0, 2, 4)
    except OSError:
        return None
    finally:
        peer.close()
    pid = int.from_bytes(raw[:4], sys.byteorder)
    return pid or None


def open_socket(fd: int) -> tuple[Callable[[Any, bytes | bytearray], int], Any]:
    """Return a send that never waits, and the socket to send to, which takes over `fd`."""
    import _socket

    flags = _socket.MSG_DONTWAIT
    return (lambda stream, data: stream.send(data, flags)), _socket.socket(fileno=fd)


def reserve_descriptors(count: int) -> None:
    """See that so many more can be opened.

    Raises:
        OSError: They cannot.

    """
    taken = []
    try:
        for _ in range(count):
            taken.append(os.dup(2))  # noqa: PERF401  # those before a failure are to be closed
    finally:
        for fd in taken:
            os.close(fd)


def _prctl(option: int, argument: int) -> int:
    if sys.platform != "linux":
        return -1
    return _call("prctl", option, argument, 0, 0, 0)


def _call(name: str, *arguments: int) -> int:
    if name not in _found:
        _found[name] = _find(name)  # once, before the first fork
    return _found[name](*arguments)


def _find(name: str) -> Callable[..., int]:
    try:
        from _ctypes import call_function, dlopen, dlsym

        # None is this program itself; the stub knows only libraries by name.
        address = dlsym(dlopen(None, 0), name)  # type: ignore[arg-type]
    except (ImportError, OSError):
        import ctypes

        found: Callable[..., int] = ctypes.CDLL(None)[name]
        return found
    return lambda *arguments: int(call_function(address, arguments))


_found: dict[str, Callable[..., int]] = {}


__all__ = ["ENDING", "SIGALRM", "SIGCHLD", "SIGCONT", "SIGINT", "SIGKILL", "SIGTERM"]

# By which a host, a shell or a terminal ends what it started.
ENDING = (SIGTERM, SIGINT, SIGHUP)

_inherited_mask: set[int] = set()


def listen(numbers: Iterable[int]) -> tuple[int, int]:
    """Have these signals wake us through a pipe, their numbers in it; return both its ends."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        # Ignored from the start (nohup): then it stays ignored, by us and by the server.
        if number in {SIGCHLD, SIGTERM} or getsignal(number) is not SIG_IGN:
            signal(number, _do_nothing)
    return reading, writing


def wake_after(seconds: float) -> None:
    """Have SIGALRM wake us, once, or never (0): a timeout would make every wait dearer."""
    signal(SIGALRM, _do_nothing)
    setitimer(ITIMER_REAL, seconds)


def make_audible() -> None:
    """Undo what a host may have done to the signals we live by, and what Python does.

    A blocked signal stays blocked over exec, and an ignored SIGCHLD takes away the exit
    codes. Until there is a guardian to tell, a signal simply ends us (Python would turn
    SIGINT into a traceback).
    """
    global _inherited_mask  # noqa: PLW0603  # the server is to get it as we got it
    _inherited_mask = pthread_sigmask(SIG_UNBLOCK, (SIGALRM, SIGCHLD, *ENDING))
    signal(SIGCHLD, SIG_DFL)
    restore_default(SIGINT)


def stop_listening() -> None:
    """Let the signals that end a program end this one again."""
    set_wakeup_fd(-1)
    for number in ENDING:
        restore_default(number)


def restore_default(number: int) -> None:
    """Take back a handler, ours or Python's, but leave ignored what was ignored."""
    if getsignal(number) is not SIG_IGN:
        signal(number, SIG_DFL)


def restore_for_exec() -> None:
    """Give a program that we are about to become the signals a host would give it."""
    stop_listening()
    restore_default(SIGCHLD)
    # Python ignores these two for itself, and ignoring is inherited.
    for number in (SIGPIPE, SIGXFSZ):
        signal(number, SIG_DFL)
    pthread_sigmask(SIG_SETMASK, _inherited_mask)


def _do_nothing(number: int, frame: object) -> None:
    """Let the wake-up pipe speak; a signal without a handler would not reach it."""
