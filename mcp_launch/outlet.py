"""One sink of the relay: written at once, or later when it was full, never waited for."""

from __future__ import annotations

import os
import select
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.attending import Attendant


class Outlet:
    """One sink: written at once, or later when it was full; its source waits meanwhile."""

    __slots__ = (
        "_attendant",
        "_closes",
        "_fd",
        "_is_idle",
        "_on_broken",
        "_resume",
        "_source",
        "_write",
        "is_closed",
        "pending",
    )

    def __init__(  # each named at the call
        self,
        attendant: Attendant,
        fd: int,
        *,
        source: int,
        resume: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._attendant = attendant
        self._fd = fd
        self._source = source
        self._resume = resume
        self._on_broken = on_broken
        self._write = _open_without_blocking(fd)
        self._closes = False
        self._is_idle = True  # open, and nothing pending
        self.pending = b""
        self.is_closed = False

    def put(self, data: bytes) -> None:
        """Write, or keep what does not fit and stop the source."""
        if self._is_idle:
            try:
                written = self._write(data)
            except BlockingIOError:
                written = 0
            except OSError:
                self._break()
                return
            if written == len(data):
                return
            self._is_idle = False
            self.pending = data[written:]
            self._attendant.unwatch(self._source)
            self._attendant.watch(self._fd, self.flush, select.POLLOUT)
        elif not self.is_closed:
            self.pending += data

    def flush(self) -> None:
        """Write what is pending; let the source go on when that is done."""
        try:
            self.pending = self.pending[self._write(self.pending) :]
        except BlockingIOError:
            return
        except OSError:
            self._break()
            return
        if self._attendant.input_ended:
            self._attendant.extend_grace()  # it is slow, but it moves
        if not self.pending:
            self._is_idle = True
            self._attendant.unwatch(self._fd)
            if self._closes:
                self.close()
            else:
                self._attendant.watch(self._source, self._resume)

    def _break(self) -> None:
        self.close()  # nobody reads it any more
        self._on_broken()

    def close_when_empty(self) -> None:
        """Let the other side see the end, after everything that came before it."""
        if self.pending:
            self._closes = True
        else:
            self.close()

    def close(self) -> None:
        """Let the other side see the end now."""
        if self.is_closed:
            return
        self.is_closed = True
        self._is_idle = False
        self.pending = b""
        self._attendant.unwatch(self._fd)
        if self._fd > 2:  # noqa: PLR2004  # a standard descriptor stays, so that nothing else gets it
            os.close(self._fd)
        else:
            replace_by_nothing(self._fd)


def _open_without_blocking(fd: int) -> Callable[[bytes], int]:
    """Return a write that never waits, without changing what others share with us.

    O_NONBLOCK belongs to the open file, not to the descriptor, and on a terminal or an
    inherited pipe the file is somebody else's too.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        import _socket

        stream = _socket.socket(fileno=fd)
        flags = _socket.MSG_DONTWAIT
        return lambda data: stream.send(data, flags)
    if stat.S_ISFIFO(mode):
        if fd > 2:  # noqa: PLR2004  # made by us, for us
            os.set_blocking(fd, False)
        else:
            _reopen(fd)
    elif os.isatty(fd):
        _reopen(fd)  # one that is held (^S) must hold nothing but itself
    return lambda data: os.write(fd, data)


def _reopen(fd: int) -> None:
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        own = os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:
        if not os.isatty(fd):
            os.set_blocking(fd, False)  # no /proc: the pipe's other holders must bear it
        return
    os.dup2(own, fd)
    os.close(own)


def replace_by_nothing(fd: int) -> None:
    """Let go of a standard descriptor without leaving its number free."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, fd)
    os.close(nothing)
