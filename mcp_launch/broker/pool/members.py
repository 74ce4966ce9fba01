"""The connections of a pool, its servers, and what each of them has said."""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker import Broker
from mcp_launch.broker.connection import HostConnection
from mcp_launch.protocol import json_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.routing import Served
    from mcp_launch.broker.waiting import WaitingLine
    from mcp_launch.protocol.json_text import Message

# Our own requests have larger ids than those of connections will ever have, and fit into 32 bits.
_OWN_NUMBERS = 2_000_000_000

# The states of a server that another connection may use.
ALIVE = {"starting", "ready"}


class Member:
    """What is known of one connection."""

    __slots__ = (
        "is_behind",
        "is_greeting",
        "kind",
        "level",
        "owner",
        "unasked_size",
        "waiting",
        "waiting_size",
    )

    def __init__(self, owner: str) -> None:
        self.owner = owner  # the launch, which may connect again
        self.kind = ""  # the kind of client; empty until it has said so
        self.is_greeting = False  # it waits for the answer to `initialize`
        self.level = ""  # of the log messages that it wants
        self.is_behind = False  # it has not read what it was sent
        self.unasked_size = 0  # how much of that, in bytes, it has not asked for
        # Requests, while it is greeted, is behind, or has too many at the server.
        self.waiting: list[bytes] = []
        self.waiting_size = 0  # in bytes

    def keep(self, line: bytes) -> None:
        """Keep a request for later."""
        self.waiting.append(line)
        self.waiting_size += _measure(line)

    def take(self, at: int = 0) -> bytes:
        """Return a request that was kept, and keep it no longer."""
        line = self.waiting.pop(at)
        self.waiting_size -= _measure(line)
        return line


def _measure(line: bytes) -> int:
    """Return the length of a line, of which a long one is kept in a short form."""
    return getattr(line, "whole_length", len(line))


class SharedServer:
    """What a server was told by all of its clients, and has answered them."""

    __slots__ = (
        "answer",
        "asker",
        "is_asked",
        "is_initialized",
        "kind",
        "level",
        "orphans",
        "subscribers",
        "waiting",
    )

    def __init__(self) -> None:
        self.kind = ""  # of the clients; empty: any may claim it
        self.answer = b""  # to `initialize`
        self.is_asked = False
        self.asker = ""  # the connection whose greeting the server got
        self.is_initialized = False
        self.waiting: list[WaitingLine] = []  # greetings that wait for the answer
        self.level = ""  # of the log messages that the server sends
        self.subscribers: dict[str, list[str]] = {}  # connections by URI
        # Requests that the server may still work on for nobody: who gave them up, and when.
        self.orphans: dict[bytes, tuple[str, float]] = {}


class Members(Broker):
    """Opens servers, and sends them what no connection has said."""

    def __init__(self, settings: Settings, served: Served, roots: Message) -> None:
        super().__init__(settings)
        self._served = served
        self._roots = roots  # the answer to `roots/list`
        self._members: dict[str, Member] = {}
        self._greetings: dict[str, SharedServer] = {}  # by backend
        self._discoveries: dict[str, bytes] = {}  # answers to `server/discover`, by kind of client
        self._opened = 0
        self._numbers = _OWN_NUMBERS
        self._nobody = HostConnection("")  # in place of the first host, if there is none

    def open(self) -> Backend:
        """Start a server for clients of a kind that is not known yet."""
        self._opened += 1
        name = "server" if self._opened == 1 else f"server-{self._opened}"
        self._greetings[name] = SharedServer()
        backend = self.open_backend(name, self._served)
        backend.is_pooled = backend.requests.renames_all = backend.notes_use = True
        backend.wait_as_needed()
        backend.start(self._served)
        return backend

    def _first(self, backend: Backend) -> HostConnection:
        connections = [self.connections[name] for name in backend.connections]
        # One may join and say nothing, although the server was greeted long ago.
        greeted = (one for one in connections if one.handshake.is_over)
        return next(greeted, connections[0] if connections else self._nobody)

    def has_no_more_input(self, backend: Backend) -> bool:
        """Return whether no host will come any more: another may always join."""
        del backend
        return False

    def send_own(self, connection: HostConnection, line: bytes) -> None:
        """Send a host a line of our own: it never gets a part of a server's line."""
        self.send_to_host(connection, line)

    def _ask(self, backend: Backend, method: str, params: Message) -> None:
        """Send a request of our own, whose answer says nothing."""
        request: Message = {"jsonrpc": "2.0", "id": "", "method": method, "params": params}
        if backend.is_ready:
            backend.ask("state", protocol.encode(request), self._make_number)

    def _make_number(self) -> int:
        """Return an id for a request of our own: some servers know no other ids than numbers."""
        self._numbers += 1
        return self._numbers

    @staticmethod
    def _send(backend: Backend, line: bytes) -> None:
        if backend.is_ready:
            backend.send(line)

    def _confirm(self, connection: HostConnection, line: bytes) -> None:
        """Answer a request of which the server need not know."""
        done = protocol.make_result(json_edit.read_raw(line, "id"), {})
        self.answer(connection, protocol.read_key(line) or b"", done)

    def _end_if_unused(self, backend: Backend) -> None:
        """End a server that has lost its last connection, if there is another server."""
        if backend.connections or backend.requests.open or backend.state == "ending":
            return
        if len(self.backends) > 1 and not self._greetings[backend.name].waiting:
            backend.end()

    def _list_greeted(self, backend: Backend) -> list[str]:
        """Return the connections that have said what they are: others may still move."""
        return [name for name in backend.connections if self._members[name].kind]

    def _end_if_finished(self, name: str) -> None:
        """End a connection that sends nothing more and awaits nothing."""
        raise NotImplementedError

    def _unsubscribe_all(self, backend: Backend, name: str) -> None:
        """Forget what a connection has subscribed to at a server."""
        raise NotImplementedError

    def _note_answered(self, name: str) -> None:
        """Go on with a connection that has one open request less."""
        raise NotImplementedError
