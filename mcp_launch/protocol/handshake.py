"""The first requests of a connection, and whether the server has answered them."""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Message


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
