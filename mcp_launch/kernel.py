"""What to ask of the kernel: adopt orphans, die with a parent, tell of another's end.

Two of these Python has no name for. They are made without importing `ctypes`:
`ctypes` is a thin layer over the C module used here and costs several times as much to
import; where the C module is not what we expect, `ctypes` itself is used.
"""

from __future__ import annotations

import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


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
        return None  # too old a kernel, a filter on system calls: the end of input remains


def _prctl(option: int, argument: int) -> int:
    if sys.platform != "linux":
        return -1
    if not _found:
        _found.append(_find_prctl())  # once, before the first fork
    return _found[0](option, argument, 0, 0, 0)


def _find_prctl() -> Callable[..., int]:
    try:
        from _ctypes import call_function, dlopen, dlsym

        # None is this program itself; the stub knows only libraries by name.
        address = dlsym(dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    except (ImportError, OSError):
        import ctypes

        return ctypes.CDLL(None).prctl
    return lambda *arguments: int(call_function(address, arguments))


_found: list[Callable[..., int]] = []
