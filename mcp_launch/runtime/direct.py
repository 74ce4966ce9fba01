"""The direct wire: the server has the host's own descriptors, and we only watch.

No byte passes through us, so nothing can be judged, moved aside or answered later; place,
identity at the start, lineage and the end of everything hold as on the guarded wire.
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

# A socket whose peer will write no more; pipes report a hang-up without being asked.
_HANG_UP = getattr(select, "POLLRDHUP", 0)

# A server that ended so soon may have ended before the host's first request arrived …
_EARLY_END = 2.0
# … which is then waited for this long.
_FIRST_REQUEST_MS = 500


class DirectWatch(EventLoop):
    """Waits for the host to hang up, without reading."""

    def __init__(self, guardian: Guardian, hosts: list[int], wake: int, *, server: str) -> None:
        super().__init__(guardian, hosts, wake)
        self.server = server
        self._since = time.monotonic()
        self.watch(0, self._hang_up, _HANG_UP)

    def carry(self) -> int:
        """Watch until the server has ended; return its exit code.

        Raises:
            ServerFailed: It ended without reading what the host asked first.

        """
        self.run()
        code = self.guardian.exit_code
        if code and not self.input_ended and not self.signalled:
            self._answer_unread(code)
        return 128 + self.signalled if code is None else code

    def _answer_unread(self, code: int) -> None:
        """Find out whether a request lies unread: its answer can only come from us."""
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
