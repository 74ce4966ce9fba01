"""Log levels and subscriptions: the server knows the union of what the connections want."""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.pool.greetings import Greetings
from mcp_launch.protocol import json_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.protocol.json_text import Json, Message
    from mcp_launch.protocol.requests import Ticket

# The levels of log messages, the least severe first.
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Subscriptions(Greetings):
    """Joins what the connections want to hear, and finds those who want it."""

    def _take_level(self, connection: HostConnection, said: Message, line: bytes) -> bool:
        level = protocol.get_member(said, "params", "level")
        if level not in _LEVELS or said.get("id") is None:
            return False  # the server says what it thinks of it
        self._members[connection.name].level = str(level)
        backend = self.backends[connection.backend]
        lowest, greeting = self._find_level(backend), self._greetings[backend.name]
        if lowest == greeting.level:
            self._confirm(connection, line)
            return True
        greeting.level = lowest
        line = json_edit.replace(line, protocol.spell(lowest), "params", "level")
        super()._take_request(connection, protocol.look_message(line), line)
        return True

    def _find_level(self, backend: Backend) -> str:
        """Return the lowest level that a connection wants; empty if none has said so."""
        wanted = {self._members[name].level for name in backend.connections}
        return next((level for level in _LEVELS if level in wanted), "")

    def _renew_level(self, backend: Backend) -> None:
        lowest, greeting = self._find_level(backend), self._greetings[backend.name]
        if lowest and lowest != greeting.level:
            greeting.level = lowest
            self._ask(backend, "logging/setLevel", {"level": lowest})

    def _subscribe(self, connection: HostConnection, said: Message, line: bytes) -> bool:
        uri = protocol.get_member(said, "params", "uri")
        if not isinstance(uri, str) or said.get("id") is None:
            return False
        names = self._greetings[connection.backend].subscribers.setdefault(uri, [])
        is_known = bool(names)
        if connection.name not in names:
            names.append(connection.name)
        if is_known:
            self._confirm(connection, line)
        return is_known

    def _unsubscribe(self, connection: HostConnection, said: Message, line: bytes) -> bool:
        uri = protocol.get_member(said, "params", "uri")
        subscribers = self._greetings[connection.backend].subscribers
        names = subscribers.get(uri, []) if isinstance(uri, str) else []
        if connection.name in names:
            names.remove(connection.name)
        if names:
            self._confirm(connection, line)
        elif isinstance(uri, str):
            subscribers.pop(uri, None)
        return bool(names)

    def _unsubscribe_all(self, backend: Backend, name: str) -> None:
        subscribers = self._greetings[backend.name].subscribers
        for uri in [uri for uri, names in subscribers.items() if name in names]:
            subscribers[uri].remove(name)
            if not subscribers[uri]:
                del subscribers[uri]
                backend.requests.subscriptions.pop(uri, None)
                self._ask(backend, "resources/unsubscribe", {"uri": uri})

    def _forget_refused(self, backend: Backend, ticket: Ticket) -> None:
        """Forget a level or subscription that the server has refused: the next is asked for."""
        if ticket.method == "logging/setLevel":
            self._greetings[backend.name].level = ""
        if ticket.method != "resources/subscribe":
            return
        uri = protocol.get_member(protocol.look(ticket.line), "params", "uri")
        subscribers = self._greetings[backend.name].subscribers
        subscribers.pop(str(uri), None)
        backend.requests.subscriptions.pop(str(uri), None)

    def _list_subscribers(self, backend: Backend, uri: Json) -> list[str]:
        """Return the subscribers of a resource, or of one that it is a part of."""
        subscribers = self._greetings[backend.name].subscribers
        found: list[str] = []
        for subscribed, names in subscribers.items():
            if uri == subscribed or str(uri).startswith(_list_parents(subscribed)):
                found += [name for name in names if name not in found]
        return found

    def _list_listeners(self, backend: Backend, params: Json) -> list[str]:
        at_work = {ticket.connection for ticket in backend.requests.list_unfinished()}
        greeted = self._list_greeted(backend)
        names = [name for name in greeted if name in at_work] or greeted
        level = protocol.get_member(params, "level")
        if level not in _LEVELS:
            return names
        is_wanted = _LEVELS[: _LEVELS.index(str(level)) + 1]
        return [name for name in names if self._members[name].level in {"", *is_wanted}]


def _list_parents(uri: str) -> tuple[str, ...]:
    """Return how the URIs of a resource's parts begin."""
    return (uri,) if uri.endswith("/") else tuple(uri + mark for mark in "/?#")
