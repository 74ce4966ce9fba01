"""What a server says on its stderr, and what it says on its stdout by mistake."""

from __future__ import annotations

import os

from mcp_launch import trace
from mcp_launch.errors import printable
from mcp_launch.runtime import loop
from mcp_launch.runtime.loop import read
from mcp_launch.runtime.writer import Outlet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.runtime.loop import Attendant
    from mcp_launch.state.launch_log import Log

# Noise may wait so long on a host that does not read our stderr; then it is dropped:
# nobody shows it, and the messages behind it must not wait for it.
_NOISE_LIMIT = 1 << 18

# How many lines of noise are kept for the launch's outcome, and how much of each.
_FIRST_NOISE = 3
_NOISE_WIDTH = 3000

# The end of the server's stderr, kept for the error that says why it died.
_LAST_WORDS = 2048


class Complaints:
    """Carries them to our own stderr, and keeps the last."""

    def __init__(self, attendant: Attendant, server: str, log: Log) -> None:
        self.last_words = b""
        self.first_noise: list[str] = []
        self.source = -1
        self._attendant = attendant
        self._server = server
        self._log = log
        self._outlet = Outlet(
            attendant, 2, source=-1, resume=self._read, on_broken=self._close_source
        )

    @property
    def is_pending(self) -> bool:
        """Whether the host has not taken all of it."""
        return bool(self._outlet.pending)

    def connect(self, source: int) -> None:
        """Take another server's, in place of the last one's."""
        self._log.finish_line()
        self._close_source()
        self.source = source
        self.last_words = b""
        self._outlet.serve(source)

    def tell(self, text: str) -> None:
        """Say something ourselves."""
        trace.record(text)
        self._outlet.put(f"[mcp-launch] {printable(text)}\n".encode(errors="backslashreplace"))

    def tell_end(self, code: int, *, is_over: bool) -> str:
        """Say how the server ended; at the end of its input it had nothing more to say."""
        if is_over and not code:
            return loop.tell_end(code, "after the end of its input", b"")
        return loop.tell_end(code, "while it was at work", self.last_words)

    def mark(self, line: bytes) -> None:
        """Show a line of the server's stdout that is not a message."""
        self._log.mark(line)
        if len(self._outlet.pending) < _NOISE_LIMIT:
            said = line.rstrip(b"\r\n").decode(errors="backslashreplace").expandtabs()
            if len(self.first_noise) < _FIRST_NOISE:
                self.first_noise.append(said[:_NOISE_WIDTH])
            told = f"{self._server} wrote this to stdout, it is no message: {said}"
            self._outlet.put(f"[mcp-launch] {printable(told)}\n".encode())

    def _read(self) -> None:
        if data := read(self.source):
            self.last_words = (self.last_words + data)[-_LAST_WORDS:]
            self._log.hear(data)
            self._outlet.put(data)
        else:
            self._attendant.unwatch(self.source)

    def _close_source(self) -> None:
        if self.source >= 0:
            self._attendant.unwatch(self.source)
            os.close(self.source)
            self.source = -1
