"""Open requests in both directions, the handshake, and the state a server was asked to keep.

This is what replacing a server needs: which requests still need an answer, which to withdraw,
and what to repeat to the next server.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json, Message

    # A request from the host, as received: its method, the line.
    Asked = tuple[str, bytes]

    # A request from the server: its method, its id as written, its spelt id.
    Wanted = tuple[str, bytes, bytes]

# Notifications about requests to the last server, or that the next one is sent anyway.
_FOR_THE_LAST_ONE = {
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
}


class Ledger:
    """Open requests in both directions, by their spelt ids."""

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
        self.asked: dict[bytes, Asked] = {}  # from the host to the server
        self.wanted: dict[bytes, Wanted] = {}  # from the server to the host
        self._own_ids: dict[bytes, bytes] = {}  # of a replacement: its spelt id, the host's
        self.level = b""  # the last line with `logging/setLevel`
        self.subscriptions: dict[str, bytes] = {}  # the active `resources/subscribe`, by URI
        self.listening: dict[bytes, bytes] = {}  # `subscriptions/listen`, which stays open
        self.tools_request = b""  # the line that requested the tools
        self.tools: list[int] = []  # hashes of the pages that the host has
        self._pages: set[bytes] = set()  # open requests for tools

    def note_request(self, asked: Message, line: bytes) -> None:
        """Record a request that goes to the server."""
        request_id, method = asked["id"], str(asked["method"])
        key = b"%d" % request_id if request_id.__class__ is int else protocol.spell(request_id)
        self.asked[key] = (method, line)
        if method in _REMEMBERED:
            _REMEMBERED[method](self, asked, key, line)

    def note_answer(self, key: bytes) -> Asked | None:
        """Record that the server has answered; return the request, if it was open."""
        asked = self.asked.pop(key, None)
        if asked is not None:
            self.listening.pop(key, None)
            self._pages.discard(key)
        return asked

    def want(self, said: Message, line: bytes, key: bytes = b"") -> None:
        """Record a request from the server; `key` is the host's id for it, if that differs."""
        own = protocol.spell(said["id"])
        self.wanted[key or own] = (str(said["method"]), json_edit.read_raw(line, "id"), own)
        if key:
            self._own_ids[own] = key

    def stop_wanting(self, own: bytes) -> bytes:
        """Forget a request that the server has cancelled; return the host's id for it."""
        key = self._own_ids.pop(own, own)
        self.wanted.pop(key, None)
        return key

    def note_reply(self, key: bytes) -> Wanted | None:
        """Record that the host has answered; return the request, if it was open."""
        wanted = self.wanted.pop(key, None)
        if wanted is not None:
            self._own_ids.pop(wanted[2], None)
        return wanted

    def take_wanted(self) -> list[bytes]:
        """Forget all requests from the server; return the host's ids for them, as sent."""
        known = [raw if key == own else key for key, (_, raw, own) in self.wanted.items()]
        self.wanted.clear()
        self._own_ids.clear()
        return known

    def take_back(self, said: Json, line: bytes) -> list[bytes]:
        """Return the messages for the next server from a line that the last one did not read."""
        if isinstance(said, list):
            parts = zip(said, json_edit.list_elements(line), strict=True)
            return [kept for one, part in parts for kept in self.take_back(one, part)]
        if not isinstance(said, dict) or "method" not in said:
            return []  # an answer to the last server
        if not protocol.is_request(said):
            return [line] if said["method"] not in _FOR_THE_LAST_ONE else []
        asked = self.note_answer(protocol.spell(said["id"]))
        return [asked[1]] if asked is not None else []  # as received, not as delivered

    def note_tools(self, answer: Message, line: bytes) -> None:
        """Record a page of tools that the host has received."""
        if "result" in answer:
            self.tools.append(hash_tools(line))

    @property
    def awaits_tools(self) -> bool:
        """Whether a request for tools is still open."""
        return bool(self._pages)

    def list_unfinished(self) -> list[Asked]:
        """Return the requests that the server still has to answer; streams never finish."""
        return [asked for key, asked in self.asked.items() if key not in self.listening]

    def take_unfinished(self) -> list[Asked]:
        """Return the same requests, and forget them."""
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
        if not protocol.get_member(asked, "params", "cursor"):  # an empty cursor means none
            self.tools_request = line
            self.tools = []


def hash_tools(line: bytes) -> int:
    """Return a hash that differs between different pages of tools."""
    tools = json_edit.read_raw(line, "result", "tools")
    cursor = json_edit.read_raw(line, "result", "nextCursor")
    return hash((tools, cursor not in {b"", b"null", b'""'}))


_REMEMBERED = {
    "logging/setLevel": Ledger._remember_level,  # noqa: SLF001  # same module
    "resources/subscribe": Ledger._remember_subscription,  # noqa: SLF001
    "resources/unsubscribe": Ledger._forget_subscription,  # noqa: SLF001
    "subscriptions/listen": Ledger._remember_stream,  # noqa: SLF001
    "tools/list": Ledger._remember_tools,  # noqa: SLF001
}


class Opening:
    """The handshake; over once a request was answered, `server/discover` with a result.

    From then on host and server agree on the protocol. The messages are kept: a replacement
    server gets the same handshake.
    """

    __slots__ = ("answer", "era", "greeting", "initialized", "is_over", "pending")

    def __init__(self) -> None:
        self.pending: dict[bytes, tuple[str, bytes]] = {}  # method and line, by the spelt id
        self.is_over = False
        self.era: str | None = None  # the method that was answered
        self.greeting = b""  # the accepted line with `initialize`
        self.initialized = b""  # the line with `notifications/initialized`
        self.answer: Message = {}  # the server's answer that ended the handshake

    @property
    def is_ready(self) -> bool:
        """Whether the server is ready; one that refused `initialize` is not."""
        return self.is_over and (self.era != "initialize" or "result" in self.answer)

    def hear_lines(self, data: bytes) -> bytes:
        """Record the requests in the host's data; return the incomplete last line."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            heard = protocol.look(line)
            if isinstance(heard, dict):
                self.hear_host(heard, line + b"\n")
        return rest

    def hear_host(self, heard: Message, line: bytes) -> None:
        """Record a request from the host."""
        method = heard.get("method")
        if isinstance(method, str) and protocol.is_request(heard):
            self.pending[protocol.spell(heard["id"])] = (method, line)

    def refuse_news(self, unread: set[bytes]) -> list[bytes]:
        """Return errors for `server/discover`, if the server has read nothing else."""
        asked = [one for key, one in self.pending.items() if key not in unread]
        if any(method != "server/discover" for method, _ in asked):
            return []
        self.pending.clear()  # unread requests are sent again
        code = protocol.METHOD_NOT_FOUND
        ids = [json_edit.read_raw(line, "id") for _, line in asked]
        return [protocol.make_error(one, code, "Method not found") for one in ids]

    def list_pending(self) -> list[bytes]:
        """Return the unanswered requests, as lines."""
        return [line for _, line in self.pending.values()]

    def hear_server(self, heard: Message) -> None:
        """Record an answer from the server."""
        if not protocol.is_answer(heard):
            return
        key = protocol.spell(heard["id"])
        method, line = self.pending.pop(key, ("", b""))
        is_accepted = "result" in heard
        if method == "initialize" and is_accepted:
            self.greeting = line
        elif self.is_over or not method:
            return
        # After a refused `server/discover` comes `initialize`; a host of the new era may skip
        # both and send requests right away.
        if method != "server/discover" or is_accepted:
            self.is_over = True
            self.era = method
            self.answer = heard
