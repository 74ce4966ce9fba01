"""Messages from a server: which host gets each one, and in which form.

Answers are matched with their requests; answers to our own requests do not reach the host.
Requests from a replacement server get new ids, because both servers count from the same
number.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.backend import LINE_LIMIT
from mcp_launch.broker.commands import Fail, Finish, SetTimer, SignalServer
from mcp_launch.broker.host_requests import HostRequests
from mcp_launch.errors import LaunchError
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.framing import read_answered
from mcp_launch.protocol.requests import SUBSCRIPTION_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.routing import Served
    from mcp_launch.protocol.json_text import Json, Message

    Phase = Literal["serving", "ending", "failed", "finished"]

# A server that ends is replaced; it is not replaced any more; there is none, and requests are
# answered with the reason; nothing is left to do.
_PHASES: tuple[Phase, ...] = ("serving", "ending", "failed", "finished")

_TOOLS_CHANGED = "notifications/tools/list_changed"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

_SIGTERM = 15

# How we describe the end of a server that we replaced.
_REPLACED = "was replaced, because its session has changed"

# How long to wait for the host's first request when there is no server to answer it. Hosts
# send it at once; a script that keeps our stdin open and sends nothing must not hang.
_FIRST_REQUEST_GRACE = 3.0

# How long to wait after the answer for the host to close its end: closing a socket that
# holds unread data would discard our answer.
_HANG_UP_GRACE = 1.0


class ServerMessages(HostRequests):
    """Passes a server's messages on to its hosts, with our own messages between them."""

    def __init__(self, settings: Settings, served: Served) -> None:
        super().__init__(settings, served)
        self.failure: LaunchError | None = None  # why there is no server, or will be none
        self.signalled = 0
        self.is_out_of_time = False  # the server did not end after its input had
        self.unanswered: set[str] = set()  # methods of requests that a server's end left open
        self.phase: Phase = "serving"
        self._host_is_lost = False
        self._failure_was_sent = False  # as an answer to the host

    @property
    def noise(self) -> int:
        """The number of lines that were not messages."""
        return sum(backend.lines.noise_count for backend in self.backends.values())

    def _sort(self, backend: Backend, data: bytes) -> bytes:
        """Return the part of the data that the host gets: after a failure, nothing."""
        passed = b""
        for line in data.splitlines(keepends=True):
            # After the first noise, answers are not read, so we answer the requests ourselves.
            passed += b"" if self.failure else backend.lines.feed(line)
        return passed

    def _divert(self, backend: Backend, line: bytes) -> None:
        backend.divert(line)
        self.schedule_lease_write()
        # Half a line is not noise: the server ended while writing it.
        is_noise = not backend.output_has_ended
        if self.settings.stdout == "strict" and self.failure is None and is_noise:
            text = line.strip()[:200].decode(errors="replace")
            self.failure = LaunchError(
                f"--stdout strict: {self.settings.server} printed a line to stdout that is not a "
                f"message: {text}",
                fix="have the server log to stderr, or use --stdout auto",
            )
            self.enter("ending")
            self.out.append(SignalServer(backend.name, _SIGTERM))

    def _note_message(self, backend: Backend, line: bytes, answered: bytes = b"") -> bytes:
        """Note a message from the server; return the bytes that the host gets."""
        ticket = backend.requests.open.get(answered) if answered else None
        if ticket is not None and not (ticket.is_noted or ticket.id or backend.own_requests):
            # By far the most common: an answer that need not be read.
            del backend.requests.open[answered]
            if len(backend.connections) == 1:
                return line
            return self._pass_to(backend, ticket.connection, line)
        said = protocol.look(line)
        if isinstance(said, dict) and isinstance(said.get("method"), str):
            return self._note_request(backend, said, line)
        if isinstance(said, dict) and "id" in said:
            return self._note_answer(backend, said, line)
        return self._note_batch(backend, said, line) if isinstance(said, list) else line

    def _note_batch(self, backend: Backend, said: list[Json], line: bytes) -> bytes:
        pairs = [
            (one, part)
            for one, part in zip(said, json_edit.list_elements(line), strict=True)
            if isinstance(one, dict)
        ]
        if backend.is_one_of_many and any(protocol.is_request(one) for one, _ in pairs):
            # The ids of these requests have to be changed, each on its own.
            return b"".join(self._note_message(backend, part) for _, part in pairs)
        answers = [(one, part) for one, part in pairs if protocol.is_answer(one)]
        tickets = []
        for one, part in answers:
            if ticket := backend.requests.close(protocol.spell(one["id"])):
                tickets.append(ticket)
                self.connections[ticket.connection].close_batch(ticket.key)
                if ticket.method == "tools/list":
                    backend.requests.note_tools(one, part)
        backend.wait_as_needed()
        if answers and not tickets and not backend.is_ready:
            return b""  # we have answered them ourselves
        return self._pass_to(backend, tickets[0].connection, line) if tickets else line

    def _note_long_message(self, backend: Backend, head: bytes, tail: bytes) -> None:
        """Note a long line that has passed."""
        ticket = backend.requests.close(read_answered(head, tail))
        if ticket is not None:
            connection = self.connections[ticket.connection]
            self.send_own(connection, connection.collect_from_server(ticket.key, b""))

    def _note_answer(self, backend: Backend, said: Message, line: bytes) -> bytes:
        key = protocol.spell(said["id"])
        own = backend.take_own_answer(key, said, line, self.make_id)
        if own is not None:
            self._handle_own_answer(backend, own, said)
            return b""
        ticket = backend.requests.close(key)
        if ticket is None:
            # While the server is not ready, we have answered its requests ourselves.
            if backend.is_ready:
                self._first(backend).handshake.note_answer(said)
            return line if backend.is_ready else b""
        connection = self.connections[ticket.connection]
        handshake = connection.handshake
        if ticket.id:
            line = json_edit.replace(line, ticket.id, "id")
        if not handshake.is_over or ticket.key in handshake.pending:
            handshake.note_answer(protocol.look(line) if ticket.id else said)  # type: ignore[arg-type]
            self.schedule_lease_write()
        if ticket.method == "tools/list":
            backend.requests.note_tools(said, line)
        backend.wait_as_needed()
        line = connection.collect_from_server(ticket.key, line)
        return self._pass_to(backend, ticket.connection, line)

    def _pass_to(self, backend: Backend, connection: str, line: bytes) -> bytes:
        if len(backend.connections) <= 1:
            return line
        self.send_to_host(self.connections[connection], line)
        return b""

    def _handle_own_answer(self, backend: Backend, own: str, said: Message) -> None:
        if own == "greeting":
            backend.greeting_was_refused = "error" in said
            backend.greeting_was_answered = True
        elif backend.tools_have_changed:
            backend.tools_have_changed = False
            self._announce_tools(backend)

    def _announce_tools(self, backend: Backend) -> None:
        announced = ("result", "capabilities", "tools", "listChanged")
        changed = protocol.make_notification(_TOOLS_CHANGED)
        for connection in map(self.connections.__getitem__, backend.connections):
            handshake = connection.handshake
            if handshake.greeting and protocol.get_member(handshake.answer, *announced):
                self.send_own(connection, changed)
        for known in backend.requests.listening:
            ticket = backend.requests.open[known]
            asked = protocol.look(ticket.line)
            if protocol.get_member(asked, "params", "notifications", "toolsListChanged"):
                stream = json_edit.read_raw(ticket.line, "id")
                path = ("params", "_meta", SUBSCRIPTION_ID)
                connection = self.connections[ticket.connection]
                self.send_own(connection, json_edit.put(changed, stream, *path))

    def _note_request(self, backend: Backend, said: Message, line: bytes) -> bytes:
        method, requests = said["method"], backend.requests
        if protocol.is_request(said):
            return self._forward_request(backend, said, line)
        if method == "notifications/cancelled":
            asked, line = self._find_asked_host(backend, said, line)
            if asked:
                return self._pass_to(backend, asked, line)
        if method == _ACKNOWLEDGED and backend.take_acknowledgement(said):
            return b""
        is_shared = len(backend.connections) > 1
        if is_shared or requests.has_renamed:
            owner, line = requests.find_recipient(said, line)
            if owner:
                return self._pass_to(backend, owner, line)
        if not is_shared:
            return line
        if method != "notifications/progress":  # else its request is no longer open
            for name in backend.connections:
                self.send_to_host(self.connections[name], line)
        return b""

    def _find_asked_host(self, backend: Backend, said: Message, line: bytes) -> tuple[str, bytes]:
        """Return the host that got a cancelled request, and the line with the id it knows."""
        own = protocol.spell(protocol.get_member(said, "params", "requestId"))
        for connection in self.connections.values():
            known = connection.find_server_request(backend.name, own)
            if known is not None:
                del connection.server_requests[known]
                if known != own:
                    line = json_edit.replace(line, known, "params", "requestId")
                return connection.name, line
        return "", line

    def _forward_request(self, backend: Backend, said: Message, line: bytes) -> bytes:
        """Pass a server's request on to the one host whose call it can belong to."""
        unfinished = backend.requests.list_unfinished()
        owners = {ticket.connection for ticket in unfinished} or set(backend.connections)
        if len(backend.connections) > 1 and len(owners) != 1:
            raw_id = json_edit.read_raw(line, "id")
            text = "[mcp-launch] several sessions use this server; which one it means is unknown"
            backend.send(protocol.make_error(raw_id, protocol.NOT_SERVED, text))
            return b""
        connection = self.connections[owners.pop()] if owners else self._first(backend)
        if said["method"] == "roots/list":
            connection.roots_were_asked = True
        raw_id = json_edit.read_raw(line, "id")
        key = protocol.spell(said["id"])
        if backend.is_one_of_many:
            # Another server uses the same ids, and the host may still be working on one of them.
            key = protocol.spell(self.make_id())
            line = json_edit.replace(line, key, "id")
        path = ("params", "_meta", "progressToken")
        token = json_edit.read_raw(line, *path) if len(self.backends) > 1 else b""
        if token:
            line = json_edit.replace(line, key, *path)
        connection.note_server_request(backend.name, said, raw_id, key, token)
        return self._pass_to(backend, connection.name, line)

    # Requests that no server answers

    def _close_open_requests(self, backend: Backend, what_happened: str) -> None:
        for ticket in backend.requests.take_unfinished():
            server = self.settings.server
            problem = f"[mcp-launch] {server} {what_happened}; {ticket.method} was not answered"
            text = f"{problem} — fix: ask again; it may already have taken effect"
            self.unanswered.add(ticket.method)
            connection = self.connections[ticket.connection]
            self.answer(connection, ticket.key, protocol.make_refusal(ticket.line, text))
        for connection in self.connections.values():
            for request_id in connection.take_server_requests(backend.name):
                gone: Message = {"reason": "the server that asked is gone"}
                cancelled = protocol.make_notification("notifications/cancelled", gone)
                self.send_own(
                    connection, json_edit.put(cancelled, request_id, "params", "requestId")
                )
        backend.wait_as_needed()

    def _answer_everything(self, backend: Backend, what_happened: str) -> None:
        """Answer all open and waiting requests: there will be no other server."""
        self._close_open_requests(backend, what_happened)
        for name, line in backend.list_waiting():
            request = protocol.read_request(line)
            self.unanswered |= {request[1]} if request else set()
            text = f"[mcp-launch] {self.settings.server} {what_happened}; it did not read this"
            refusal = protocol.make_refusal(line, f"{text} — fix: ask again")
            self.answer(self.connections[name], protocol.read_key(line) or b"", refusal)
        backend.queue.clear()

    def answer_with_failure(self, connection: HostConnection, line: bytes) -> None:
        """Answer a request with the reason why there is no server."""
        said = protocol.look(line)
        if isinstance(said, list):
            connection.open_batch(said, is_whole=False)
            for one, part in zip(said, json_edit.list_elements(line), strict=True):
                if isinstance(one, dict):
                    self.answer_with_failure(connection, part)
            return
        request, error = protocol.read_request(line), self.failure
        if request is None or error is None:
            return
        if request[1] == "server/discover":
            # With any other error, the host would take us for a server of the new era.
            raw_id = json_edit.read_raw(line, "id")
            answer = protocol.make_error(raw_id, protocol.METHOD_NOT_FOUND, "Method not found")
        else:
            text = f"[mcp-launch] {error.problem} — fix: {error.fix}"
            answer = protocol.make_refusal(line, text)
            self._failure_was_sent = True
            self.out.append(SetTimer("linger", _HANG_UP_GRACE))
        self.send_to_host(connection, connection.collect(protocol.spell(request[0]), answer))

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
        self._close_open_requests(backend, _REPLACED)
        backend.end()

    def explain_end(self, backend: Backend, stderr_end: bytes) -> str:
        """Describe how a server ended."""
        if backend.state == "ending":
            return _REPLACED
        code = backend.exit_code or 0
        if self.has_no_more_input(backend) and not code:
            return self.settings.explain_end(code, "after the end of its input", b"")
        return self.settings.explain_end(code, "while it was at work", stderr_end)

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
        is_heard = not (self.signalled or self._host_is_lost or connection.reader_is_lost)
        if handshake.is_over and is_heard:
            self.requeue(backend, unread)
            self._answer_everything(backend, self.explain_end(backend, stderr_end))
        self.finish()

    def fail(self, error: LaunchError) -> None:
        """Answer all open requests and all that follow with an error, then leave."""
        self.failure = error
        self.enter("failed")
        self.out.append(Fail(error))
        for backend in self.backends.values():
            self._end_unfinished_line(backend)
            for ticket in backend.requests.take_unfinished():
                self.answer_with_failure(self.connections[ticket.connection], ticket.line)
            for name, line in backend.queue:
                self.answer_with_failure(self.connections[name], line)
            backend.queue.clear()
        for connection in self.connections.values():
            self._send_unsent_to(connection)
        if self.input_has_ended or self._host_is_lost:
            self.finish()
        elif not self._failure_was_sent:
            self.out.append(SetTimer("linger", _FIRST_REQUEST_GRACE))

    def finish(self) -> None:
        """Leave, once, with the exit code of the failure, or else of the server."""
        if self.phase == "finished":
            return
        self.enter("finished")
        codes = [one.exit_code for one in self.backends.values() if one.exit_code is not None]
        code = codes[0] if codes else 128 + self.signalled
        self.out.append(Finish(self.failure.exit_code if self.failure else code))
