"""How a server is greeted once for all clients of the same kind, and which server each gets."""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.pool.members import ALIVE, Members
from mcp_launch.broker.waiting import WaitingLine
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.memory import name_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend, OwnRequest
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.protocol.json_text import Message
    from mcp_launch.protocol.requests import Ticket

# The kind of a client that does not say `initialize`; in the 2026 era each request says who asks.
MODERN = "2026"

_GREETING = "shared greeting"


class Greetings(Members):
    """Finds a server for each kind of client, and greets it."""

    def _assign(self, connection: HostConnection, kind: str) -> Backend:
        """Return the backend for a kind of client, and have the connection use it."""
        self._members[connection.name].kind = kind
        backend = self._find_alive(kind) or self._find_alive("") or self.open()
        self._greetings[backend.name].kind = kind
        self._move(connection, backend)
        return backend

    def _find_alive(self, kind: str) -> Backend | None:
        """Return a server for this kind of client that can be used; None if there is none."""
        for name, backend in self.backends.items():
            if self._greetings[name].kind == kind and backend.state in ALIVE:
                return backend
        return None

    def _move(self, connection: HostConnection, backend: Backend) -> None:
        last = self.backends[connection.backend]
        if last is backend:
            return
        last.connections.remove(connection.name)
        connection.backend = ""
        self.add_connection(backend, connection)
        queued = [one for one in last.queue if one.connection == connection.name]
        last.queue = [one for one in last.queue if one.connection != connection.name]
        backend.queue += queued
        self._unsubscribe_all(last, connection.name)
        if queued and backend.is_ready:
            self._flush(backend)
        self._end_if_unused(last)

    def _take_greeting(self, connection: HostConnection, said: Message, line: bytes) -> bool:
        if said.get("id") is None:
            return True  # it is not a request, and no server gets another greeting
        # One that cannot be named is only for this connection.
        kind = name_client(said) or f"only {connection.name}"
        greeting = self._greetings[self._assign(connection, kind).name]
        connection.handshake.note_request(said, line)
        if greeting.answer:
            self._answer_greeting(connection, line, greeting.answer)
            self._note_answered(connection.name)
            return True
        greeting.waiting.append(WaitingLine(connection.name, line))
        self._members[connection.name].is_greeting = True
        self._greet(self.backends[connection.backend])
        return True

    def _greet(self, backend: Backend) -> None:
        """Send a server the first greeting of those that wait, once."""
        greeting = self._greetings[backend.name]
        if backend.is_ready and greeting.waiting and not greeting.is_asked:
            greeting.is_asked = True
            greeting.asker = greeting.waiting[0].connection
            backend.ask(_GREETING, greeting.waiting[0].line, self._make_number)

    def _answer_greeting(self, connection: HostConnection, line: bytes, answer: bytes) -> None:
        answer = json_edit.replace(answer, json_edit.read_raw(line, "id"), "id")
        connection.handshake.note_answer(protocol.look_message(answer))
        self._members[connection.name].is_greeting = False
        self.answer(connection, protocol.read_key(line) or b"", answer)

    def _handle_own_answer(
        self, backend: Backend, own: OwnRequest, said: Message, line: bytes
    ) -> None:
        if own[0] != _GREETING:
            super()._handle_own_answer(backend, own, said, line)
            return
        greeting = self._greetings[backend.name]
        greeting.is_asked = False
        if "result" in said:
            greeting.answer = line
        waiting, greeting.waiting = greeting.waiting, []
        for one in waiting:
            self._answer_greeting(self.connections[one.connection], one.line, line)
        # A host need not wait for the answer to say that it is ready.
        for one in waiting:
            connection = self.connections[one.connection]
            if ready := connection.handshake.initialized:
                self._take_initialized(connection, {}, ready)
        for one in waiting:
            self._note_answered(one.connection)

    def _take_initialized(self, connection: HostConnection, _said: Message, line: bytes) -> bool:
        connection.handshake.initialized = line
        greeting = self._greetings[connection.backend]
        if not greeting.is_initialized and greeting.answer:
            greeting.is_initialized = True
            self._send(self.backends[connection.backend], line)
        return True

    def _take_discovery(self, connection: HostConnection, said: Message, line: bytes) -> bool:
        """Answer a discovery as the last one of this kind of client, or find a server for it.

        One that was greeted with `initialize` might die of it.
        """
        if said.get("id") is None or self._members[connection.name].kind:
            return False
        if answer := self._discoveries.get(name_client(said)):
            connection.handshake.note_request(said, line)
            self._answer_greeting(connection, line, answer)
            return True
        backend = self._find_alive("") or self._find_alive(MODERN) or self.open()
        self._move(connection, backend)
        # Not by way of `_take_request`, which would assign the connection to a kind of clients.
        super()._take_request(connection, said, line)
        return True

    def _note_list(self, backend: Backend, ticket: Ticket, said: Message, line: bytes) -> None:
        if ticket.method == "server/discover":
            kind = name_client(protocol.look_message(ticket.line))
            self._discoveries.setdefault(kind, line)
        super()._note_list(backend, ticket, said, line)

    def _take_new_roots(self, _connection: HostConnection, _said: Message, _line: bytes) -> bool:
        return True  # the server is told the directory that all connections share
