"""Our stderr: what servers write to theirs, noise, our own messages."""

from __future__ import annotations

from mcp_launch import state
from mcp_launch.errors import printable
from mcp_launch.runtime.writer import Writer
from mcp_launch.values import FAILURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.runtime.loop import Loop
    from mcp_launch.runtime.server_process import PipedServer
    from mcp_launch.state.launch_log import Log

# How many bytes may wait for a host that does not read our stderr before lines are dropped:
# messages must not wait for it.
_PENDING_LIMIT = 1 << 18

# How many lines of noise the outcome of the launch shows, and how many characters of each.
_FIRST_NOISE = 3
_NOISE_WIDTH = 3000


class Stderr:
    """Writes to our stderr, and keeps in the log what servers write to theirs."""

    def __init__(self, loop: Loop, server: str, log: Log, on_empty: Callable[[], None]) -> None:
        self.first_noise: list[str] = []
        self._server = server
        self._log = log
        self._last: PipedServer | None = None  # the server that wrote last
        self._on_empty = on_empty  # something was written that had to wait
        self._writer = Writer(loop, 2, on_moved=self._move)

    def _move(self) -> None:
        if not self._writer.pending:
            self._on_empty()

    @property
    def is_pending(self) -> bool:
        """Whether something was not written yet."""
        return bool(self._writer.pending)

    def tell(self, text: str) -> None:
        """Print a message of our own, and log it."""
        state.record(text, FAILURE)
        self.print(text)

    def print(self, text: str) -> None:
        """Print a message of our own."""
        self._writer.put(f"[mcp-launch] {printable(text)}\n".encode(errors="backslashreplace"))

    def add(self, server: PipedServer, data: bytes) -> None:
        """Pass on what a server has written; the log has it even if nobody reads ours."""
        if self._last is not server:
            self._log.finish_line()
            self._last = server
        self._log.add_stderr(data)
        if len(self._writer.pending) < _PENDING_LIMIT:
            self._writer.put(data)

    def add_noise(self, line: bytes) -> None:
        """Report a line of the server's stdout that is not a message."""
        self._log.add_noise(line)
        if len(self._writer.pending) < _PENDING_LIMIT:
            said = line.rstrip(b"\r\n").decode(errors="backslashreplace").expandtabs()
            if len(self.first_noise) < _FIRST_NOISE:
                self.first_noise.append(said[:_NOISE_WIDTH])
            text = f"{self._server} printed a line to stdout that is not a message: {said}"
            self.print(text)
