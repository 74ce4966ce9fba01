"""Requests that no server answers, and the end of a launch.

Every request is answered exactly once: what a server leaves open gets an error that says what
happened. The end is one phase after the other; there is no way back.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.backend import LINE_LIMIT
from mcp_launch.broker.commands import EndServer, Fail, Finish, SetTimer, WriteLease
from mcp_launch.broker.host_requests import HostRequests
from mcp_launch.errors import ServerFailed
from mcp_launch.protocol import json_edit
from mcp_launch.values import DIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.errors import LaunchError
    from mcp_launch.protocol.json_text import Json, Message
    from mcp_launch.protocol.requests import Ticket

    Phase = Literal["serving", "ending", "failed", "finished"]

# A server that ends is replaced; it is not replaced any more; there is none, and requests are
# answered with the reason; nothing is left to do.
_PHASES: tuple[Phase, ...] = ("serving", "ending", "failed", "finished")

# How we describe the end of a server that we replaced.
_REPLACED = "was replaced, because its session has changed"
_RESTARTED = "was replaced, because a restart was requested"

# What to do about a server that is not started again.
_RECONNECT = "reconnect the server in its host, because it is not started again"

# What to do about a request that a server has read: nobody knows how far it got.
_CHECK = "check before you repeat it"

# How long to wait for the host's first request when there is no server to answer it. Hosts
# send it at once; a script that keeps our stdin open and sends nothing must not hang.
_FIRST_REQUEST_GRACE = 3.0

# How long to wait after the answer for the host to close its end: closing a socket that
# holds unread data would discard our answer.
_HANG_UP_GRACE = 1.0

# How many characters of a server's own reason are kept.
_REASON_LIMIT = 2000


class Endings(HostRequests):
    """Answers what servers leave open, and ends the launch."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.failure: LaunchError | None = None  # why there is no server, or will be none
        self.signalled = 0
        self.is_out_of_time = False  # the server did not end after its input had
        self.unanswered: set[str] = set()  # methods of requests that a server's end left open
        self.phase: Phase = "serving"
        self.host_is_lost = False
        self.is_shown_as_tool = False  # the failure: the launch stays until the host leaves it
        self._failure_was_sent = False  # as an answer to the host

    def remember(self, connection: HostConnection) -> None:
        """Have what was learned written to disk."""
        raise NotImplementedError

    # Requests that no server answers

    def _close_open_requests(
        self, backend: Backend, what_happened: str, *, is_last: bool = False
    ) -> None:
        fix = f"{_RECONNECT}, and {_CHECK}" if is_last else _CHECK
        for ticket in backend.requests.take_unfinished():
            server = self.settings.server
            problem = f"[mcp-launch] {server} {what_happened}; {ticket.method} was not answered"
            text = f"{problem}, but it may have taken effect — fix: {fix}"
            self.unanswered.add(ticket.method)
            connection = self.connections[ticket.connection]
            refusal = protocol.make_refusal(ticket.line, text)
            self.answer(connection, ticket.key, refusal, reason=f"{server} {what_happened}")
        self._cancel_server_requests(backend)
        backend.wait_as_needed()

    def _cancel_server_requests(self, backend: Backend) -> None:
        for connection in self.connections.values():
            for request_id in connection.take_server_requests(backend.name):
                gone: Message = {"reason": "the server that asked is gone"}
                cancelled = protocol.make_notification("notifications/cancelled", gone)
                self.send_own(
                    connection, json_edit.put(cancelled, request_id, "params", "requestId")
                )

    def _answer_everything(self, backend: Backend, what_happened: str) -> None:
        """Answer all open and waiting requests: there will be no other server."""
        self._close_open_requests(backend, what_happened, is_last=True)
        self._answer_waiting(backend, what_happened, f"{_RECONNECT}; then ask again")

    def _answer_waiting(self, backend: Backend, what_happened: str, fix: str) -> None:
        for one in backend.list_waiting():
            request = protocol.read_request(one.line)
            self.unanswered |= {request[1]} if request else set()
            text = f"[mcp-launch] {self.settings.server} {what_happened}; it did not read this"
            refusal = protocol.make_refusal(one.line, f"{text} — fix: {fix}")
            reason = f"{self.settings.server} {what_happened}"
            self.answer(self.connections[one.connection], one.key or b"", refusal, reason=reason)
        backend.queue.clear()

    def _answer_for_the_last_time(
        self, backend: Backend, what_happened: str, unread: bytes
    ) -> None:
        """Answer what a server leaves that is not replaced, if its host may still read that."""
        connection = self._first(backend)
        is_heard = not (self.signalled or self.host_is_lost or connection.reader_is_lost)
        if connection.handshake.is_over and is_heard:
            backend.requeue(unread)
            self._answer_everything(backend, what_happened)

    def answer_with_failure(self, connection: HostConnection, line: bytes) -> None:
        """Answer a request with the reason why there is no server."""
        if isinstance(protocol.look(line), list):
            self.send_to_host(connection, self.refuse_batch())
            return
        request, error = protocol.read_request(line), self.failure
        if request is None or error is None:
            return
        key = protocol.spell(request[0])
        if self.follows_calls and request[1] == "tools/call":
            self.follow_call(connection, key, line)
        if self.is_shown_as_tool:
            self._answer_as_server(connection, key, line, error)
            return
        if request[1] == "server/discover":
            # With any other error, the host would take us for a server of the new era.
            raw_id = json_edit.read_raw(line, "id")
            answer = protocol.make_error(raw_id, protocol.METHOD_NOT_FOUND, "Method not found")
        else:
            text = f"[mcp-launch] {error.problem} — fix: {error.fix}"
            answer = protocol.make_refusal(line, text)
            self._failure_was_sent = True
            self.finish_call(connection, key, DIED, len(answer), error.problem)
            self.out.append(SetTimer("linger", _HANG_UP_GRACE))
        self.send_to_host(connection, answer)

    def _answer_as_server(
        self, connection: HostConnection, key: bytes, line: bytes, error: LaunchError
    ) -> None:
        from mcp_launch.broker import error_tool  # few launches need it

        said = protocol.look_message(line)
        answer = b""
        if said["method"] == "subscriptions/listen":  # it stays open, and is never answered
            self.send_to_host(connection, error_tool.acknowledge(said))
        else:
            server, is_listed = self.settings.server, self.settings.on_failure == "tool"
            answer = error_tool.answer_as_server(line, server, error, is_listed=is_listed)
            self.finish_call(connection, key, DIED, len(answer), error.problem)
        self.send_to_host(connection, answer)

    def end_if_drained(self, backend: Backend) -> None:
        """End a server that will be replaced, if it has finished its requests."""
        if backend.is_drained:
            self._end_old(backend)

    def _end_drain(self, backend: Backend) -> None:
        # The host has the beginning of an answer. We must not write before its end, and with
        # its end the request is answered.
        if backend.lines.is_within_a_line and not backend.is_overdue:
            backend.is_overdue = True
            self.note("the old server has had its time; it may finish the answer it is writing")
            self.out.append(SetTimer(f"drain {backend.name}", LINE_LIMIT))
        else:
            self._end_old(backend)

    def _end_old(self, backend: Backend) -> None:
        self.send_to_host(self._first(backend), backend.lines.cut())
        self._send_unsent(backend)
        self._close_open_requests(backend, _explain_replacement(backend))
        backend.end()

    def explain_end(self, backend: Backend, stderr_end: bytes) -> str:
        """Describe how a server ended."""
        if backend.state == "ending":
            return _explain_replacement(backend)
        if backend.why_ended:
            return backend.why_ended
        code = backend.exit_code or 0
        if self.has_no_more_input(backend) and not code:
            return self.settings.explain_end(code, "after the end of its input", b"")
        is_opened = self._first(backend).handshake.is_over
        is_idle = is_opened and not backend.requests.list_unfinished()
        when = "while it was idle" if is_idle else "while it was at work"
        return self.settings.explain_end(code, when, stderr_end)

    # The end

    def has_no_more_input(self, backend: Backend) -> bool:
        """Return whether all hosts of a server have closed their end."""
        names = backend.connections or self.connections
        return all(self.connections[name].input_has_ended for name in names)

    @property
    def input_has_ended(self) -> bool:
        """Whether all hosts have closed their end."""
        return all(one.input_has_ended for one in self.connections.values())

    def enter(self, phase: Phase) -> None:
        """Go on to another phase; there is no way back."""
        if _PHASES.index(phase) > _PHASES.index(self.phase):
            self.phase = phase

    def leave(self, backend: Backend, stderr_end: bytes = b"", unread: bytes = b"") -> None:
        """Leave with the server's exit code, or with the reason why there is no server."""
        connection, code = self._first(backend), backend.exit_code
        handshake, error = connection.handshake, self.failure
        if backend.list_waiting() and error is None and self.phase == "serving":
            error = self.settings.explain_early_end(code or 0, stderr_end)
        # A host that has closed its end may still read the answers.
        is_missed = bool(code and handshake.pending) and self.phase == "serving"
        has_opened = handshake.is_over or self.signalled
        if not has_opened and (is_missed or not self.has_no_more_input(backend)):
            error = error or self.settings.explain_early_end(code or 0, stderr_end)
        if error is not None:
            self.fail(error)
            return
        # A server that refused the handshake, or that was ended after its input had.
        what_happened = self.explain_end(backend, stderr_end)
        self._answer_for_the_last_time(backend, what_happened, unread)
        for other in self.backends.values():  # what came too late for one that had ended before
            self._answer_for_the_last_time(other, what_happened, b"")
        self.finish()

    def fail(self, error: LaunchError, *, is_refused: bool = False) -> None:
        """Answer all open requests and all that follow with the reason, then leave.

        A host gets the tool only if there will be no server: an installation may go on.
        """
        self.failure = error
        self.enter("failed")
        has_server = any(one.state not in {"absent", "failed"} for one in self.backends.values())
        self.is_shown_as_tool = self._may_show_tool() and (is_refused or not has_server)
        self.out.append(Fail(error))
        for backend in self.backends.values():
            self._end_unfinished_line(backend)
            if self.is_shown_as_tool:
                self._cancel_server_requests(backend)
            for ticket in backend.requests.take_unfinished():
                self.answer_with_failure(self.connections[ticket.connection], ticket.line)
            self.queue_held(backend)
            for one in backend.queue:
                self.answer_with_failure(self.connections[one.connection], one.line)
            backend.queue.clear()
            if self.is_shown_as_tool:
                self.resume_hosts(backend)  # one may wait because too much was kept
        for connection in self.connections.values():
            self._send_unsent_to(connection)
        if self.input_has_ended or self.host_is_lost:
            self.finish()
        elif self.is_shown_as_tool:
            self.note("stays until the host leaves, with a tool that gives the reason")
            self.out.append(WriteLease(is_urgent=True))
        elif not self._failure_was_sent:
            self.out.append(SetTimer("linger", _FIRST_REQUEST_GRACE))

    def _may_show_tool(self) -> bool:
        """Return whether the host gets a tool instead of an error: it has no other tools yet."""
        has_left = self.input_has_ended or self.host_is_lost or bool(self.signalled)
        hosts = self.connections.values()
        is_over = any(one.handshake.is_over or one.reader_is_lost for one in hosts)
        return self.settings.on_failure != "error" and not has_left and not is_over

    def note_refusal(self, backend: Backend, ticket: Ticket, said: Message) -> bool:
        """Return whether a server has refused the greeting of a host that would not say so.

        The rest of its output is not read, and we answer in its place.
        """
        is_refusal = ticket.method == "initialize" and "error" in said
        if not is_refusal or self.phase != "serving" or not self._may_show_tool():
            return False
        why = protocol.get_member(said, "error", "message")
        self.failure = ServerFailed(
            f"{self.settings.server} refused the handshake: {self.settings.mask(_cut(why))}",
            fix=self.settings.explain_early_end(1, b"").fix,
            exit_code=1,
        )
        backend.requests.open[ticket.key] = ticket  # it was not answered yet
        return True

    def fail_if_refused(self, backend: Backend) -> None:
        """Fail, if a refusal was noted."""
        if self.failure is not None and self.phase == "serving":
            self.fail(self.failure, is_refused=True)
            self.out.append(EndServer(backend.name, "input ended"))

    def finish(self) -> None:
        """Leave, once, with the exit code of the failure, or else of the server."""
        if self.phase == "finished":
            return
        self.enter("finished")
        codes = [one.exit_code for one in self.backends.values() if one.exit_code is not None]
        code = codes[0] if codes else self.signalled and 128 + self.signalled
        for connection in self.connections.values():
            self.remember(connection)
        self.out.append(Finish(self.failure.exit_code if self.failure else code))


def _explain_replacement(backend: Backend) -> str:
    return _RESTARTED if backend.restart else backend.why_replaced or _REPLACED


def _cut(reason: Json) -> str:
    text = str(reason)
    return text if len(text) <= _REASON_LIMIT else f"{text[:_REASON_LIMIT]}…"
