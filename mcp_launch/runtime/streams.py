"""The relay's outputs: written without blocking, at once or when there is room again."""

from __future__ import annotations

import os
import select
import stat

from mcp_launch import trace
from mcp_launch.errors import printable
from mcp_launch.runtime import loop
from mcp_launch.runtime.loop import read
from mcp_launch.system import kernel, linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.runtime.loop import EventLoop
    from mcp_launch.state.launch_log import Log


class Outlet:
    """One sink: written at once, or when it has room again; until then its source waits."""

    __slots__ = (
        "_closes",
        "_event_loop",
        "_fd",
        "_is_idle",
        "_on_broken",
        "_resume",
        "_source",
        "_target",
        "_unread",
        "_write",
        "is_closed",
        "pending",
    )

    def __init__(  # each named at the call
        self,
        event_loop: EventLoop,
        fd: int,
        *,
        source: int,
        resume: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._event_loop = event_loop
        self._fd = fd
        self._source = source
        self._resume = resume
        self._on_broken = on_broken
        self._write, self._target = _open_without_blocking(fd)
        self._closes = False
        self._is_idle = True  # open, and nothing pending
        self._unread = b""
        self.pending = bytearray()
        self.is_closed = False

    def serve(self, source: int) -> None:
        """Switch to another source, which waits while data is pending."""
        self._source = source
        if not self.pending:
            self._event_loop.watch(source, self._resume)

    def put(self, data: bytes) -> None:
        """Write; keep what does not fit, and stop reading the source."""
        if self._is_idle:
            try:
                written = self._write(self._target, data)
            except BlockingIOError:
                written = 0
            except OSError:
                self._break(data)
                return
            if written == len(data):
                return
            self._is_idle = False
            self.pending = bytearray(data[written:])
            self._event_loop.unwatch(self._source)
            self._event_loop.watch(self._fd, self.flush, select.POLLOUT)
        elif not self.is_closed:
            self.pending += data

    def flush(self) -> None:
        """Write pending data; read the source again when all is written."""
        try:
            del self.pending[: self._write(self._target, self.pending)]
        except BlockingIOError:
            return
        except OSError:
            self._break(bytes(self.pending))
            return
        if self._event_loop.input_ended:
            self._event_loop.extend_grace()  # the reader is slow, but still reads
        if not self.pending:
            self._is_idle = True
            self._event_loop.unwatch(self._fd)
            if self._closes:
                self.close()
            else:
                self._event_loop.watch(self._source, self._resume)

    def recover(self) -> bytes:
        """Return what was written or pending, and will never be read."""
        return self._unread if self.is_closed else _read_back(self._fd) + bytes(self.pending)

    def _break(self, unsent: bytes) -> None:
        self._unread = _read_back(self._fd) + unsent
        self.close()  # the reader is gone
        self._on_broken()

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
        self._is_idle = False
        self.pending = bytearray()
        self._event_loop.unwatch(self._fd)
        if self._fd > 2:  # noqa: PLR2004  # a standard descriptor stays, so that nothing else gets it
            os.close(self._fd)
        else:
            replace_by_nothing(self._fd)


def _open_without_blocking(fd: int) -> tuple[Callable[[Any, bytes | bytearray], int], object]:
    """Return a write function that never blocks, and its target.

    O_NONBLOCK belongs to the open file, not to the descriptor. Other processes share the
    open file of a terminal or an inherited pipe, and theirs must not change.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        return kernel.open_socket(fd)
    if stat.S_ISFIFO(mode):
        if fd > 2:  # noqa: PLR2004  # made by us, for us
            os.set_blocking(fd, False)
        else:
            _reopen(fd)
    elif os.isatty(fd):
        _reopen(fd)  # a stopped terminal (^S) must not block anything else
    return os.write, fd


def _read_back(fd: int) -> bytes:
    """Return the unread data in a pipe of ours that has lost its reader.

    The data stays there while our end is open. Without /proc it cannot be read.
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
            os.set_blocking(fd, False)  # no /proc: it changes for other processes, too
        return
    os.dup2(own, fd)
    os.close(own)


def replace_by_nothing(fd: int) -> None:
    """Close a standard descriptor without freeing its number."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, fd)
    os.close(nothing)


# How many bytes of noise wait for a host that does not read our stderr. More is dropped,
# so that messages need not wait for it.
_NOISE_LIMIT = 1 << 18

# How many lines of noise are kept for the launch's outcome, and how much of each.
_FIRST_NOISE = 3
_NOISE_WIDTH = 3000

# The end of the server's stderr, kept for the error that says why it died.
_STDERR_END_SIZE = 2048


class StderrRelay:
    """Relays the server's stderr to our own, and keeps its end."""

    def __init__(self, event_loop: EventLoop, server: str, log: Log) -> None:
        self.stderr_end = b""
        self.first_noise: list[str] = []
        self.source = -1
        self._event_loop = event_loop
        self._server = server
        self._log = log
        self._outlet = Outlet(
            event_loop, 2, source=-1, resume=self._read, on_broken=self._close_source
        )

    @property
    def is_pending(self) -> bool:
        """Whether the host has not read all of it."""
        return bool(self._outlet.pending)

    def connect(self, source: int) -> None:
        """Switch to the stderr of another server."""
        self._log.finish_line()
        self._close_source()
        self.source = source
        self.stderr_end = b""
        self._outlet.serve(source)

    def report(self, text: str) -> None:
        """Write a line of our own."""
        trace.record(text)
        self._outlet.put(f"[mcp-launch] {printable(text)}\n".encode(errors="backslashreplace"))

    def describe_end(self, code: int, *, is_over: bool) -> str:
        """Describe how the server ended, without its stderr if it ended as expected."""
        if is_over and not code:
            return loop.describe_end(code, "after the end of its input", b"")
        return loop.describe_end(code, "while it was at work", self.stderr_end)

    def report_noise(self, line: bytes) -> None:
        """Report a line of the server's stdout that is not a message."""
        self._log.add_noise(line)
        if len(self._outlet.pending) < _NOISE_LIMIT:
            said = line.rstrip(b"\r\n").decode(errors="backslashreplace").expandtabs()
            if len(self.first_noise) < _FIRST_NOISE:
                self.first_noise.append(said[:_NOISE_WIDTH])
            told = f"{self._server} printed a line to stdout that is not a message: {said}"
            self._outlet.put(f"[mcp-launch] {printable(told)}\n".encode())

    def _read(self) -> None:
        if data := read(self.source):
            self.stderr_end = (self.stderr_end + data)[-_STDERR_END_SIZE:]
            self._log.add_stderr(data)
            self._outlet.put(data)
        else:
            self._event_loop.unwatch(self.source)

    def _close_source(self) -> None:
        if self.source >= 0:
            self._event_loop.unwatch(self.source)
            os.close(self.source)
            self.source = -1
