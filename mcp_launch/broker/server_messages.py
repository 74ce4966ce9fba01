"""Messages from a server: which host gets each one, and in which form.

Answers are matched with their requests; answers to our own requests do not reach the host. A
host that has closed its end gets only answers and the progress of its open requests: some
clients break at anything else.
Requests from a replacement server get new ids, because both servers count from the same
number.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.calls import judge_long_answer
from mcp_launch.broker.ending import Endings
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.framing import read_answered
from mcp_launch.protocol.memory import ANNOUNCED_BY, LISTS, find_question
from mcp_launch.protocol.requests import SUBSCRIPTION_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend, OwnRequest
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.protocol.json_text import Json, Message
    from mcp_launch.protocol.requests import Ticket


_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_OF_STREAM = ("result", "_meta", SUBSCRIPTION_ID)  # in the last message of a stream
_UPDATED = "notifications/resources/updated"

# Announce that a list has changed.
_CHANGES = {f"notifications/{what}/list_changed" for what in ANNOUNCED_BY.values()}

# Noted because a host may wait for an answer that it contains.
BATCH_WAS_DROPPED = (
    "the server wrote several messages as one array (a JSON-RPC batch), which MCP removed in "
    "2025-06-18: the host gets none of them, and what they answer stays open"
)


def is_batch(line: bytes) -> bool:
    """Return whether a line, or its beginning, looks like an array of messages."""
    return line.lstrip().startswith(b"[") and b'"jsonrpc"' in line


class ServerMessages(Endings):
    """Passes a server's messages on to its hosts, with our own messages between them."""

    @property
    def noise(self) -> int:
        """The number of lines that were not messages."""
        return sum(backend.lines.noise_count for backend in self.backends.values())

    def _sort(self, backend: Backend, data: bytes) -> bytes:
        """Return the part of the data that the host gets: after a failure, nothing."""
        passed = b""
        for line in data.splitlines(keepends=True):
            # After a failure, answers are not read, so we answer the requests ourselves.
            passed += b"" if self.failure else backend.lines.feed(line)
        return passed

    def _divert(self, backend: Backend, line: bytes) -> None:
        backend.divert(line)
        if is_batch(line):
            self.note(BATCH_WAS_DROPPED)
        self.schedule_lease_write()

    def _note_message(self, backend: Backend, line: bytes, answered: bytes = b"") -> bytes:
        """Note a message from the server; return the bytes that the host gets."""
        ticket = backend.requests.open.get(answered) if answered else None
        if ticket is not None and not (ticket.is_noted or ticket.id or backend.own_requests):
            # By far the most common: an answer that need not be read.
            del backend.requests.open[answered]
            if self.follows_calls:
                self.note_answer_to_call(ticket.connection, ticket.key, line)
            if backend.notes_use:
                self.note_use(backend, ticket, line)
            if not backend.is_shared:
                return line
            return self._pass_to(backend, ticket.connection, line)
        said = protocol.look(line)
        if isinstance(said, dict) and isinstance(said.get("method"), str):
            return self._note_request(backend, said, line)
        if isinstance(said, dict) and "id" in said:
            return self._note_answer(backend, said, line)
        return line

    def _note_long_message(self, backend: Backend, head: bytes, tail: bytes, length: int) -> None:
        """Note a long line that has passed."""
        ticket = backend.requests.close(read_answered(head, tail))
        if ticket is not None:
            connection = self.connections[ticket.connection]
            if ticket.key in connection.calls:
                self.finish_call(connection, ticket.key, judge_long_answer(head, tail), length)

    def _note_answer(self, backend: Backend, said: Message, line: bytes) -> bytes:
        key = protocol.spell(said["id"])
        own = backend.take_own_answer(key, said, line, self.make_id)
        if own is not None:
            self._handle_own_answer(backend, own, said, line)
            return b""
        if backend.is_resting and key in backend.requests.listening:
            return b""  # the host keeps its stream, and the next server gets it
        ticket = backend.requests.close(key)
        if ticket is None:
            return self._note_unexpected(backend, key, said, line)
        if self.note_refusal(backend, ticket, said):
            return b""
        self.note_answer_to_call(ticket.connection, ticket.key, line)
        connection = self.connections[ticket.connection]
        handshake = connection.handshake
        if ticket.id:
            line = json_edit.replace(line, ticket.id, "id")
            if json_edit.read_raw(line, *_OF_STREAM):
                line = json_edit.replace(line, ticket.id, *_OF_STREAM)
        if not handshake.is_over or ticket.key in handshake.pending:
            handshake.note_answer(protocol.look(line) if ticket.id else said)  # type: ignore[arg-type]
            self.schedule_lease_write()
        self._note_list(backend, ticket, said, line)
        if ticket.method == "tools/list" and self._tools is not None:
            line = self._tools.filter(line)
        backend.wait_as_needed()
        return self._pass_to(backend, ticket.connection, line)

    def _note_unexpected(self, backend: Backend, key: bytes, said: Message, line: bytes) -> bytes:
        """Note an answer to a request that is not open; return what the host gets."""
        if key in backend.expired:
            del backend.expired[key]
            backend.wait_as_needed()
            self.note_server_is_free()
            self.note("an answer that came too late was dropped")
            return b""
        # While the server is not ready, we have answered its requests ourselves.
        if backend.is_ready:
            self._first(backend).handshake.note_answer(said)
        return line if backend.is_ready and not self.has_no_more_input(backend) else b""

    def _pass_to(self, backend: Backend, connection: str, line: bytes) -> bytes:
        if not backend.is_shared:
            return line
        self.send_to_host(self.connections[connection], line)
        return b""

    def _note_list(self, backend: Backend, ticket: Ticket, said: Message, line: bytes) -> None:
        """Note an answer that another server may have to give, or to agree with."""
        if ticket.method in LISTS:
            backend.requests.note_list(ticket.method, said, line)
        if ticket.method == "tools/list":
            backend.gone_tools = set()  # the host knows by now
        asked = protocol.look(ticket.line) if ticket.is_noted else None
        question = find_question(asked) if isinstance(asked, dict) else None
        if question is not None and self._answers_as_at_start(backend):
            connection = self.connections[ticket.connection]
            self.learn(connection, asked, question, said, line)  # type: ignore[arg-type]
        if backend.notes_use:
            self.note_use(backend, ticket, line)

    def _answers_as_at_start(self, backend: Backend, *, was_asked_at_start: bool = False) -> bool:
        """Return whether a server answers now as it does at its start: only that is remembered.

        A call may change its lists, also without a notification. What we ask at its start it is
        asked before any call, so there only a notification counts. One that comes before the
        first call belongs to the start: some servers announce their lists when they have them.
        """
        is_fresh = backend.is_unused or (was_asked_at_start and not backend.lists_have_changed)
        return is_fresh and not self.settings.is_used_by_others(backend.name)

    def note_use(self, backend: Backend, ticket: Ticket, line: bytes) -> None:
        """Note an answer of a server that may rest."""
        raise NotImplementedError

    def note_notification(self, backend: Backend, method: Json) -> None:
        """Note a notification of a server that may rest."""
        raise NotImplementedError

    def learn(
        self,
        connection: HostConnection,
        asked: Message,
        question: tuple[str, bytes],
        said: Message,
        line: bytes,
    ) -> None:
        """Remember a server's answer, to give it when there is no server."""
        raise NotImplementedError

    def _handle_own_answer(
        self, backend: Backend, own: OwnRequest, said: Message, line: bytes
    ) -> None:
        connection = self._first(backend)
        may_learn = self._answers_as_at_start(backend, was_asked_at_start=True)
        may_learn &= not self._is_secondary(backend)
        if own[0] == "greeting":
            backend.greeting_was_refused = "error" in said
            backend.greeting_was_answered = True
            asked = protocol.look(connection.handshake.greeting)
            if isinstance(asked, dict) and may_learn:
                self.learn(connection, asked, ("initialize", b""), said, line)
        elif own[0] in LISTS and may_learn:
            self.learn(connection, {}, own, said, line)
        changed, backend.comparison.changed = backend.comparison.changed, []
        for method in changed:
            if self._is_secondary(backend):
                self.note(f"{method} of this session's server differs: the host keeps the first")
            else:
                self._announce(backend, method)

    def _is_secondary(self, backend: Backend) -> bool:
        """Return whether the host has its lists from another server."""
        return backend.has_neighbours and backend.name != self._first(backend).backend

    def _announce(self, backend: Backend, method: str) -> None:
        """Notify the hosts that one of their lists is outdated."""
        what = ANNOUNCED_BY[method]
        announced = ("result", "capabilities", what, "listChanged")
        changed = protocol.make_notification(f"notifications/{what}/list_changed")
        for connection in map(self.connections.__getitem__, backend.connections):
            handshake = connection.handshake
            if handshake.greeting and protocol.get_member(handshake.answer, *announced):
                self.send_own(connection, changed)
        for known in backend.requests.listening:
            ticket = backend.requests.open[known]
            asked = protocol.look(ticket.line)
            if protocol.get_member(asked, "params", "notifications", f"{what}ListChanged"):
                stream = json_edit.read_raw(ticket.line, "id")
                path = ("params", "_meta", SUBSCRIPTION_ID)
                connection = self.connections[ticket.connection]
                self.send_own(connection, json_edit.put(changed, stream, *path))

    def _note_request(self, backend: Backend, said: Message, line: bytes) -> bytes:
        method, requests = said["method"], backend.requests
        if protocol.is_request(said):
            return self._forward_request(backend, said, line)
        self._note_sign_of_life(backend, said)
        if method in _CHANGES or method == _UPDATED:
            self._note_change(backend, method)
        if not self._may_hear(backend, said):
            return b""
        if method == "notifications/cancelled":
            asked, line = self._find_asked_host(backend, said, line)
            if asked:
                return self._pass_to(backend, asked, line)
        if method == _ACKNOWLEDGED and backend.take_acknowledgement(said):
            return b""
        is_shared = backend.is_shared
        if is_shared or requests.has_renamed:
            owner, line = requests.find_recipient(said, line)
            if owner:
                return self._notify_host(backend, owner, line)
        return self._pass_to_all(backend, said, line) if is_shared else line

    @staticmethod
    def _note_change(backend: Backend, method: Json) -> None:
        backend.speaks_to_its_host |= not backend.is_unused
        if method in _CHANGES:
            backend.lists_have_changed |= not backend.is_unused
        if method == "notifications/tools/list_changed":
            backend.gone_tools = set()  # it may have them again

    def _notify_host(self, backend: Backend, connection: str, line: bytes) -> bytes:
        """Pass on a notification that belongs to a request of one host."""
        return self._pass_to(backend, connection, line)

    def _note_sign_of_life(self, backend: Backend, said: Message) -> None:
        if backend.notes_use:
            self.note_notification(backend, said["method"])
        if said["method"] == "notifications/progress" and self._limits is not None:
            self.note_progress(backend, said)

    def _may_hear(self, backend: Backend, said: Message) -> bool:
        """Return whether the hosts of a server may get a notification."""
        method = said["method"]
        if self.has_no_more_input(backend):
            is_progress = method == "notifications/progress"
            return is_progress and backend.requests.find_progress(said) is not None
        if method in _CHANGES and self._is_secondary(backend):
            self.note(f"{method} of another session's server was dropped: its host keeps one list")
            return False
        return True

    def _pass_to_all(self, backend: Backend, said: Message, line: bytes) -> bytes:
        if said["method"] != "notifications/progress":  # else its request is no longer open
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
        backend.speaks_to_its_host |= said["method"] not in {"ping", "roots/list"}
        unfinished = backend.requests.list_unfinished()
        owners = {ticket.connection for ticket in unfinished} or set(backend.connections)
        if len(owners) > 1:
            why = "several sessions share this server, and the request does not say which"
            return self._refuse_question(backend, line, f"{why} one it is for")
        connection = self.connections[owners.pop()] if owners else self._first(backend)
        if connection.input_has_ended:
            return self._refuse_question(backend, line, "the host has closed its end")
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

    @staticmethod
    def _refuse_question(backend: Backend, line: bytes, why: str) -> bytes:
        """Answer a server's request that no host gets; one that reads no more is not told."""
        if backend.state != "ending" and not backend.input_is_closed:
            raw_id = json_edit.read_raw(line, "id")
            backend.send(protocol.make_error(raw_id, protocol.NOT_SERVED, f"[mcp-launch] {why}"))
        return b""
