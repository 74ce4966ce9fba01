"""Writes without blocking: at once or, if there is no room, later."""

from __future__ import annotations

import os
import select
import stat

from mcp_launch.system import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.runtime.loop import Loop

# How much may wait for a reader before those wait whose messages it would get next.
BEHIND = 1 << 20


class Writer:
    """Writes to one descriptor, and keeps what its reader has no room for yet."""

    __slots__ = (
        "_closes",
        "_is_broken",
        "_loop",
        "_target",
        "_unread",
        "_write",
        "fd",
        "is_closed",
        "on_broken",
        "on_moved",
        "pending",
    )

    def __init__(
        self,
        loop: Loop,
        fd: int,
        *,
        on_moved: Callable[[], None] = lambda: None,
        on_broken: Callable[[], None] = lambda: None,
    ) -> None:
        self.fd = fd
        self._loop = loop
        self.on_moved = on_moved  # some of what had to wait was written
        self.on_broken = on_broken  # the reader has closed its end
        self._write, self._target = _open_without_blocking(fd)
        self._closes = False  # as soon as nothing is pending
        self._unread = b""  # what the reader will never read
        self._is_broken = False
        self.pending = bytearray()
        self.is_closed = False

    def put(self, data: bytes) -> None:
        """Write, or keep what does not fit."""
        if self.pending:
            self.pending += data
            return
        if self.is_closed:
            if self._is_broken:
                self._unread += data  # sent before we knew; `recover` returns it in order
            return
        try:
            written = self._write(self._target, data)
        except BlockingIOError:
            written = 0
        except OSError:
            self._break(data)
            return
        if written != len(data):
            with memoryview(data) as view:
                self.pending += view[written:]
            self._loop.watch(self.fd, self.flush, select.POLLOUT)

    @property
    def is_behind(self) -> bool:
        """Whether too much waits for the reader."""
        return len(self.pending) > BEHIND

    def flush(self) -> None:
        """Write pending data."""
        try:
            del self.pending[: self._write(self._target, self.pending)]
        except BlockingIOError:
            return
        except OSError:
            self._break(bytes(self.pending))
            return
        if not self.pending:
            self._loop.unwatch(self.fd)
            if self._closes:
                self.close()
        self.on_moved()

    def recover(self) -> bytes:
        """Return the data that the reader has not read, written or pending."""
        return self._unread if self.is_closed else _read_back(self.fd) + bytes(self.pending)

    def _break(self, unsent: bytes) -> None:
        self._unread = _read_back(self.fd) + unsent
        self._is_broken = True
        self.close()
        self.on_broken()

    def close_when_empty(self) -> None:
        """Close after all pending data is written."""
        if self.pending:
            self._closes = True
        else:
            self.close()

    def close(self) -> None:
        """Close now, and drop pending data."""
        if self.is_closed:
            return
        self.is_closed = True
        self.pending = bytearray()
        self._loop.unwatch(self.fd)
        if not isinstance(self._target, int):
            # A socket closes its descriptor when it is garbage-collected. By then, the number may
            # belong to another file.
            self._target.detach()
        if self.fd > 2:  # noqa: PLR2004  # the number of a standard descriptor must not be reused
            os.close(self.fd)
        else:
            replace_with_null(self.fd)


def _open_without_blocking(fd: int) -> tuple[Callable[[Any, bytes | bytearray], int], Any]:
    """Return a write function that never blocks, and its target.

    O_NONBLOCK belongs to the open file, not to the descriptor. Other processes share the
    open file of a terminal or an inherited pipe, and must not be affected.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        from mcp_launch.system import sockets

        return sockets.open_socket(fd)
    if stat.S_ISFIFO(mode):
        if fd > 2:  # noqa: PLR2004  # our own pipe
            os.set_blocking(fd, False)
        else:
            _reopen(fd)
    elif os.isatty(fd):
        _reopen(fd)  # a stopped terminal (^S) must not block anything else
    return os.write, fd


def _read_back(fd: int) -> bytes:
    """Return the unread data in a pipe of ours that has lost its reader.

    The data stays there while our end is open. Reading it needs /proc.
    """
    if fd <= 2:  # noqa: PLR2004  # the host's, not ours
        return b""
    try:
        reading = linux.reopen("self", fd, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    unread = b""
    try:
        while data := os.read(reading, 1 << 16):
            unread += data
    except BlockingIOError:
        pass  # the pipe is empty
    finally:
        os.close(reading)
    return unread


def _reopen(fd: int) -> None:
    try:
        own = linux.reopen("self", fd, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        if not os.isatty(fd):
            os.set_blocking(fd, False)  # no /proc: this affects other processes, too
        return
    os.dup2(own, fd)
    os.close(own)


def replace_with_null(fd: int) -> None:
    """Close a standard descriptor without freeing its number."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)
    os.close(null)
