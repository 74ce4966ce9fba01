"""Signals, from the C module: `signal` itself builds enums for a quarter of a Python start."""

from __future__ import annotations

import os

# typeshed knows `signal` only.
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
