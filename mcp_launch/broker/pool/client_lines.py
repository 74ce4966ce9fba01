"""Messages from the connections of a pool: who has to wait, and which server gets each one."""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker import commands as do
from mcp_launch.broker.pool.greetings import MODERN
from mcp_launch.broker.pool.server_lines import ServerLines
from mcp_launch.broker.routing import TASKS
from mcp_launch.protocol import ID_AT, USUAL_BEGINNING
from mcp_launch.protocol.requests import Ticket, rename_cancelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.pool.members import Member
    from mcp_launch.protocol.json_text import Message

# How many requests of one connection a server has at once; others wait, so that the requests of
# a connection that sends thousands do not stand before those of another.
IN_FLIGHT_LIMIT = 128

# How many bytes of requests may wait for that before we stop reading from the connection.
WAITING_LIMIT = 1 << 20

# What follows the id in a call.
_CALL = b',"method":"tools/call","params":{'

# What most calls begin with after that: each launch has added its context.
_META = b'"_meta":{'

_TOKEN = b'"progressToken":'

# All but the characters that begin and end strings and objects.
_NO_MARKS = bytes(set(range(256)) - set(b'"\\{}'))


class ClientLines(ServerLines):
    """Passes the messages of connections on to their servers."""

    def pass_call(self, name: str, data: bytes) -> tuple[str, bytes] | None:
        """Return the backend and the line for one simple call, which is not parsed.

        None for everything else, which `host_said` handles. By far the most is simple, and takes
        half the time that way.
        """
        end = data.find(b",", ID_AT)
        if not data.startswith(_CALL, end) or not data.startswith(USUAL_BEGINNING):
            return None
        connection = self.connections[name]
        backend, key = self.backends[connection.backend], data[ID_AT:end]
        requests, length = backend.requests, len(data)
        if (
            data.find(b"\n") != length - 1
            or length > protocol.LONG_LINE
            or connection.lines.is_midway
            or not key.isdigit()
            or not (member := self._members[name]).kind
            or member.is_greeting
            or member.is_behind
            or member.waiting
            or backend.state != "ready"
            or len(requests.open) >= IN_FLIGHT_LIMIT
        ):
            return None
        at = end + len(_CALL)
        # What a call must not have after that, so that its beginning tells all. CPython finds
        # words several times as fast from the end, and that is most of what is done here.
        if (
            data.rfind(b'"id"', at) >= 0
            or data.rfind(b'"method"', at) >= 0
            or data.find(b"\r", at) >= 0
            or (data.find(b"\\", at) >= 0 and data.rfind(b"\\u", at) >= 0)
        ):
            return None
        token_at = token_end = end
        if (named_at := data.rfind(b"progressToken", at)) >= 0:
            token_at, token_end = _find_token(data, at, named_at - 1)
            if not token_at:
                return None
        known = requests.make_id()
        ticket = requests.open[known] = Ticket(name, key, "tools/call", data, is_noted=False)
        ticket.id = key
        backend.calls += 1
        backend.is_unused = False
        if token_at == end:
            return backend.name, b"".join((USUAL_BEGINNING, known, data[end:]))
        ticket.token = data[token_at:token_end]
        requests.tokens[known] = ticket
        rest = (data[end:token_at], known, data[token_end:])
        return backend.name, b"".join((USUAL_BEGINNING, known, *rest))

    def _take_request(
        self, connection: HostConnection, said: Message, line: bytes, meta_at: int = 0
    ) -> None:
        method = str(said["method"])
        greet = _GREETINGS.get(method)
        if greet is not None and greet(self, connection, said, line):
            return
        if method == "notifications/cancelled":
            if not self._cancel_waiting(connection, said, line):
                self._cancel_open(connection, said, line)
            self._note_answered(connection.name)  # another may take its place
            return
        is_request = said.get("id") is not None
        if is_request and method != "ping" and not self._members[connection.name].kind:
            self._assign(connection, MODERN)
        backend = self.backends[connection.backend]
        if method.startswith(TASKS) and self._refuse_task(connection, backend, said, line):
            return
        # A ping asks whether the server is alive, however much it has to do.
        limit = IN_FLIGHT_LIMIT * (2 if method == "ping" else 1)
        if is_request and self._must_wait(connection, backend, line, limit):
            return
        # Not before the server can get it: what waits comes here again.
        settle = _SETTINGS.get(method) if backend.is_ready else None
        if settle is None or not settle(self, connection, said, line):
            super()._take_request(connection, said, line, meta_at)

    def pass_on(self, connection: HostConnection, data: bytes) -> None:
        """Drop what is not a message: it may have no end, and another's message would follow."""
        del connection, data
        self.note("a line that is not a message was dropped: others use the same server")

    def _must_wait(
        self, connection: HostConnection, backend: Backend, line: bytes, limit: int
    ) -> bool:
        """Return whether a connection has too many requests at the server; if so, keep this one."""
        member = self._members[connection.name]
        is_free = len(backend.requests.open) < limit
        is_next = not (member.is_greeting or member.is_behind)
        if is_next and (is_free or self._has_room(connection, backend, limit)):
            return False
        member.keep(line)
        if member.waiting_size > WAITING_LIMIT:
            self.out.append(do.PauseHost(connection.name))
        return True

    @staticmethod
    def _has_room(connection: HostConnection, backend: Backend, limit: int) -> bool:
        requests, name = backend.requests.open.values(), connection.name
        return sum(one.connection == name for one in requests) < limit

    def _release_waiting(self, name: str) -> None:
        """Deliver requests that have waited, now that others were answered."""
        member, connection = self._members.get(name), self.connections.get(name)
        if member is None or connection is None:
            return
        backend = self.backends[connection.backend]
        while member.waiting and not (member.is_greeting or member.is_behind):
            if not self._has_room(connection, backend, IN_FLIGHT_LIMIT):
                break
            self.take_line(connection, member.take())
        self._resume(name, member)

    def resume_hosts(self, backend: Backend) -> None:
        """Read again from connections that had to wait for a server, unless they have to go on."""
        for name in backend.connections:
            self._resume(name, self._members[name])

    def _resume(self, name: str, member: Member) -> None:
        if member.waiting_size <= WAITING_LIMIT // 2:
            self.out.append(do.ResumeHost(name))

    def _cancel_open(self, connection: HostConnection, said: Message, line: bytes) -> None:
        """Cancel a request that a server may have; it may work on it all the same."""
        backend = self.backends[connection.backend]
        key = protocol.spell(protocol.get_member(said, "params", "requestId"))
        known = backend.requests.find(connection.name, key)
        super()._take_request(connection, said, line)
        if known and known not in backend.requests.open:
            self._note_orphan(backend, known, self._members[connection.name].owner)

    def _cancel_waiting(self, connection: HostConnection, said: Message, line: bytes) -> bool:
        """Cancel a request that no server has, or another than the one it uses now."""
        key = protocol.spell(protocol.get_member(said, "params", "requestId"))
        member = self._members[connection.name]
        for at, waiting in enumerate(member.waiting):
            if protocol.read_key(waiting) == key:
                member.take(at)
                self.answer(connection, key, b"")
                self._resume(connection.name, member)
                return True
        for backend in self.backends.values() if len(self.backends) > 1 else ():
            known = backend.requests.find(connection.name, key)
            if known and backend.name != connection.backend:
                backend.requests.close(known)
                self.answer(connection, key, b"")
                self._send(backend, rename_cancelled(line, key, known))
                self._end_if_unused(backend)
                return True
        return False

    def _note_answered(self, name: str) -> None:
        member = self._members.get(name)
        if member is not None and member.waiting:
            self._release_waiting(name)
        self._end_if_finished(name)


def _find_token(data: bytes, params_at: int, named_at: int) -> tuple[int, int]:
    """Return where a call's progress token begins and ends; zeros if that is not certain.

    `named_at` is where its name occurs last. Most tokens are numbers, directly in the `_meta`
    that the parameters begin with, which need not be parsed for that.
    """
    start = named_at + len(_TOKEN)
    is_named_before = data.rfind(b"progressToken", params_at, named_at) >= 0
    if is_named_before or not data.startswith(_TOKEN, named_at):
        return 0, 0
    ends = (data.find(b",", start), data.find(b"}", start))
    end = min((at for at in ends if at >= 0), default=0)
    raw, meta_at = data[start:end], params_at + len(_META)
    if (
        raw.isdigit()
        and data[named_at - 1] in b"{,"  # a quote that opens a string outside of another
        and data.startswith(_META, params_at)
        and _is_in_same_object(data[meta_at:named_at])
    ):
        return start, end
    token = protocol.get_member(protocol.look(data), "params", "_meta", "progressToken")
    # The name is there once, so this is the one that was parsed. A fraction may be spelt
    # otherwise, and must not be taken for its beginning.
    is_whole = token is not None and not isinstance(token, bool) and raw == protocol.spell(token)
    return (start, end) if is_whole else (0, 0)


def _is_in_same_object(text: bytes) -> bool:
    """Return whether a text that begins in an object ends in it, and not in another."""
    # A brace or an escaped quote within a string leaves its quotes, so the answer is no.
    marks = text.translate(None, _NO_MARKS).replace(b'""', b"")
    while b"{}" in marks:
        marks = marks.replace(b"{}", b"")
    return not marks


_Handlers = dict[str, "Callable[[ClientLines, HostConnection, Message, bytes], bool]"]

# Each returns whether it has handled a message; if not, the server gets it.
_GREETINGS: _Handlers = {
    "initialize": ClientLines._take_greeting,  # noqa: SLF001  # one of its own
    "server/discover": ClientLines._take_discovery,  # noqa: SLF001
    "notifications/initialized": ClientLines._take_initialized,  # noqa: SLF001
    "notifications/roots/list_changed": ClientLines._take_new_roots,  # noqa: SLF001
}
_SETTINGS: _Handlers = {
    "logging/setLevel": ClientLines._take_level,  # noqa: SLF001
    "resources/subscribe": ClientLines._subscribe,  # noqa: SLF001
    "resources/unsubscribe": ClientLines._unsubscribe,  # noqa: SLF001
}
