"""System calls: adopt orphans, die with the parent, watch other processes, signals, descriptors.

Python has no function for `prctl`, and some builds lack `pidfd_open`. Both are called through
`_ctypes`, the C module below `ctypes`, which costs a fraction of `ctypes` to import; where it is
not what we expect, `ctypes` itself is used. `_signal` and `_socket` are imported for the same
reason.
"""

from __future__ import annotations

import os
import select
import sys
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIG_IGN,
    SIG_SETMASK,
    SIG_UNBLOCK,
    SIGCHLD,
    SIGCONT,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGTERM,
    SIGUSR1,
    SIGXFSZ,
    getsignal,
    pthread_sigmask,
    set_wakeup_fd,
    signal,
)

from mcp_launch.values import compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# The number of pidfd_open(2). Calls that are newer than Linux 5.0 have the same number on
# every architecture but Alpha, where this one is unknown and fails.
_SYS_PIDFD_OPEN = 434

# The signals by which a host, a shell or a terminal ends a program that it started.
ENDING = (SIGTERM, SIGINT, SIGHUP)

# The signal by which `mcp-launch restart` has a launcher replace its server.
RESTART = SIGUSR1

__all__ = ["ENDING", "RESTART", "SIGCHLD", "SIGCONT", "SIGINT", "SIGKILL", "SIGTERM"]

_inherited_mask: set[int] = set()
_c_functions: dict[str, Callable[..., int]] = {}


def become_subreaper() -> bool:
    """Adopt every orphan below this process from now on; return False where that is impossible.

    Needs no privilege. A fork does not inherit the flag; an exec keeps it. Without it a daemon
    that forks twice goes to init, and nothing shows any more which launch it came from.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0


def stop_adopting() -> None:
    """Leave the orphans below this process to another one."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 0)


def die_with_parent(signal_number: int) -> bool:
    """Have the kernel send this process a signal when its parent ends; return whether it will.

    The thread that forked it, to be exact: a parent with several threads would kill its child
    by ending one of them. We have one. The setting is not inherited by a fork, survives exec,
    and is cleared by the exec of a set-user-ID program (sudo), so it is never the only means.
    """
    return _prctl(_PR_SET_PDEATHSIG, signal_number) == 0


def open_watch(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None if there is none.

    Unlike a pid it keeps meaning the same process. Only a pid that is reused before this call
    goes unnoticed.

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
        return os.dup(queue.fileno())  # the object closes its own when it is garbage-collected
    except ProcessLookupError:
        raise
    except OSError:
        return None  # an old kernel, or a system call filter: callers poll the process table


class HostWatch:
    """Watches the processes whose end means that the host is gone."""

    __slots__ = ("_parent", "_polled", "_table", "descriptors", "is_lost")

    # How often to look up the processes that have no descriptor. A look costs microseconds.
    interval = 0.5

    def __init__(self, table: ProcessTable, pids: list[int], parent: int | None = None) -> None:
        """Watch these processes; `parent` is the one of them that started this process."""
        self._table = table
        self._parent = parent
        self._polled: list[Process] = []
        self.descriptors: list[int] = []  # each becomes readable when its process ends
        # Another parent has adopted us: ours ended while we started.
        self.is_lost = parent is not None and os.getppid() != parent
        for pid in pids:
            # getppid() returns 0 for a parent outside our pid namespace: it cannot be watched.
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
            self._polled.append(process)

    @property
    def needs_polling(self) -> bool:
        """Whether a process has no descriptor, so that `look` must be called at intervals."""
        return bool(self._polled)

    def look(self) -> bool:
        """Return whether a process that has no descriptor has ended."""
        if self._parent is not None and os.getppid() != self._parent:
            return True  # the table would still list it, as a zombie, until it is reaped
        return any(self._has_ended(known) for known in self._polled)

    def _has_ended(self, known: Process) -> bool:
        seen = self._table.look(known.identity.pid)
        return (
            seen is None
            or compare(known.identity, seen.identity) == "different"
            or not self._table.is_running(known.identity.pid)
        )


def _open_pidfd(pid: int) -> int | None:
    """Open a pidfd from a Python that was built with headers too old to have `pidfd_open`.

    Such Pythons are common (uv's builds before July 2026, PyPy); the kernel below them nearly
    always has the call.
    """
    fd = _call("syscall", _SYS_PIDFD_OPEN, pid, 0)
    if fd >= 0:
        return fd  # the kernel opens it close-on-exec
    os.kill(pid, 0)  # raises ProcessLookupError if that is the reason: errno is not at hand
    return None


def release_inherited(kept: Iterable[int]) -> None:
    """Close every inherited descriptor but these, and leave the inherited directory.

    Among them are the launcher's ends of the server's pipes. A pipe is at its end only when no
    process holds the writing end: while a guardian held a copy, the server would not see its
    input end when the launcher is killed. A working directory keeps its file system busy.
    """
    null = open_null()
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    close_all(kept)
    os.chdir("/")


def open_null() -> int:
    """Return a descriptor of /dev/null, or of a pipe that is at its end where there is none."""
    try:
        return os.open(os.devnull, os.O_RDWR)
    except FileNotFoundError:
        # A chroot without devices.
        reading, writing = os.pipe()
        os.close(writing)
        return reading


def close_all(kept: Iterable[int] = ()) -> None:
    """Close every descriptor except the standard ones and these."""
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    last = os.sysconf("SC_OPEN_MAX")
    os.closerange(first, last if last > 0 else 1 << 16)


def reserve_descriptors(count: int) -> None:
    """Check that this many more descriptors can be opened.

    Raises:
        OSError: They cannot.

    """
    taken = []
    try:
        for _ in range(count):
            taken.append(os.dup(2))  # noqa: PERF401  # on failure, those so far must be closed
    finally:
        for fd in taken:
            os.close(fd)


def _prctl(option: int, argument: int) -> int:
    if sys.platform != "linux":
        return -1
    return _call("prctl", option, argument, 0, 0, 0)


def _call(name: str, *arguments: int) -> int:
    if name not in _c_functions:
        _c_functions[name] = _find_c_function(name)  # once, before the first fork
    return _c_functions[name](*arguments)


def _find_c_function(name: str) -> Callable[..., int]:
    try:
        from _ctypes import call_function, dlopen, dlsym

        # None is this program itself; the type stub allows only a library's name.
        address = dlsym(dlopen(None, 0), name)  # type: ignore[arg-type]
    except (ImportError, OSError):
        import ctypes

        found: Callable[..., int] = ctypes.CDLL(None)[name]
        return found
    return lambda *arguments: int(call_function(address, arguments))


def listen(numbers: Iterable[int]) -> tuple[int, int]:
    """Have these signals write their numbers into a new pipe; return both its ends.

    Python's C handler writes the byte at once, so a signal between a check and the `poll` that
    follows still ends that `poll`. A fork shares its parent's pipe until it calls this itself.
    """
    reading, writing = os.pipe()
    # A handler that blocked on a full pipe would hang the process, so a byte is dropped instead;
    # only thousands of unread SIGCHLDs could fill it, and one of those is as good as many.
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        # One that was ignored from the start (nohup) stays ignored, by us and by the server.
        if number in {SIGCHLD, SIGTERM} or getsignal(number) is not SIG_IGN:
            signal(number, _do_nothing)
        if number == RESTART:
            pthread_sigmask(SIG_UNBLOCK, (RESTART,))  # not before: by default it kills
    return reading, writing


def hears_restart() -> bool:
    """Return whether RESTART reaches us; it does not kill us then."""
    return getsignal(RESTART) is _do_nothing


def ignore_restart() -> None:
    """Ignore RESTART: Python removes its handlers before it exits."""
    if hears_restart():
        signal(RESTART, SIG_IGN)


def ignore_ending() -> None:
    """Ignore what would end us: all is done, and Python removes its handlers before it exits.

    A host that sends SIGINT and then SIGTERM would otherwise see a death by the second.
    """
    for number in ENDING:
        signal(number, SIG_IGN)


def unblock_signals() -> None:
    """Undo what the host and Python have done to the signals that we depend on.

    Blocked and ignored signals stay so over exec. With SIGCHLD ignored, the kernel reaps our
    children itself and their exit codes are lost. Until there is a guardian to instruct, a
    signal simply ends us (Python would turn SIGINT into a traceback).
    """
    global _inherited_mask  # noqa: PLW0603  # the server gets the mask that we got
    _inherited_mask = pthread_sigmask(SIG_UNBLOCK, (SIGCHLD, *ENDING))
    signal(SIGCHLD, SIG_DFL)
    restore_default(SIGINT)


def stop_listening() -> None:
    """Let the signals in ENDING end this process again."""
    set_wakeup_fd(-1)
    for number in ENDING:
        restore_default(number)


def restore_default(number: int) -> None:
    """Remove our handler, or Python's; a signal that is ignored stays ignored."""
    if getsignal(number) is not SIG_IGN:
        signal(number, SIG_DFL)


def restore_for_exec() -> None:
    """Set signal handlers and mask as they would be had the host started the program itself."""
    stop_listening()
    restore_default(SIGCHLD)
    # Exec resets handlers but keeps ignored signals ignored, and Python ignores these two.
    for number in (SIGPIPE, SIGXFSZ):
        signal(number, SIG_DFL)
    pthread_sigmask(SIG_SETMASK, _inherited_mask)


def _do_nothing(number: int, frame: object) -> None:
    """Do nothing: only signals that have a Python handler are written to the wake-up pipe."""
