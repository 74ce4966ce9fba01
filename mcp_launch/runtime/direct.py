"""The direct wire: the server has the host's own descriptors, and we only watch.

No byte passes through us, so we cannot check calls, separate noise or answer for a server.
Place, identity at the start, lineage and cleanup work as on the guarded wire.
"""

from __future__ import annotations

import os
import select
import time

from mcp_launch import state
from mcp_launch.broker import succession
from mcp_launch.broker.core import Core
from mcp_launch.broker.ending import INPUT_ENDED_GRACE, LEAVE_AFTER
from mcp_launch.broker.routing import Served, bind_at_start
from mcp_launch.protocol.memory import GREETINGS
from mcp_launch.protocol.message import REQUEST, read
from mcp_launch.runtime import launcher
from mcp_launch.runtime.lease import HOST, SERVER, LeaseWriter, find_outer, name_signal
from mcp_launch.runtime.loop import Loop, has_input
from mcp_launch.runtime.loop import read as read_input
from mcp_launch.runtime.server_process import ServerProcess
from mcp_launch.runtime.stderr import explain_early_end
from mcp_launch.system import guardian_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.failed_launch import FailedLaunch
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.running import Running
    from mcp_launch.protocol.message import Message
    from mcp_launch.system.guardian import Guardian

# A socket whose peer has stopped writing; poll always reports this for pipes.
_HANG_UP = getattr(select, "POLLRDHUP", 0)

# A server that ends this early may have ended before the host's first request arrived …
_EARLY_END = 2.0
# … so we wait this long for that request.
_FIRST_REQUEST_MS = 500


def carry(running: Running, wake: int) -> int:
    """Stay until the server and all its processes have ended; return its exit code."""
    guardian = running.guardian
    assert guardian is not None  # noqa: S101  # on this wire the server is started at once
    outer, log = find_outer(running), running.open_log()
    # The lease tells of an empty core: no message passes through it.
    core = Core(launcher.make_settings(running, outer, None))
    core.client_joined(HOST)
    served = Served(running.found, bind_at_start(running.found.identity), running.decided)
    succession.begin(core.open_server(served))
    lease, loop = LeaseWriter(running, outer), Loop()
    lease.core = core
    try:
        watch = DirectWatch(
            loop,
            server=running.wanted.server,
            guardian=guardian,
            plan=running.decided,
            wake=wake,
            note_server=lease.note_server,
        )
        loop.watch_hosts(running.watch_hosts(), watch.lose_host)
        watch.run()
        lease.note_end(*watch.explain_end())
        if path := os.environ.get(state.OUTCOME):
            from mcp_launch.state import outcome as outcomes

            outcomes.append(path, watch.describe_outcome())
        if watch.failure is not None:
            _answer_failure(running, watch)
        return watch.exit_code
    finally:
        log.finish_line()
        launcher.leave(running, lease)


def _answer_failure(running: Running, watch: DirectWatch) -> None:
    from mcp_launch.runtime.answer_failure import answer_failure

    if watch.failure is not None:
        running.report(watch.failure)
        # Mid-session, its host would not ask for another list of tools.
        may_stay = not watch.unread or begins_handshake(watch.unread)
        found = describe_failed(running) if may_stay else None
        answer_failure(watch.failure, watch.unread, found)


def begins_handshake(data: bytes) -> bool:
    """Return whether the first request in what a host sent opens the connection."""
    return next((one.method in GREETINGS for one in _list_requests(data)), False)


def _list_requests(data: bytes) -> list[Message]:
    """Return the requests in what a host sent."""
    messages = (read(line + b"\n") for line in data.split(b"\n"))
    return [one for one in messages if one.kind == REQUEST]


def describe_failed(running: Running) -> FailedLaunch:
    """Return what is known of a launch that fails on this wire."""
    from mcp_launch.launch.failed_launch import FailedLaunch

    return FailedLaunch(
        launch=running.found.launch.value,
        server=running.wanted.server,
        command=running.wanted.command,
        table=running.table,
        lineage=running.line,
        hosts=running.hosts,
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
        self._note_server = note_server
        ServerProcess(loop, SERVER, guardian, plan, self)

    def lose_host(self) -> None:
        """Note that one of the host's processes has ended."""
        state.note("the host has ended")
        self._end_input()

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
        self.unread = read_input(0) if has_input(0, wait_ms) else b""
        if _list_requests(self.unread.rpartition(b"\n")[0]):
            self.failure = explain_early_end(self._server, code)

    def server_started(self, name: str) -> None:
        """Note that the server runs."""
        self._note_server(name, self._guardian)

    def server_failed(self, name: str, error: LaunchError) -> None:
        """Note that the server could not be started."""
        del name
        self.failure = error
        self._loop.stop()

    def server_exited(self, name: str, code: int) -> None:
        """Note that the server has exited; the guardian knows its code."""

    def server_ended(self, name: str) -> None:
        """Note that the server is gone, with all below it."""
        del name
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

    def _handle_signals(self) -> None:
        for number in os.read(self._wake, 64):
            state.note(f"signal {number}: passed on to the server")
            self._guardian.send(number)
            self._signalled = self._signalled or number
            if not self._loop.has_timer("leave"):
                self._loop.set_timer("leave", LEAVE_AFTER, self._loop.stop)
