"""The direct wire: the server has the host's own descriptors, and we only watch.

No byte passes through us, so we cannot check calls, separate noise or answer for a server.
Place, identity at the start, lineage and cleanup work as on the guarded wire.
"""

from __future__ import annotations

import select
import time

from mcp_launch import trace
from mcp_launch.protocol.requests import Opening
from mcp_launch.runtime.loop import EventLoop, explain_early_end, read, wait_for_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system.guardian import Guardian

# A socket whose peer has stopped writing; poll always reports this for pipes.
_HANG_UP = getattr(select, "POLLRDHUP", 0)

# A server that ends this early may have ended before the host's first request arrived …
_EARLY_END = 2.0
# … so we wait this long for that request.
_FIRST_REQUEST_MS = 500


class DirectWatch(EventLoop):
    """Waits for the host to close its end, without reading."""

    def __init__(self, guardian: Guardian, hosts: list[int], wake: int, *, server: str) -> None:
        super().__init__(guardian, hosts, wake)
        self.server = server
        self._since = time.monotonic()
        self.watch(0, self._hang_up, _HANG_UP)

    def carry(self) -> int:
        """Watch until the server has ended; return its exit code.

        Raises:
            ServerFailed: It ended without reading the host's first request.

        """
        self.run()
        code = self.guardian.exit_code
        if code and not self.input_ended and not self.signalled:
            self._answer_unread(code)
        return 128 + self.signalled if code is None else code

    def _answer_unread(self, code: int) -> None:
        """Check for an unread request, which only we can answer now."""
        opening = Opening()
        rest = b""
        wait_ms = _FIRST_REQUEST_MS if time.monotonic() - self._since < _EARLY_END else 0
        if wait_for_input(wait_ms):
            rest = opening.hear_lines(read(0))
        if opening.pending:
            failed = explain_early_end(self.server, code)
            failed.pending, failed.unfinished = opening.list_pending(), rest
            raise failed

    def _hang_up(self) -> None:
        trace.note("the host has closed our stdin")
        self.unwatch(0)
        self.end_input()
