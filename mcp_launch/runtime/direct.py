"""The direct wire: the server has the host's own descriptors, and we only watch.

No byte passes through us, so we cannot check calls, separate noise or answer for a server.
Place, identity at the start, lineage and cleanup work as on the guarded wire.
"""

from __future__ import annotations

import os
import select
import time

from mcp_launch import protocol, state
from mcp_launch.broker import LEAVE_AFTER
from mcp_launch.broker.replacement import INPUT_ENDED_GRACE
from mcp_launch.protocol.memory import GREETINGS
from mcp_launch.runtime.lease import name_signal
from mcp_launch.runtime.loop import ServerProcess, has_input, read
from mcp_launch.runtime.streams import explain_early_end
from mcp_launch.system import guardian_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.failed_launch import FailedLaunch
    from mcp_launch.launch.plan import Plan
    from mcp_launch.runtime.loop import Loop
    from mcp_launch.runtime.running import Running
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.kernel import HostWatch

# A socket whose peer has stopped writing; poll always reports this for pipes.
_HANG_UP = getattr(select, "POLLRDHUP", 0)

# A server that ends this early may have ended before the host's first request arrived …
_EARLY_END = 2.0
# … so we wait this long for that request.
_FIRST_REQUEST_MS = 500


def begins_handshake(data: bytes) -> bool:
    """Return whether the first request in what a host sent opens the connection."""
    requests = filter(None, map(protocol.read_request, data.split(b"\n")))
    return next((method in GREETINGS for _, method in requests), False)


def describe_failed(running: Running) -> FailedLaunch:
    """Return what is known of a launch that fails on this wire."""
    from mcp_launch.launch.failed_launch import FailedLaunch

    return FailedLaunch(
        launch=running.found.launch.value,
        server=running.wanted.server,
        command=running.wanted.command,
        table=running.table,
        lineage=running.line,
        hosts=running.starter.hosts,
        answer=running.on_failure,
    )


class DirectWatch:
    """Waits for the host to close its end, without reading."""

    def __init__(  # noqa: PLR0913  # each named at the call
        self,
        loop: Loop,
        *,
        server: str,
        guardian: Guardian,
        plan: Plan,
        wake: int,
        note_server: Callable[[str, Guardian], None],
    ) -> None:
        self.failure: LaunchError | None = None
        self.unread = b""  # what the host sent and the server, now dead, has not read
        self.exit_code = 0
        self._server = server
        self._loop = loop
        self._wake = wake
        self._guardian = guardian
        self._since = time.monotonic()
        self._signalled = 0
        self._input_ended = False
        self._is_out_of_time = False
        loop.watch(wake, self._handle_signals)
        loop.watch(0, self._hang_up, _HANG_UP)
        ServerProcess(
            loop,
            "server",
            self._guardian,
            plan,
            on_started=lambda: note_server("server", guardian),
            on_start_failed=self._fail,
            on_exited=lambda _code: None,
            on_gone=loop.stop,
        )

    def watch_hosts(self, hosts: HostWatch) -> None:
        """Notice the end of the host's processes."""
        self._loop.watch_hosts(hosts, self._lose_host)

    def run(self) -> None:
        """Watch until the server has ended."""
        self._loop.run()
        code = self._guardian.exit_code
        if self.failure is None and code and not self._input_ended and not self._signalled:
            self._look_for_request(code)
        self.exit_code = 128 + self._signalled if code is None else code
        if self.failure is not None:
            self.exit_code = self.failure.exit_code

    def describe_outcome(self) -> dict[str, object]:
        """Return what is known of the launch when it is over; see `state.outcome`."""
        left = self._guardian.left_behind
        return {"left_behind": left, "outlasted_input": self._is_out_of_time}

    def explain_end(self) -> tuple[str, int | None]:
        """Return why the launch ended, if not because of the server, and the server's code."""
        why = "the host has closed the connection" if self._input_ended else ""
        if self._signalled:
            why = f"{name_signal(self._signalled)} was received"
        return why, self._guardian.exit_code

    def _look_for_request(self, code: int) -> None:
        """Check for an unread request, which only we can answer now."""
        wait_ms = _FIRST_REQUEST_MS if time.monotonic() - self._since < _EARLY_END else 0
        self.unread = read(0) if has_input(0, wait_ms) else b""
        lines = self.unread.split(b"\n")
        if any(protocol.read_request(line) for line in lines[:-1]):
            self.failure = explain_early_end(self._server, code)

    def _fail(self, error: LaunchError) -> None:
        self.failure = error
        self._loop.stop()

    def _hang_up(self) -> None:
        state.note("the host has closed our stdin")
        self._loop.unwatch(0)
        self._end_input()

    def _end_input(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            self._loop.set_timer("grace", INPUT_ENDED_GRACE, self._end_grace)

    def _end_grace(self) -> None:
        self._is_out_of_time = True
        state.note("the server goes on after the end of its input: SIGTERM, then SIGKILL")
        self._guardian.send(guardian_process.INPUT_ENDED)

    def _lose_host(self) -> None:
        state.note("the host has ended")
        self._end_input()

    def _handle_signals(self) -> None:
        for number in os.read(self._wake, 64):
            state.note(f"signal {number}: passed on to the server")
            self._guardian.send(number)
            self._signalled = self._signalled or number
            if not self._loop.has_timer("leave"):
                self._loop.set_timer("leave", LEAVE_AFTER, self._loop.stop)
