"""Messages that wait for a server: until it is ready, or for the one that follows it."""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.commands import PauseHost
from mcp_launch.protocol.requests import rename_cancelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.commands import Command
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.protocol.requests import OpenRequests

# How many bytes and messages are kept for the next server before we stop reading from the host.
QUEUE_LIMIT = 1 << 20
QUEUE_COUNT_LIMIT = 1000


class Waiting:
    """The queue of a backend."""

    connections: list[str]
    requests: OpenRequests
    state: str
    queue: list[tuple[str, bytes]]  # connection and line
    held: dict[str, list[tuple[str, bytes]]]  # the same, of each session
    _keys: dict[bytes, bytes | None]  # of waiting lines, while one is cancelled
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
            self.queue.append((connection, line))
            sizes = (getattr(one, "whole_length", len(one)) for _, one in self.queue)
            if len(self.queue) > QUEUE_COUNT_LIMIT or sum(sizes) > QUEUE_LIMIT:
                self._out.append(PauseHost(connection))

    def _cancel(self, connection: str, key: bytes, line: bytes) -> None:
        for waiting in self.queue:
            if waiting[0] == connection and self._read_key(waiting[1]) == key:
                self.queue.remove(waiting)
                return
        # No answer will come. If the old server has not read the request, no server gets it.
        known = self.requests.find(connection, key)
        if self.requests.close(known) is not None and self.state in {"draining", "holding"}:
            self.send(rename_cancelled(line, key, known))

    def _read_key(self, line: bytes) -> bytes | None:
        """Return the key of a waiting request; each is parsed once, however many are cancelled."""
        if line not in self._keys:
            self._keys[line] = protocol.read_key(line)
        return self._keys[line]

    def requeue(self, unread: bytes) -> None:
        """Keep unread requests for the next server: the last one cannot have acted on them."""
        kept = []
        # The first may be the rest of a line that the server had begun to read: it cannot be
        # parsed. The last has no end yet.
        for line in unread.split(b"\n")[:-1]:
            kept += self.requests.take_back(protocol.look(line), line + b"\n")
        first = self.connections[0] if self.connections else ""
        self.queue[:0] = [(connection or first, line) for connection, line in kept]

    # Calls that wait until the server has finished others

    def hold(self, session: str, connection: str, line: bytes) -> None:
        """Keep a call back; the sessions take turns."""
        self.held.setdefault(session, []).append((connection, line))

    def take_held(self) -> tuple[str, bytes] | None:
        """Return the call that is next, if any is held back."""
        for session in self.held:
            lines = self.held.pop(session)
            taken, *rest = lines
            if rest:
                self.held[session] = rest  # behind the others
            return taken
        return None

    def drop_held(self, key: bytes) -> bool:
        """Drop a call that was cancelled; return whether it was held back."""
        for session, lines in self.held.items():
            for waiting in lines:
                if self._read_key(waiting[1]) == key:
                    lines.remove(waiting)
                    if not lines:
                        del self.held[session]
                    return True
        return False

    def queue_held(self) -> None:
        """Have the next server get what was held back from this one."""
        while waiting := self.take_held():
            self.queue.append(waiting)

    def list_waiting(self) -> list[tuple[str, bytes]]:
        """Return the requests that wait for a server."""
        return [waiting for waiting in self.queue if protocol.read_key(waiting[1]) is not None]
