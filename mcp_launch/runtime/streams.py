"""Writes to the host, to servers and to stderr without blocking, and explains a server's end."""

from __future__ import annotations

import os
import select
import stat

from mcp_launch import state
from mcp_launch.errors import ServerFailed, printable
from mcp_launch.runtime.loop import ServerProcess, read
from mcp_launch.system import linux
from mcp_launch.values import FAILURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.runtime.loop import Loop
    from mcp_launch.state.launch_log import Log


class Writer:
    """Writes at once or, if there is no room, later; meanwhile its sources wait."""

    __slots__ = (
        "_closes",
        "_event_loop",
        "_is_broken",
        "_is_idle",
        "_loop",
        "_on_broken",
        "_on_empty",
        "_on_full",
        "_on_moved",
        "_target",
        "_unread",
        "_write",
        "fd",
        "is_closed",
        "pending",
    )

    def __init__(  # noqa: PLR0913  # each named at the call
        self,
        loop: Loop,
        fd: int,
        *,
        on_full: Callable[[], None],
        on_empty: Callable[[], None],
        on_broken: Callable[[], None],
        on_moved: Callable[[], None],
    ) -> None:
        self._loop = loop
        self.fd = fd
        self._on_full = on_full
        self._on_empty = on_empty
        self._on_broken = on_broken
        self._on_moved = on_moved  # some pending data was written
        self._write, self._target = _open_without_blocking(fd)
        self._closes = False  # as soon as nothing is pending
        self._is_idle = True  # open, and nothing pending
        self._unread = b""  # data that the reader will never read
        self._is_broken = False  # the reader has closed its end
        self.pending = bytearray()
        self.is_closed = False

    def put(self, data: bytes) -> None:
        """Write; keep what does not fit, and pause the sources."""
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
            self.pending = bytearray(memoryview(data)[written:])
            self._on_full()
            self._loop.watch(self.fd, self.flush, select.POLLOUT)
        elif not self.is_closed:
            self.pending += data
        elif self._is_broken:
            self._unread += data  # sent before we knew; `recover` returns it in order

    def flush(self) -> None:
        """Write pending data; resume the sources when nothing is left."""
        try:
            del self.pending[: self._write(self._target, self.pending)]
        except BlockingIOError:
            return
        except OSError:
            self._break(bytes(self.pending))
            return
        self._on_moved()
        if not self.pending:
            self._is_idle = True
            self._loop.unwatch(self.fd)
            if self._closes:
                self.close()
            else:
                self._on_empty()

    def recover(self) -> bytes:
        """Return the data that the reader has not read, written or pending."""
        return self._unread if self.is_closed else _read_back(self.fd) + bytes(self.pending)

    def _break(self, unsent: bytes) -> None:
        self._unread = _read_back(self.fd) + unsent
        self._is_broken = True
        self.close()
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


# How many bytes may wait for a host that does not read our stderr before noise is dropped:
# messages must not wait for it.
_NOISE_LIMIT = 1 << 18

# How many lines of noise the outcome of the launch shows, and how many characters of each.
_FIRST_NOISE = 3
_NOISE_WIDTH = 3000

# How many bytes from the end of a server's stderr are kept, to explain its end.
_STDERR_END_SIZE = 2048


class PipedServer(ServerProcess):
    """A server that is connected to us by pipes."""

    writer: Writer  # to its stdin
    stderr: ServerStderr
    output = -1  # our end of its stdout; -1 if closed

    def close_pipes(self) -> None:
        """Close our ends of its pipes."""
        self.writer.close()
        self.close_output()
        self.stderr.close()

    def close_output(self) -> None:
        """Close our end of its stdout."""
        if self.output >= 0:
            self._loop.unwatch(self.output)
            os.close(self.output)
            self.output = -1


class ServerStderr:
    """One server's stderr."""

    __slots__ = ("_close", "end", "source")

    def __init__(self, source: int, close: Callable[[ServerStderr], None]) -> None:
        self.source = source  # our end of the pipe; -1 if closed
        self.end = b""  # the last of what was read
        self._close = close

    def close(self) -> None:
        """Close our end."""
        self._close(self)


class ServerErrors:
    """Passes the stderr of servers on to ours, and keeps the end of each."""

    def __init__(self, loop: Loop, server: str, log: Log, on_empty: Callable[[], None]) -> None:
        self._on_empty = on_empty  # everything was written
        self.first_noise: list[str] = []
        self._servers: list[ServerStderr] = []
        self._last: ServerStderr | None = None  # the one that wrote last
        self._loop = loop
        self._server = server
        self._log = log
        self._writer = Writer(
            loop,
            2,
            on_full=self._pause,
            on_empty=self._resume,
            on_broken=self._close_all,
            on_moved=_do_nothing,
        )

    @property
    def is_pending(self) -> bool:
        """Whether something was not written yet."""
        return bool(self._writer.pending)

    def connect(self, source: int) -> ServerStderr:
        """Pass on the stderr of a server from now on."""
        server = ServerStderr(source, self._close)
        self._servers.append(server)
        if not self._writer.pending:
            self._resume()
        return server

    def print(self, text: str) -> None:
        """Print a message of our own."""
        state.record(text, FAILURE)
        self._print(text)

    def print_install(self, server: PipedServer) -> None:
        """Print that a runner goes on without us, if it does; its guardian logs it."""
        if server.guardian.goes_on:
            self._print(str(server.plan.install))

    def _print(self, text: str) -> None:
        self._writer.put(f"[mcp-launch] {printable(text)}\n".encode(errors="backslashreplace"))

    def report_noise(self, line: bytes) -> None:
        """Report a line of the server's stdout that is not a message."""
        self._log.add_noise(line)
        if len(self._writer.pending) < _NOISE_LIMIT:
            said = line.rstrip(b"\r\n").decode(errors="backslashreplace").expandtabs()
            if len(self.first_noise) < _FIRST_NOISE:
                self.first_noise.append(said[:_NOISE_WIDTH])
            text = f"{self._server} printed a line to stdout that is not a message: {said}"
            self._writer.put(f"[mcp-launch] {printable(text)}\n".encode())

    def _read(self, server: ServerStderr) -> None:
        if data := read(server.source):
            server.end = (server.end + data)[-_STDERR_END_SIZE:]
            if self._last is not server:
                self._log.finish_line()
                self._last = server
            self._log.add_stderr(data)
            self._writer.put(data)
        else:
            self._loop.unwatch(server.source)

    def _pause(self) -> None:
        for server in self._servers:
            self._loop.unwatch(server.source)

    def _resume(self) -> None:
        for server in self._servers:
            self._loop.watch(server.source, lambda server=server: self._read(server))  # type: ignore[misc]
        self._on_empty()

    def _close(self, server: ServerStderr) -> None:
        if server in self._servers:
            self._servers.remove(server)
            self._loop.unwatch(server.source)
            os.close(server.source)
            server.source = -1

    def _close_all(self) -> None:
        for server in self._servers.copy():
            self._close(server)


def _do_nothing() -> None:
    """Ignore an event."""


# How many of the last lines of a server's stderr are shown to its host.
_LAST_LINES = 5

# Lines that say nothing about a server's end: npm announces its own updates after an error.
_NOT_THE_CAUSE = "npm notice"


def tell_exit(code: int) -> str:
    """Return how a process ended, by its exit code."""
    return f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"  # noqa: PLR2004


def explain_end(code: int, when: str, stderr_end: bytes) -> str:
    """Describe how a server ended, with the last lines of its stderr."""
    how = tell_exit(code)
    lines = _list_last_lines(stderr_end)
    if not lines:
        return f"{how} {when}"
    return f"{how} {when}; the end of its stderr: {' / '.join(lines)}"


def _list_last_lines(stderr_end: bytes) -> list[str]:
    """Return the last lines, without secrets: the host passes them on to a model."""
    lines = [line.strip() for line in stderr_end.decode(errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(_NOT_THE_CAUSE)][-_LAST_LINES:]
    if not lines:
        return []
    from mcp_launch import masking

    # All at once: a secret's name may be on the line before it.
    return masking.mask_text("\n".join(lines)).split("\n")


def explain_early_end(server: str, code: int, stderr_end: bytes = b"") -> ServerFailed:
    """Return the error for a server that ended before it answered."""
    error = ServerFailed(
        f"{server} {explain_end(code, 'before it answered', stderr_end)}",
        fix=f"see its output and how it was started: mcp-launch logs {server}; "
        "or run its command by itself in its directory",
        exit_code=code,
    )
    error.lines = _list_last_lines(stderr_end)
    return error
