"""Isolate the hosts: no network but loopback, and no process gets lost."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import time
from typing import TYPE_CHECKING

import psutil
from launches import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP_AND_RUNNING = 0x1 | 0x40
_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def leave_only_loopback() -> Iterator[None]:
    """Leave this thread and its children no network but loopback.

    Only root can do this. Otherwise the hosts' proxy settings have to do.
    """
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    is_isolated = _libc.unshare(_NEW_NETWORK) == 0
    try:
        if is_isolated:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                up = struct.pack("16sh14x", b"lo", _UP_AND_RUNNING)
                fcntl.ioctl(any_socket, _SET_FLAGS, up)
        yield
    finally:
        if is_isolated:
            assert _libc.setns(before, _NEW_NETWORK) == 0
        os.close(before)


@contextlib.contextmanager
def adopt_and_end_orphans() -> Iterator[None]:
    """Adopt all orphans below us, and end them on exit."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        deadline = time.monotonic() + LIMIT
        while (left := list_below()) and time.monotonic() < deadline:
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
        _libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def list_below() -> list[psutil.Process]:
    """Return all our descendants."""
    return psutil.Process().children(recursive=True)


def terminate(*words: str) -> None:
    """Terminate all our descendants that have one of these words as their name or argument."""
    for process in list_below():
        with contextlib.suppress(psutil.NoSuchProcess):
            if {process.name(), *process.cmdline()} & {*words}:
                process.terminate()


def find_above(pid: int, name: str) -> int:
    """Return the pid of the nearest ancestor with this name."""
    return next(one.pid for one in psutil.Process(pid).parents() if one.name() == name)


def wait_until_alone(seconds: float) -> list[str]:
    """Wait until we have no descendants; return those that are left after that time."""
    deadline = time.monotonic() + seconds
    while (left := list_below()) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.1)
    return [describe(process) for process in left]


def describe(process: psutil.Process) -> str:
    """Return a process's command line, or its name."""
    try:
        return " ".join(process.cmdline()) or process.name()
    except psutil.NoSuchProcess:
        return "gone by now"
