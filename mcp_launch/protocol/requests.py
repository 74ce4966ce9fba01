"""Open requests in both directions, the handshake, and what a server was asked to remember.

That is all it takes to replace a server: which requests still need an answer, which to take
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


class Opening:
    """Over when a request was answered, in any way, or `server/discover` with a result.

    From then on host and server understand each other without us. What was said is kept:
    a server that takes this one's place is greeted with the same words.
    """

    __slots__ = ("answer", "era", "greeting", "initialized", "is_over", "pending")

    def __init__(self) -> None:
        self.pending: dict[bytes, tuple[str, bytes]] = {}  # method and line, by the spelt id
        self.is_over = False
        self.era: str | None = None  # the method that was answered
        self.greeting = b""  # the line with `initialize` that was accepted
        self.initialized = b""  # the line with `notifications/initialized`
        self.answer: Message = {}  # what the server said to either

    @property
    def is_ready(self) -> bool:
        """Whether the server has taken up its work: one that refused the greeting has not."""
        return self.is_over and (self.era != "initialize" or "result" in self.answer)

    def hear_lines(self, data: bytes) -> bytes:
        """Note the requests in what the host said; return the beginning of its next line."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            heard = protocol.look(line)
            if isinstance(heard, dict):
                self.hear_host(heard, line + b"\n")
        return rest

    def hear_host(self, heard: Message, line: bytes) -> None:
        """Note a request."""
        method = heard.get("method")
        if isinstance(method, str) and protocol.is_request(heard):
            self.pending[protocol.spell(heard["id"])] = (method, line)

    def refuse_news(self, unread: set[bytes]) -> list[bytes]:
        """Return refusals of `server/discover`, if the server has read nothing else."""
        asked = [one for key, one in self.pending.items() if key not in unread]
        if any(method != "server/discover" for method, _ in asked):
            return []
        self.pending.clear()  # what was not read is said again
        code = protocol.METHOD_NOT_FOUND
        ids = [json_edit.read_raw(line, "id") for _, line in asked]
        return [protocol.make_error(one, code, "Method not found") for one in ids]

    def list_pending(self) -> list[bytes]:
        """Return the requests that are not answered yet, as lines."""
        return [line for _, line in self.pending.values()]

    def hear_server(self, heard: Message) -> None:
        """Note an answer."""
        if not protocol.is_answer(heard):
            return
        key = protocol.spell(heard["id"])
        method, line = self.pending.pop(key, ("", b""))
        is_accepted = "result" in heard
        if method == "initialize" and is_accepted:
            self.greeting = line
        elif self.is_over or not method:
            return
        # A refused `server/discover` is followed by `initialize`; a host of the new era may
        # leave both out and just ask.
        if method != "server/discover" or is_accepted:
            self.is_over = True
            self.era = method
            self.answer = heard
