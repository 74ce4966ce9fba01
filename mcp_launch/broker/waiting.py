"""Messages that wait for a server: until it is ready, or for the one that follows it.

Calls may also wait until the server has finished others (`limits`). These are held back by
session, because sessions take turns. A request that is cancelled may wait in either place.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.commands import PauseHost
from mcp_launch.protocol.requests import rename_cancelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.broker.commands import Command
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.protocol.requests import OpenRequests

# How many bytes and messages are kept for the next server before we stop reading from the host.
QUEUE_LIMIT = 1 << 20
QUEUE_COUNT_LIMIT = 1000

# Stands for a key that was not read yet: no key is empty.
_UNREAD = b""


class WaitingLine:
    """A message that waits, with what it takes to find it."""

    __slots__ = ("_key", "connection", "line")

    def __init__(self, connection: str, line: bytes, key: bytes = _UNREAD) -> None:
        self.connection = connection
        self.line = line
        self._key: bytes | None = key

    @property
    def key(self) -> bytes | None:
        """The key of a request, None for anything else; parsed once, and only if it is needed."""
        if self._key == _UNREAD:
            self._key = protocol.read_key(self.line)
        return self._key


class Waiting:
    """The queue of a backend, and the calls that are held back from its server."""

    connections: list[str]
    requests: OpenRequests
    state: str
    queue: list[WaitingLine]
    held: dict[str, list[WaitingLine]]  # by session
    _out: list[Command]

    def send(self, data: bytes) -> None:
        """Send bytes to the server."""
        raise NotImplementedError

    def keep(self, connection: str, said: Json, line: bytes) -> None:
        """Keep a message for later, unless it concerns only the current server."""
        if isinstance(said, dict) and said.get("method") in {None, "notifications/progress"}:
            # A server may send a request, such as a ping, before it has answered the greeting.
            if self.state in {"draining", "holding", "greeting"}:
                self.send(line)
        elif isinstance(said, dict) and said["method"] == "notifications/cancelled":
            key = protocol.spell(protocol.get_member(said, "params", "requestId"))
            self._cancel(connection, key, line)
        else:
            self.queue.append(WaitingLine(connection, line))
            lines = (one.line for one in self.queue)
            sizes = (getattr(line, "whole_length", len(line)) for line in lines)
            if len(self.queue) > QUEUE_COUNT_LIMIT or sum(sizes) > QUEUE_LIMIT:
                self._out.append(PauseHost(connection))

    def _cancel(self, connection: str, key: bytes, line: bytes) -> None:
        if self.drop(connection, key):
            return
        # No answer will come. If the old server has not read the request, no server gets it.
        known = self.requests.find(connection, key)
        if self.requests.close(known) is not None and self.state in {"draining", "holding"}:
            self.send(rename_cancelled(line, key, known))

    def has_waiting(self, connection: str, key: bytes) -> bool:
        """Return whether a host's request waits here."""
        return next(self._find(connection, key), None) is not None

    def has_request(self, connection: str, key: bytes) -> bool:
        """Return whether a host's request is open here, or waits."""
        return self.has_waiting(connection, key) or bool(self.requests.find(connection, key))

    def drop(self, connection: str, key: bytes) -> bool:
        """Drop a request that was cancelled; return whether it has waited here."""
        for place, one in self._find(connection, key):
            place.remove(one)
            self.held = {session: kept for session, kept in self.held.items() if kept}
            return True
        return False

    def _find(self, connection: str, key: bytes) -> Iterator[tuple[list[WaitingLine], WaitingLine]]:
        """Yield each place where a request waits, queued or held back."""
        for place in (self.queue, *self.held.values()):
            for one in place:
                if one.connection == connection and one.key == key:
                    yield place, one

    def requeue(self, unread: bytes) -> None:
        """Keep unread requests for the next server: the last one cannot have acted on them."""
        kept = []
        # The first may be the rest of a line that the server had begun to read: it cannot be
        # parsed. The last has no end yet.
        for line in unread.split(b"\n")[:-1]:
            kept += self.requests.take_back(protocol.look(line), line + b"\n")
        first = self.connections[0] if self.connections else ""
        self.queue[:0] = [WaitingLine(connection or first, line) for connection, line in kept]

    # Calls that wait until the server has finished others

    def hold(self, session: str, call: WaitingLine) -> None:
        """Keep a call back; the sessions take turns."""
        self.held.setdefault(session, []).append(call)

    def take_held(self) -> WaitingLine | None:
        """Return the call that is next, if any is held back."""
        for session in self.held:
            taken, *rest = self.held.pop(session)
            if rest:
                self.held[session] = rest  # behind the others
            return taken
        return None

    def list_waiting(self) -> list[WaitingLine]:
        """Return the requests that wait for a server."""
        return [one for one in self.queue if one.key is not None]
