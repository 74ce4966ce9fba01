"""Holds the state of each host connection, and sends messages to hosts."""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.commands import Note, ResumeHost, SendToHost, WriteLease
from mcp_launch.protocol.framing import HostLines
from mcp_launch.protocol.requests import CallPattern, Handshake
from mcp_launch.values import DECISION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Command, Settings
    from mcp_launch.broker.routing import FollowedCall
    from mcp_launch.protocol.json_text import Message
    from mcp_launch.protocol.memory import Remembered

# How many refused calls to remember, in case the host cancels one.
_REFUSED_LIMIT = 64

_SCHEME = "file://"


class ServerRequest:
    """A request from a server that a host has to answer."""

    __slots__ = ("backend", "key", "method", "raw_id", "raw_token", "token")

    def __init__(self, backend: str, said: Message, raw_id: bytes, raw_token: bytes) -> None:
        self.backend = backend
        self.method = str(said["method"])
        self.key = protocol.spell(said["id"])  # the host may know it by another
        self.raw_id = raw_id  # as the server wrote it
        token = protocol.get_member(said, "params", "_meta", "progressToken")
        self.token = b"" if token is None else protocol.spell(token)  # for its progress
        self.raw_token = raw_token  # the same as the server wrote it, if the host knows another


class HostConnection:
    """The state of one connection to a host."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines = HostLines()
        self.pattern = CallPattern()
        self.handshake = Handshake()
        self.backend = ""  # gets what names no caller; empty until the host has sent something
        self.server_requests: dict[bytes, ServerRequest] = {}  # by the spelt id the host knows
        self.roots: list[str] = []  # the directories that the host named
        self.roots_are_due = False  # the next call may have to wait for them
        self.roots_were_asked = False  # by the server, or by us
        self.roots_key = b""  # the spelt id of our own request for them, while it is open
        self.unsent = b""  # our own lines, until the server's current line ends
        self.input_has_ended = False
        self.input_is_lost = False  # the server no longer reads it
        self.reader_is_lost = False
        self._refused: dict[bytes, None] = {}
        self.calls: dict[bytes, FollowedCall] = {}  # by the spelt ids of open calls
        self.client = ""  # the kind of client that the host is
        self.memories: dict[str, Remembered] = {}  # what servers answer, by client
        self.greeting_key = b""  # the spelt id of a greeting that memory may answer soon
        self.discovery_was_refused = False  # from memory, although a server got it

    def remember_refusal(self, key: bytes) -> None:
        """Remember a refused call: the host may still cancel it."""
        self._refused[key] = None
        if len(self._refused) > _REFUSED_LIMIT:
            del self._refused[next(iter(self._refused))]

    def forget_refusal(self, key: bytes) -> bool:
        """Return whether a call was refused, and forget it."""
        return key in self._refused and self._refused.pop(key) is None

    def note_server_request(
        self, backend: str, said: Message, raw_id: bytes, key: bytes, token: bytes = b""
    ) -> None:
        """Note a request from a server, and the id that the host knows it by."""
        self.server_requests[key] = ServerRequest(backend, said, raw_id, token)

    def find_server_request(self, backend: str, own: bytes) -> bytes | None:
        """Return the id that the host knows a server's request by."""
        for key, request in self.server_requests.items():
            if request.backend == backend and request.key == own:
                return key
        return None

    def take_server_requests(self, backend: str) -> list[bytes]:
        """Forget a server's requests; return their ids as they were written to the host."""
        taken = [(key, one) for key, one in self.server_requests.items() if one.backend == backend]
        for key, _ in taken:
            del self.server_requests[key]
        return [one.raw_id if key == one.key else key for key, one in taken]

    @property
    def supports_roots(self) -> bool:
        """Whether the host has announced that it answers `roots/list`."""
        greeting = protocol.look(self.handshake.greeting)
        roots = protocol.get_member(greeting, "params", "capabilities", "roots")
        return self.handshake.era == "initialize" and roots is not None

    def find_asker(self, said: Message) -> tuple[str, bytes]:
        """Return the server that a progress notification is for, and the token it knows."""
        token = protocol.spell(protocol.get_member(said, "params", "progressToken"))
        request = self.server_requests.get(token)
        if request is not None and request.raw_token:
            return request.backend, request.raw_token
        for one in self.server_requests.values():
            if one.token == token and not one.raw_token:
                return one.backend, b""
        return "", b""

    def read_roots(self, answer: Message) -> None:
        """Note the directories in an answer to `roots/list`."""
        listed = protocol.get_member(answer, "result", "roots")
        roots = listed if isinstance(listed, list) else []
        uris = [protocol.get_member(root, "uri") for root in roots]
        paths = [
            uri[len(_SCHEME) :].removeprefix("localhost")
            for uri in uris
            if isinstance(uri, str) and uri.startswith(_SCHEME)
        ]
        # Any other begins with the name of a machine.
        self.roots = [_decode_path(path) for path in paths if path.startswith("/")]


def may_follow_input(line: bytes) -> bool:
    """Return whether a host that has closed its end may get a line: an answer, or progress."""
    said = protocol.look(line) if b'"method"' in line else None
    return not isinstance(said, dict) or said.get("method") in {None, "notifications/progress"}


def _decode_path(path: str) -> str:
    # Not `urllib.parse`: its import takes milliseconds.
    first, *rest = path.encode().split(b"%")
    try:
        parts = [bytes.fromhex(part[:2].decode()) + part[2:] for part in rest]
    except ValueError:
        return path  # it has a bare percent sign
    return b"".join([first, *parts]).decode("utf-8", "surrogateescape")


class Parties:
    """The hosts and servers that a broker connects, and its commands for the runtime."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.now = 0.0
        self.out: list[Command] = []
        self.connections: dict[str, HostConnection] = {}
        self.backends: dict[str, Backend] = {}
        self.lease_is_due = False  # a write is scheduled
        self.own_ids = protocol.spell(f"mcp-launch/{settings.launch}/")[:-1]  # how ours begin
        self._ids = 0
        self._has_unsent = False  # our own lines wait for the end of a server's line
        self._is_reading = False  # data from a server is being checked, and not passed on yet

    def take_commands(self) -> list[Command]:
        """Return the commands so far, and forget them."""
        commands, self.out[:] = self.out.copy(), []
        return commands

    def note(self, text: str, kind: str = DECISION) -> None:
        """Log a decision, or an event."""
        self.out.append(Note(text, kind))

    def schedule_lease_write(self) -> None:
        """Have the lease written soon; one write covers everything until then."""
        if not self.lease_is_due:
            self.lease_is_due = True
            self.out.append(WriteLease())

    def make_id(self) -> str:
        """Return a unique id for a request of our own."""
        self._ids += 1
        return f"mcp-launch/{self.settings.launch}/{self._ids}"

    def add_connection(self, backend: Backend, connection: HostConnection) -> None:
        """Note that a host uses a backend."""
        connection.backend = connection.backend or backend.name
        if connection.name not in backend.connections:
            backend.connections.append(connection.name)
            backend.wait_as_needed()

    def resume_hosts(self, backend: Backend) -> None:
        """Read again from hosts that had to wait because too much was kept for a server."""
        for name in backend.connections:
            connection = self.connections[name]
            if not connection.input_has_ended and not connection.input_is_lost:
                self.out.append(ResumeHost(name))

    def send_to_host(self, connection: HostConnection, data: bytes) -> None:
        """Send bytes to a host."""
        if data:
            self.out.append(SendToHost(connection.name, data))

    def _first(self, backend: Backend) -> HostConnection:
        """Return the connection whose handshake is replayed to a replacement server."""
        if backend.connections:
            return self.connections[backend.connections[0]]
        return next(iter(self.connections.values()))

    def _find_backend(self, connection: HostConnection) -> Backend:
        """Return the backend for messages that name no caller."""
        if connection.backend:
            return self.backends[connection.backend]
        return next(iter(self.backends.values()))

    def _list_others(self, connection: HostConnection, backend: Backend) -> list[Backend]:
        """Return the other backends of a host."""
        others = [one for one in self.backends.values() if one is not backend]
        return [one for one in others if connection.name in one.connections]

    def _set_level_of_others(
        self, connection: HostConnection, backend: Backend, line: bytes
    ) -> None:
        for other in self._list_others(connection, backend):
            other.requests.level = line
            if other.has_state_of_host:
                other.ask("state", line, self.make_id)

    def _announce_roots_to_others(
        self, connection: HostConnection, backend: Backend, line: bytes
    ) -> None:
        for other in self._list_others(connection, backend):
            if other.has_state_of_host:
                other.send(line)

    def send_own(self, connection: HostConnection, line: bytes) -> None:
        """Send a host a line of our own, but not in the middle of a server's line."""
        if not line:
            return
        connection.unsent += line
        self._has_unsent = True
        if not self._is_reading and not self._is_within_a_line:
            self._send_unsent_to(connection)

    @property
    def _is_within_a_line(self) -> bool:
        """Whether a host has the beginning of a server's line but not its end."""
        return any(backend.lines.is_within_a_line for backend in self.backends.values())

    def _send_unsent(self, backend: Backend) -> None:
        if backend.has_neighbours and self._is_within_a_line:
            return  # of another server
        if self._has_unsent and not backend.lines.is_within_a_line:
            self._has_unsent = False
            for connection in self.connections.values():
                self._send_unsent_to(connection)

    def _send_unsent_to(self, connection: HostConnection) -> None:
        if connection.unsent:
            for backend in self.backends.values():
                self._end_unfinished_line(backend)
            unsent, connection.unsent = connection.unsent, b""
            if connection.input_has_ended:
                lines = unsent.splitlines(keepends=True)
                unsent = b"".join(line for line in lines if may_follow_input(line))
            self.send_to_host(connection, unsent)

    def _end_unfinished_line(self, backend: Backend) -> None:
        if backend.owes_newline:
            backend.owes_newline = False
            self.send_to_host(self._first(backend), b"\n")
