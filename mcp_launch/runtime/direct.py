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
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.core import Core
from mcp_launch.broker.ending import INPUT_ENDED_GRACE, LEAVE_AFTER
from mcp_launch.broker.routing import Served, bind_at_start
from mcp_launch.hosts import Callers
from mcp_launch.protocol.memory import GREETINGS
from mcp_launch.protocol.message import REQUEST, read
from mcp_launch.runtime.lease import (
    HOST,
    SERVER,
    LeaseWriter,
    explain_early_end,
    find_outer,
    leave,
    name_signal,
    write_outcome,
)
from mcp_launch.runtime.loop import Loop, has_input
from mcp_launch.runtime.loop import read as read_input
from mcp_launch.runtime.server_process import ServerProcess
from mcp_launch.system import guardian_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.failed_launch import FailedLaunch
    from mcp_launch.launch.running import Running
    from mcp_launch.protocol.message import Message
    from mcp_launch.runtime.edge import Handlers
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
    settings = Settings(server=running.wanted.server, callers=Callers(), no_meta=True)
    core = Core(settings)
    core.client_joined(HOST)
    served = Served(running.found, bind_at_start(running.found.identity), running.decided)
    succession.begin(core.open_server(served))
    lease = LeaseWriter(running, outer)
    lease.core = core
    began = time.monotonic()
    try:
        watch = DirectWatch(running, guardian, wake, lease)
        watch.run()
        code, failure, unread = guardian.exit_code, watch.failure, b""
        if failure is None and code and not watch.why_ended:
            unread = _read_unread(began)
            if _list_requests(unread.rpartition(b"\n")[0]):
                failure = explain_early_end(running.wanted.server, code)
        lease.note_end(watch.why_ended, code)
        write_outcome(left_behind=guardian.left_behind, outlasted_input=watch.is_out_of_time)
        if failure is not None:
            _answer_failure(running, failure, unread)
            return failure.exit_code
        return 128 + watch.signalled if code is None else code
    finally:
        log.finish_line()
        leave(running, lease)


def _read_unread(began: float) -> bytes:
    """Return what the host has sent and the server, now dead, has not read: only we can answer."""
    wait_ms = _FIRST_REQUEST_MS if time.monotonic() - began < _EARLY_END else 0
    return read_input(0) if has_input(0, wait_ms) else b""


def _answer_failure(running: Running, failure: LaunchError, unread: bytes) -> None:
    from mcp_launch.runtime.answer_failure import answer_failure

    running.report(failure)
    # Mid-session, its host would not ask for another list of tools.
    may_stay = not unread or begins_handshake(unread)
    answer_failure(failure, unread, describe_failed(running) if may_stay else None)


def begins_handshake(data: bytes) -> bool:
    """Return whether the first request in what a host sent opens the connection."""
    return next((one.method in GREETINGS for one in _list_requests(data)), False)


def _list_requests(data: bytes) -> list[Message]:
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

    def __init__(self, running: Running, guardian: Guardian, wake: int, lease: LeaseWriter) -> None:
        self.failure: LaunchError | None = None
        self.why_ended = ""  # if not because of the server
        self.signalled = 0
        self.is_out_of_time = False  # the server did not end after its input had
        self._guardian = guardian
        self._has_input_ended = False
        loop = self._loop = Loop()
        loop.watch(wake, lambda: self._handle_signals(wake))
        loop.watch(0, self._hang_up, _HANG_UP)
        handlers: Handlers = {
            "started": lease.note_server,
            "failed": self._fail,
            "exited": lambda *_: None,  # the guardian knows its code
            "ended": lambda *_: loop.stop(),
        }
        ServerProcess(loop, SERVER, guardian, running.decided, handlers)
        loop.watch_hosts(running.watch_hosts(), self._lose_host)

    def run(self) -> None:
        """Watch until the server has ended."""
        self._loop.run()

    def _fail(self, _: str, error: LaunchError) -> None:
        self.failure = error
        self._loop.stop()

    def _lose_host(self) -> None:
        state.note("the host has ended")
        self._end_input()

    def _hang_up(self) -> None:
        state.note("the host has closed our stdin")
        self._loop.unwatch(0)
        self._end_input()

    def _end_input(self) -> None:
        self.why_ended = self.why_ended or "the host has closed the connection"
        if not self._has_input_ended:
            self._has_input_ended = True
            self._loop.set_timer("grace", INPUT_ENDED_GRACE, self._end_grace)

    def _end_grace(self) -> None:
        self.is_out_of_time = True
        state.note("the server goes on after the end of its input: SIGTERM, then SIGKILL")
        self._guardian.send(guardian_process.INPUT_ENDED)

    def _handle_signals(self, wake: int) -> None:
        for number in os.read(wake, 64):
            state.note(f"signal {number}: passed on to the server")
            self._guardian.send(number)
            if not self.signalled:
                self.signalled = number
                self.why_ended = f"{name_signal(number)} was received"
                self._loop.set_timer("leave", LEAVE_AFTER, self._loop.stop)
