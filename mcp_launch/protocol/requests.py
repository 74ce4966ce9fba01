"""Keeps a server's open requests, its handshake and its settings, so that it can be replaced.

They determine which requests still need an answer, which ones the next server gets, and what
has to be repeated to it. If several hosts share a server, their requests get ids of our own,
because two hosts may use the same id or progress token.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import ID_AT, json_edit
from mcp_launch.protocol.memory import LISTS, KnownList, hash_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcp_launch.protocol.json_text import Json, Message

# Notifications that the next server must not get: they concern a request of the last one, or
# are repeated anyway.
_FOR_LAST_SERVER = {
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
}

# What follows the id in a call from Codex: `_meta` is its first parameter.
_CALL_WITH_META = b',"method":"tools/call","params":{"_meta":{'

_ZERO = ord("0")

# What the rest of a call must not have, so that its beginning tells all.
_NEVER_REPEATED = ("_meta", "params", "method", '"id"')

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


class Ticket:
    """A request from a host that a server has to answer."""

    __slots__ = ("connection", "id", "is_noted", "key", "line", "method", "token")

    def __init__(
        self, connection: str, key: bytes, method: str, line: bytes, *, is_noted: bool
    ) -> None:
        self.is_noted = is_noted  # the answer has to be read, so it is held until it is complete
        self.connection = connection
        self.key = key  # its id, spelt
        self.method = method
        self.line = line  # as the host sent it
        self.id = b""  # as the host wrote it, if the server knows it by another
        self.token = b""  # its progress token, if the server knows it by another


class OpenRequests:
    """The requests that one server has to answer, by the spelt ids that it knows."""

    __slots__ = (
        "_count",
        "_noted",
        "level",
        "listening",
        "lists",
        "open",
        "renames_all",
        "subscriptions",
        "tokens",
    )

    def __init__(self) -> None:
        self.renames_all = False  # all ids are ours
        self.open: dict[bytes, Ticket] = {}
        self.level = b""  # the line with `logging/setLevel` in force
        self.subscriptions: dict[str, bytes] = {}  # the lines in force, by URI
        self.listening: dict[bytes, bytes] = {}  # `subscriptions/listen`, which stays open
        self.lists: dict[str, KnownList] = {}  # what the host has of each list, by method
        self._noted: set[bytes] = set()  # requests whose answers have to be read
        self.tokens: dict[bytes, Ticket] = {}  # by the progress token that the server knows
        self._count = 0

    def send(self, ticket: Ticket, said: Message, delivered: bytes, *, is_shared: bool) -> bytes:
        """Note a request; return the line for the server.

        `delivered` is the line after all policies.
        """
        known = ticket.key
        if is_shared or known in self.open:
            known, delivered = self._rename(ticket, delivered)
        self.open[known] = ticket
        method = ticket.method
        if ticket.is_noted and method != "subscriptions/listen":  # answered only when it ends
            self._noted.add(known)
        self.remember(said, known, delivered)
        return delivered

    def remember(self, said: Message, known: bytes, line: bytes) -> None:
        """Note a request that a later server gets, too, if it is one."""
        if said["method"] in _REMEMBERED:
            _REMEMBERED[str(said["method"])](self, said, known, line)

    def _rename(self, ticket: Ticket, line: bytes) -> tuple[bytes, bytes]:
        """Give a request, and its progress token, an id that no other connection uses."""
        known, ticket.id = self.make_id(), json_edit.read_raw(ticket.line, "id")
        line = json_edit.replace(line, known, "id")
        path = ("params", "_meta", "progressToken")
        ticket.token = json_edit.read_raw(ticket.line, *path)
        if ticket.token:
            self.tokens[known] = ticket
            line = json_edit.replace(line, known, *path)
        return known, line

    def make_id(self) -> bytes:
        """Return an id, spelt, that no host uses for a request to this server."""
        self._count += 1
        # If all ids are ours, numbers will do, which are what most servers know.
        return (b"%d" if self.renames_all else b'"mcp-launch/%d"') % self._count

    @property
    def has_renamed(self) -> bool:
        """Whether an answer may come whose id has to be changed for its host."""
        return any(ticket.id for ticket in self.open.values())

    def find(self, connection: str, key: bytes) -> bytes:
        """Return the id that the server knows a host's open request by; empty if none is open."""
        ticket = self.open.get(key)
        if ticket is not None and ticket.connection == connection and not ticket.id:
            return key
        for known, one in self.open.items():
            if one.connection == connection and one.key == key:
                return known
        return b""

    def close(self, known: bytes) -> Ticket | None:
        """Note that a request was answered or cancelled; return it."""
        ticket = self.open.pop(known, None)
        if ticket is not None:
            self.listening.pop(known, None)
            self._noted.discard(known)
            if ticket.token:
                self.tokens.pop(known, None)
        return ticket

    def close_all(self, method: str) -> None:
        """Note that all requests with this method were answered."""
        for known in [known for known, one in self.open.items() if one.method == method]:
            self.close(known)

    def find_progress(self, said: Message) -> Ticket | None:
        """Return the request that a progress notification is about."""
        token = protocol.get_member(said, "params", "progressToken")
        if ticket := self.tokens.get(protocol.spell(token)):
            return ticket
        path = ("params", "_meta", "progressToken")
        for ticket in self.open.values():
            if not ticket.id and protocol.get_member(protocol.look(ticket.line), *path) == token:
                return ticket
        return None

    def find_recipient(self, said: Message, line: bytes) -> tuple[str, bytes]:
        """Return the connection that a notification is for, and the line for its host.

        The connection is empty if the notification does not belong to a request.
        """
        path: tuple[str, ...] = ("params", "_meta", SUBSCRIPTION_ID)
        ticket = self.open.get(protocol.spell(protocol.get_member(said, *path)))
        known = ticket.id if ticket is not None else b""
        if said["method"] == "notifications/progress":
            path = ("params", "progressToken")
            ticket = self.find_progress(said)
            known = ticket.token if ticket is not None else b""
        if known:
            line = json_edit.replace(line, known, *path)
        return (ticket.connection if ticket is not None else ""), line

    def take_back(self, said: Json, line: bytes) -> list[tuple[str, bytes]]:
        """Return the messages for the next server from a line that the last one has not read."""
        if not isinstance(said, dict) or "method" not in said:
            return []  # an answer to the last server
        if not protocol.is_request(said):
            return [("", line)] if said["method"] not in _FOR_LAST_SERVER else []
        if protocol.spell(said["id"]) in self.listening:
            return []  # every new server gets the host's streams
        ticket = self.open.get(protocol.spell(said["id"]))
        kept = protocol.restore(ticket.line, line) if ticket is not None else b""
        if ticket is None or not kept:
            return []
        self.close(protocol.spell(said["id"]))
        return [(ticket.connection, kept)]

    def list_unfinished(self) -> list[Ticket]:
        """Return the requests that the server still has to answer, without endless streams."""
        return [ticket for known, ticket in self.open.items() if known not in self.listening]

    def take_unfinished(self) -> list[Ticket]:
        """Return the same requests, and forget them."""
        unfinished = [known for known in self.open if known not in self.listening]
        return [ticket for known in unfinished if (ticket := self.close(known))]

    def note_list(self, method: str, answer: Message, line: bytes) -> None:
        """Note a page of a list that the host gets."""
        if "result" in answer and method in self.lists:
            self.lists[method].pages.append(hash_page(method, line))

    @property
    def awaits_noted(self) -> bool:
        """Whether an answer may come that has to be read."""
        return bool(self._noted)

    def _remember_level(self, _request: Message, _key: bytes, line: bytes) -> None:
        self.level = line

    def _remember_subscription(self, request: Message, _key: bytes, line: bytes) -> None:
        self.subscriptions[str(protocol.get_member(request, "params", "uri"))] = line

    def _forget_subscription(self, request: Message, _key: bytes, _line: bytes) -> None:
        self.subscriptions.pop(str(protocol.get_member(request, "params", "uri")), None)

    def _remember_stream(self, _request: Message, key: bytes, line: bytes) -> None:
        self.listening[key] = line

    def _remember_list(self, request: Message, _key: bytes, line: bytes) -> None:
        if not protocol.get_member(request, "params", "cursor"):  # an empty cursor counts as none
            method = str(request["method"])
            self.lists[method] = KnownList(method, line)


def _has_escaped_letters(text: bytes) -> bool:
    return any(escape in text for escape in (b"\\u", b"\\x", b"\\/"))


_REMEMBERED = {
    "logging/setLevel": OpenRequests._remember_level,  # noqa: SLF001  # one of its own
    "resources/subscribe": OpenRequests._remember_subscription,  # noqa: SLF001
    "resources/unsubscribe": OpenRequests._forget_subscription,  # noqa: SLF001
    "subscriptions/listen": OpenRequests._remember_stream,  # noqa: SLF001
    **dict.fromkeys(LISTS, OpenRequests._remember_list),  # noqa: SLF001
}


def rename_cancelled(line: bytes, key: bytes, known: bytes) -> bytes:
    """Return a cancellation with the id that the server knows."""
    return line if known == key else json_edit.replace(line, known, "params", "requestId")


class CallPattern:
    """The beginning of a call, up to the last member of its `_meta` that names its caller.

    A call that matches belongs to the same caller as the one that the pattern was learned
    from, and need not be parsed to know it. The pattern has gaps for the id, and for strings
    and numbers in `_meta` that do not name the caller.
    """

    __slots__ = ("_beginning", "_gaps", "_misses", "_names", "caller", "key", "meta")

    def __init__(self) -> None:
        self.caller: Any = None  # of the learned call
        self.meta: Json = None  # of the learned call; the values in the gaps are outdated
        self.key: bytes | None = None  # the spelt id of the last call that matched
        self._beginning = b""  # from the id to the first gap; empty if nothing was learned
        self._gaps: list[tuple[bytes, bytes]] = []  # the end of each, and the text up to the next
        self._names: list[bytes] = []  # must not occur in the rest of a call
        self._misses = 0

    def match(self, data: bytes) -> int:  # noqa: PLR0911  # on the path of every call
        """Return where the first member of `_meta` begins if this is one call that matches.

        0 for anything else, which has to be parsed.
        """
        end = data.find(b",", ID_AT)
        if not self._beginning or not data.startswith(self._beginning, end):
            return 0
        key = data[ID_AT:end]
        if not key.isdigit() or not data.startswith(protocol.USUAL_BEGINNING) or key[0] == _ZERO:
            return 0
        at = end + len(self._beginning)
        for sign, fixed in self._gaps:
            # A string ends with a quote, a number where the fixed text begins.
            close = data.find(sign, at)
            if not data.startswith(fixed, close) or (sign != b'"' and not data[at:close].isdigit()):
                return 0
            at = close + len(fixed)
        # An escaped quote does not end a string, and some readers end a line at a `\r`.
        if (
            data.find(b"\r") >= 0
            or data.find(b"\n") != len(data) - 1
            or data.find(b"\\", 0, at) >= 0
        ):
            return 0
        # Nothing in the rest may name another caller or another method, even for a reader that
        # ignores case or accepts more than JSON. Some letters beyond ASCII become ASCII in lower
        # case. `at` may be behind the quote of a name.
        rest = data[at - 1 :].lower()
        for name in self._names:
            if rest.rfind(name) >= 0:  # in a long call, several times as fast as `in`
                return 0
        if not rest.isascii() or (b"\\" in rest and _has_escaped_letters(rest)):
            return 0
        self.key = key
        self._misses = 0
        return end + len(_CALL_WITH_META)

    def learn(
        self, line: bytes, meta: Message, caller: object, identifying: tuple[str, ...], ours: str
    ) -> None:
        """Use this call as the pattern.

        Calls of one caller agree in the `identifying` members of their `_meta`. A call that has
        a member called `ours` has to be parsed.
        """
        self._misses += 1
        # If nothing ever matches, learn less and less often: after 1, 2, 4, 8 … misses.
        if self._misses & (self._misses - 1):
            return
        end = line.find(b",", ID_AT)
        start = end + len(_CALL_WITH_META)
        if not line.startswith(_CALL_WITH_META + b'"', end) or b"\\" in line or ours in meta:
            return
        if line.count(b'"_meta"') > 1 or line.count(b'"params"') > 1:
            return  # `meta` may be another one than the first
        text = line.decode("utf-8", "surrogateescape")
        members = json_edit.list_members(text, start - 1) if text.isascii() else []
        last = max((value_end for name, _, value_end in members if name in identifying), default=0)
        fixed: list[bytes] = []
        signs: list[bytes] = []
        at = end
        for name, value_at, value_end in members:
            is_text = isinstance(meta[name], str)
            is_label = is_text or text[value_at:value_end].isdigit()
            if value_end < last and name not in identifying and is_label:
                fixed.append(line[at : value_at + is_text])
                signs.append(b'"' if is_text else line[value_end : value_end + 1])
                at = value_end - is_text
        fixed.append(line[at : last or start + 1])
        self._beginning = fixed[0] if members else b""
        self._gaps = list(zip(signs, fixed[1:], strict=True))
        names = (*_NEVER_REPEATED, ours, *identifying)
        self._names = [name.lower().encode() for name in names]
        self.meta, self.caller = meta, caller


class Handshake:
    """The start of a conversation between a host and a server.

    It is over when any request was answered, `server/discover` with a result. From then on
    host and server understand each other without us. The messages are kept, to be repeated to
    a replacement server.
    """

    __slots__ = ("answer", "era", "greeting", "initialized", "is_over", "pending")

    def __init__(self) -> None:
        self.pending: dict[bytes, tuple[str, bytes]] = {}  # method and line, by the spelt id
        self.is_over = False
        self.era: str | None = None  # the method that was answered
        self.greeting = b""  # the line with `initialize` that was accepted
        self.initialized = b""  # the line with `notifications/initialized`
        self.answer: Message = {}  # the answer that completed it

    @property
    def is_ready(self) -> bool:
        """Whether the handshake has succeeded: the server did not refuse the greeting."""
        return self.is_over and (self.era != "initialize" or "result" in self.answer)

    def note_request(self, said: Message, line: bytes) -> None:
        """Note a request from the host."""
        method = said.get("method")
        if isinstance(method, str) and protocol.is_request(said):
            self.pending[protocol.spell(said["id"])] = (method, line)

    def note_answer(self, said: Message) -> None:
        """Note an answer from the server; its id is the host's."""
        key = protocol.spell(said["id"])
        method, line = self.pending.pop(key, ("", b""))
        is_accepted = "result" in said
        if method == "initialize" and is_accepted:
            self.greeting = line
        elif self.is_over or not method:
            return
        # After a refused `server/discover`, the host sends `initialize`. A host of the new era may
        # send neither.
        if method != "server/discover" or is_accepted:
            self.is_over = True
            self.era = method
            self.answer = said

    def refuse_discovery(self, unread: set[bytes]) -> dict[bytes, bytes]:
        """Return refusals of each `server/discover`, if the server has read nothing else."""
        were_read = {key: one for key, one in self.pending.items() if key not in unread}
        if any(method != "server/discover" for method, _ in were_read.values()):
            return {}
        self.pending.clear()  # unread requests are sent again
        code = protocol.METHOD_NOT_FOUND
        return {
            key: protocol.make_error(json_edit.read_raw(line, "id"), code, "Method not found")
            for key, (_, line) in were_read.items()
        }
