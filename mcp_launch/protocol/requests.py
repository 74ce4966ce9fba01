"""Who has asked what, and has no answer yet; and what a server has been told to remember.

All that is needed to put another server in the place of one: whom to answer, what to take
back, what to say again.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json, Message

    # A request of the host's, as it came: its method, the line.
    Asked = tuple[str, bytes]

    # A request of the server's: its method, its id as it is written, and spelt.
    Wanted = tuple[str, bytes, bytes]

# Notifications that mean a request of the server that is gone, or that the next one is sent anyway.
_FOR_THE_LAST_ONE = {
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
}


class Ledger:
    """Open requests both ways, by their spelt ids."""

    __slots__ = (
        "_own_ids",
        "_pages",
        "asked",
        "level",
        "listening",
        "subscriptions",
        "tools",
        "tools_request",
        "wanted",
    )

    def __init__(self) -> None:
        self.asked: dict[bytes, Asked] = {}  # by the host, of the server
        self.wanted: dict[bytes, Wanted] = {}  # by the server, of the host
        self._own_ids: dict[bytes, bytes] = {}  # of a later server's: its spelt id, the host's
        self.level = b""  # the line with `logging/setLevel` in force
        self.subscriptions: dict[str, bytes] = {}  # the lines in force, by their address
        self.listening: dict[bytes, bytes] = {}  # `subscriptions/listen`, which stays open
        self.tools_request = b""  # the line that asked for the tools
        self.tools: list[int] = []  # the pages that the host has, each by its hash
        self._pages: set[bytes] = set()  # requests for tools that are open

    def note_request(self, asked: Message, line: bytes) -> None:
        """Note a request that goes to the server."""
        request_id, method = asked["id"], str(asked["method"])
        key = b"%d" % request_id if request_id.__class__ is int else protocol.spell(request_id)
        self.asked[key] = (method, line)
        if method in _REMEMBERED:
            _REMEMBERED[method](self, asked, key, line)

    def note_answer(self, key: bytes) -> Asked | None:
        """Note that the server has answered; return what."""
        asked = self.asked.pop(key, None)
        if asked is not None:
            self.listening.pop(key, None)
            self._pages.discard(key)
        return asked

    def want(self, said: Message, line: bytes, key: bytes = b"") -> None:
        """Note a request of the server's; `key` is its id for the host, if that is another."""
        own = protocol.spell(said["id"])
        self.wanted[key or own] = (str(said["method"]), json_edit.read_raw(line, "id"), own)
        if key:
            self._own_ids[own] = key

    def stop_wanting(self, own: bytes) -> bytes:
        """Forget a request that the server has cancelled; return the id that the host knows."""
        key = self._own_ids.pop(own, own)
        self.wanted.pop(key, None)
        return key

    def note_reply(self, key: bytes) -> Wanted | None:
        """Note that the host has answered; return what."""
        wanted = self.wanted.pop(key, None)
        if wanted is not None:
            self._own_ids.pop(wanted[2], None)
        return wanted

    def take_wanted(self) -> list[bytes]:
        """Forget what the server asked; return the ids that the host knows, as it got them."""
        known = [raw if key == own else key for key, (_, raw, own) in self.wanted.items()]
        self.wanted.clear()
        self._own_ids.clear()
        return known

    def take_back(self, said: Json, line: bytes) -> list[bytes]:
        """Return what the next server is to get of a line that the last one has not read."""
        if isinstance(said, list):
            parts = zip(said, json_edit.list_elements(line), strict=True)
            return [kept for one, part in parts for kept in self.take_back(one, part)]
        if not isinstance(said, dict) or "method" not in said:
            return []  # an answer to the last server
        if not protocol.is_request(said):
            return [line] if said["method"] not in _FOR_THE_LAST_ONE else []
        asked = self.note_answer(protocol.spell(said["id"]))
        return [asked[1]] if asked is not None else []  # as it came, not as it was delivered

    def note_tools(self, answer: Message, line: bytes) -> None:
        """Note the tools that the host has been given."""
        if "result" in answer:
            self.tools.append(hash_tools(line))

    @property
    def awaits_tools(self) -> bool:
        """Whether an answer with tools is on its way."""
        return bool(self._pages)

    def list_unfinished(self) -> list[Asked]:
        """Return what the server still has to answer; a stream has no end to wait for."""
        return [asked for key, asked in self.asked.items() if key not in self.listening]

    def take_unfinished(self) -> list[Asked]:
        """Return the same, and forget it."""
        unfinished = self.list_unfinished()
        for key in [key for key in self.asked if key not in self.listening]:
            del self.asked[key]
        self._pages.clear()
        return unfinished

    def _remember_level(self, _asked: Message, _key: bytes, line: bytes) -> None:
        self.level = line

    def _remember_subscription(self, asked: Message, _key: bytes, line: bytes) -> None:
        self.subscriptions[str(protocol.get_member(asked, "params", "uri"))] = line

    def _forget_subscription(self, asked: Message, _key: bytes, _line: bytes) -> None:
        self.subscriptions.pop(str(protocol.get_member(asked, "params", "uri")), None)

    def _remember_stream(self, _asked: Message, key: bytes, line: bytes) -> None:
        self.listening[key] = line

    def _remember_tools(self, asked: Message, key: bytes, line: bytes) -> None:
        self._pages.add(key)
        if not protocol.get_member(asked, "params", "cursor"):  # an empty one is none, too
            self.tools_request = line
            self.tools = []


def hash_tools(line: bytes) -> int:
    """Return what distinguishes one page of tools from another."""
    tools = json_edit.read_raw(line, "result", "tools")
    cursor = json_edit.read_raw(line, "result", "nextCursor")
    return hash((tools, cursor not in {b"", b"null", b'""'}))


_REMEMBERED = {
    "logging/setLevel": Ledger._remember_level,  # noqa: SLF001  # one of its own
    "resources/subscribe": Ledger._remember_subscription,  # noqa: SLF001
    "resources/unsubscribe": Ledger._forget_subscription,  # noqa: SLF001
    "subscriptions/listen": Ledger._remember_stream,  # noqa: SLF001
    "tools/list": Ledger._remember_tools,  # noqa: SLF001
}
