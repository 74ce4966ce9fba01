"""Connects hosts to servers: events go in as method calls, commands come out; no I/O, no clock.

A request takes one path: line → message → backend → caller → admission → policies → open
requests. Its answer takes one path back. The runtime sets `now` before each event.

`Broker` is one class in several modules, each on top of the one before: `connection` has the
parties and what we send ourselves, `admission` which requests pass, `host_requests` the way to a
server, `ending` what no server answers, `server_messages` the way back, `absence` what is done
while there is no server, `rest` when one is ended for a while, `replacement` what follows a
server that is gone or to be replaced, `isolation` several servers behind one host, this one the
events.
"""

from __future__ import annotations

from mcp_launch.broker import commands as do
from mcp_launch.broker.commands import SendToHost
from mcp_launch.broker.connection import HostConnection
from mcp_launch.broker.host_requests import CALL
from mcp_launch.broker.isolation import Isolation
from mcp_launch.protocol.framing import TOO_LONG, CutLine
from mcp_launch.values import FAILURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.errors import LaunchError

# How long to wait for the end of a server that has closed its stdin or stdout.
_DYING = 0.5

# How long a server may keep answering after the end of its input, if the host still reads.
_GRACE_LIMIT = 30.0

# When to exit after a signal, even if the guardian is still busy: Claude Code kills after
# 500 ms, and exiting before that keeps its log clean.
LEAVE_AFTER = 0.45


class Broker(Isolation):
    """The connections, the backends, and the events of both."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._may_stay = settings.on_failure != "error"

    def connect(self, name: str) -> None:
        """Add a host."""
        self.connections[name] = HostConnection(name)

    def host_said(self, name: str, data: bytes) -> None:
        """Handle data from a host, however it is split into chunks."""
        connection = self.connections[name]
        if not connection.lines.is_midway and self.failure is None:
            # By far the most common: one line, whole, and most often a call like the last.
            meta_at = connection.pattern.match(data)
            if meta_at and len(self.backends) == 1:
                self._take_request(connection, CALL, data, meta_at)
                return
            if data.find(b"\n") == len(data) - 1:
                self.take_line(connection, data)
                return
        for is_judged, part in connection.lines.feed(data):
            self._take_part(connection, part, is_judged=is_judged)

    def host_closed(self, name: str) -> None:
        """Note that a host has closed our stdin."""
        connection = self.connections[name]
        self.note("the host has closed our stdin")
        self.remember(connection)  # the host may kill us next
        for is_judged, part in connection.lines.close():
            self._take_part(connection, part, is_judged=is_judged)
        self._end_input(connection)
        self._leave_if_absent()

    def _take_part(self, connection: HostConnection, part: bytes, *, is_judged: bool) -> None:
        if part.__class__ is CutLine:
            self.refuse_cut_line(connection, part)
        elif self.phase in {"failed", "finished"}:
            self.answer_with_failure(connection, part)
        elif is_judged:
            self.take_line(connection, part)
        else:
            self.pass_on(connection, part)

    def host_lost(self) -> None:
        """Note that the host has ended, even if another process still holds our stdin open."""
        self.note("the host has ended")
        self.host_is_lost = True
        self.enter("ending")
        for connection in self.connections.values():
            self._end_input(connection)
        self._leave_if_absent()

    def reader_lost(self, name: str) -> None:
        """Note that a host has stopped reading."""
        connection = self.connections[name]
        self._lose_reader(connection)
        for backend in self.backends.values():
            if all(self.connections[host].reader_is_lost for host in backend.connections):
                self.out.append(do.CloseOutput(backend.name))
        if connection.input_is_lost or self.is_shown_as_tool:
            self._end_input(connection)
        self._leave_if_absent()

    def _lose_reader(self, connection: HostConnection) -> None:
        connection.reader_is_lost = True
        if all(one.reader_is_lost for one in self.connections.values()):
            self.enter("ending")

    def bytes_moved(self) -> None:
        """Note that a slow reader has read something."""
        if self._grace_limit:
            self._extend_grace()

    def signal_received(self, number: int) -> None:
        """Pass a signal on to the servers, and leave soon."""
        has_server = any(one.state != "absent" for one in self.backends.values())
        then = "passed on to the server" if has_server else "no server runs"
        self.note(f"signal {number}: {then}")
        for connection in self.connections.values():
            self.remember(connection)  # while the server is there to be measured
        for backend in self.backends.values():
            self.out.append(do.SignalServer(backend.name, number))
        if not self.signalled:
            self.signalled = number
            self.enter("ending")
            self.out.append(do.SetTimer("leave", LEAVE_AFTER))
        if self.is_shown_as_tool:
            self.finish()
        self._leave_if_absent()

    def _end_input(self, connection: HostConnection) -> None:
        connection.input_has_ended = True
        if self._limits is not None:
            self._limits.stop_holding()
            for backend in self.backends.values():
                self._release_held(backend)  # before the servers' input ends
        if not self._grace_limit and (self.input_has_ended or self.host_is_lost):
            self._grace_limit = self.now + _GRACE_LIMIT
            self._extend_grace()
        if self.phase == "failed":
            self.finish()
            return
        for backend in self.backends.values():
            if self.has_no_more_input(backend):
                backend.lines.holds_requests = True  # the host gets none of them
            if self.host_is_lost or (backend.is_ready and self.has_no_more_input(backend)):
                backend.input_is_closed = True
                self.out.append(do.CloseInput(backend.name))

    def server_started(self, name: str, pid: int = 0) -> None:
        """Note that a server runs."""
        backend = self.backends[name]
        backend.pid = pid
        handshake = self._first(backend).handshake
        self._end_unfinished_line(backend)
        backend.note_start(handshake, self.make_id)
        if backend.is_successor:
            self.schedule_lease_write()
            if self._grace_limit:
                self._extend_grace()
            if not handshake.greeting:
                self._complete_handover(backend)
        else:
            self._flush(backend)

    def server_start_failed(self, name: str, error: LaunchError) -> None:
        """Note that a server could not be started."""
        backend = self.backends[name]
        if self._fall_back(backend, f"could not be started ({error.problem})"):
            return
        if backend.is_waking and self._goes_on_without(backend):
            self.fail_to_wake(backend, error)
            self._leave_if_absent()
            return
        backend.state = "failed"
        self.failure = error
        self.leave(backend)

    def server_said(self, name: str, data: bytes) -> None:
        """Handle data from a server's stdout."""
        backend = self.backends[name]
        if self._grace_limit and not self.host_is_lost:
            self._extend_grace()
        self._is_reading = True
        may_be_refused = self._may_stay and not self._first(backend).handshake.is_over
        if may_be_refused or self.failure is not None:
            passed = self._sort(backend, data)
        else:
            passed = backend.lines.feed(data)
        self._is_reading = False
        if passed and backend.has_neighbours:
            self._send_beside_others(backend, passed)
        elif passed:
            self.out.append(SendToHost((backend.connections or [*self.connections])[0], passed))
        if self._has_unsent:
            self._send_unsent(backend)
        if backend.lines.has_cut:
            self._end_for_its_line(backend)
        if backend.state == "ready":
            self.fail_if_refused(backend)
        else:
            self._go_on_with_unready(backend)

    def _end_for_its_line(self, backend: Backend) -> None:
        """End a server that writes a line without an end."""
        backend.lines.has_cut = False
        backend.why_ended = f"was ended, because it wrote a line of more than {TOO_LONG}"
        self.note(f"the server {backend.why_ended}", FAILURE)
        self.out.append(do.EndServer(backend.name, "input ended"))

    def _go_on_with_unready(self, backend: Backend) -> None:
        if backend.greeting_was_answered:
            backend.greeting_was_answered = False
            if backend.greeting_was_refused:
                self._give_up(backend)
            else:
                self._complete_handover(backend)
        elif backend.is_restored and not backend.comparison.is_going_on:
            self._end_comparison(backend)
        if backend.state == "draining":
            self.end_if_drained(backend)

    def server_closed_output(self, name: str) -> None:
        """Note that a server has closed its stdout."""
        backend = self.backends[name]
        connection = self._first(backend)
        self._is_reading = True
        rest = backend.lines.close()
        self._is_reading = False
        if backend.has_neighbours and rest and not backend.lines.is_within_a_line:
            self.send_own(connection, rest if rest.endswith(b"\n") else rest + b"\n")
            rest = b""
        self.send_to_host(connection, rest)
        if backend.lines.end_line() or (rest and not rest.endswith(b"\n")):
            backend.owes_newline = True
            if backend.has_neighbours:
                self._end_unfinished_line(backend)  # the next line may be another server's
        self._send_unsent(backend)
        self.fail_if_refused(backend)
        if connection.handshake.is_over:
            self.out.append(do.SetTimer(f"output {name}", _DYING))

    def server_closed_input(self, name: str) -> None:
        """Note that a server has closed its stdin.

        If it is dying, the next server gets the rest. If not, the host notices as it would
        without us. A server that has not answered yet is an exception: the host then gets
        the reason.
        """
        backend = self.backends[name]
        connection = self._first(backend)
        backend.input_is_closed = True
        if self.has_no_more_input(backend):
            return
        self.out.append(do.ResumeHost(connection.name))
        if not connection.handshake.is_over:
            return
        if backend.state in {"ready", "holding"}:
            backend.state = "lost"
        self.out.append(do.SetTimer(f"input {name}", _DYING))

    def server_exited(self, name: str, code: int) -> None:
        """Note the exit code; processes that the server started may still run."""
        self.backends[name].exit_code = code

    def server_gone(self, name: str, unread: bytes, stderr_end: bytes) -> None:
        """Note that all processes of a server are gone; start another server, or leave."""
        backend = self.backends[name]
        state = backend.state
        stderr_end = backend.why_ended.encode() or stderr_end
        what_happened = self.explain_end(backend, stderr_end)
        backend.note_gone()
        self.queue_held(backend)
        if self.phase in {"failed", "finished"}:
            if not self.is_shown_as_tool:
                self.finish()
        elif self._fall_back(backend, what_happened, unread):
            pass  # another server is started
        elif self.phase == "serving" and (backend.is_waking or backend.is_resting):
            self._stay_absent(backend, unread, stderr_end)
        elif self._lose_one_of_many(backend, state, what_happened, unread):
            pass  # the others go on
        elif self.phase == "ending" or not self._follow_up(backend, state, what_happened, unread):
            self.leave(backend, stderr_end, unread)

    def timer(self, name: str) -> None:
        """Handle a timer that has run out."""
        kind, _, owner = name.partition(" ")
        if kind in {"leave", "linger"}:
            self.finish()
        elif kind == "grace":
            self._end_grace()
        elif kind in _HOST_TIMERS:
            _HOST_TIMERS[kind](self, self.connections[owner])
        else:
            _TIMERS[kind](self, self.backends[owner])

    def _give_up_input(self, backend: Backend) -> None:
        if backend.exit_code is None and not backend.is_replacing and backend.input_is_closed:
            if self._end_one_of_many(backend):
                return
            connection = self._first(backend)
            connection.input_is_lost = True
            self.out.append(do.CloseHostInput(connection.name))

    def _give_up_output(self, backend: Backend) -> None:
        if backend.exit_code is None and backend.is_ready:
            if self._end_one_of_many(backend):
                return
            connection = self._first(backend)
            self._lose_reader(connection)  # we close it, so no other server is started
            self.out.append(do.CloseHostOutput(connection.name))

    def _end_overdue_calls(self, backend: Backend) -> None:
        self.end_overdue_calls(backend)
        self.end_if_drained(backend)

    def _release_held(self, backend: Backend) -> None:
        """Deliver calls that were held back, as many as the server may get now."""
        limits = self._limits
        while limits is not None and not limits.is_busy(backend.list_calls()):
            waiting = self.take_held(backend)
            if waiting is None:
                return
            self.take_line(self.connections[waiting.connection], waiting.line)

    def _end_grace(self) -> None:
        for backend in self.backends.values():
            if backend.state in {"absent", "failed"}:
                continue
            if not backend.is_ready and not self.host_is_lost and self.now < self._grace_limit:
                self._extend_grace()  # requests still wait for a server
            else:
                self.is_out_of_time = True
                self.enter("ending")
                self.note("the server goes on after the end of its input: SIGTERM, then SIGKILL")
                self.out += [do.CutInput(backend.name), do.EndServer(backend.name, "input ended")]


_HOST_TIMERS = {
    "patience": Broker.answer_late_greeting,
    "remember": Broker.remember,
    "roots": Broker.handle_roots_timer,
}
_TIMERS = {
    "deadline": Broker._end_overdue_calls,  # noqa: SLF001  # one of its own
    "next": Broker._release_held,  # noqa: SLF001
    "compare": Broker._end_comparison,  # noqa: SLF001  # one of its own
    "rest": Broker.consider_rest,
    "restart": Broker.restart_if_possible,
    "drain": Broker._end_drain,  # noqa: SLF001  # one of its own
    "greeting": Broker._give_up,  # noqa: SLF001
    "input": Broker._give_up_input,  # noqa: SLF001
    "output": Broker._give_up_output,  # noqa: SLF001
}
