"""What a server tells every client of one kind before the first call: its greeting, its lists.

With these answers kept, a host can be answered while no server runs. A server may make them
depend on the client's capabilities and protocol version, so a memory is for one kind of client.

In the 2026 era a result names its own time to live. It is only ever shortened here: by the time
that has passed since the server gave it.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit, json_text
from mcp_launch.protocol.message import look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json, Object

# The requests for lists, and the member of the result that holds the list.
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}

# The capability that announces changes of a list, which is also part of the notification's name.
ANNOUNCED_BY = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resources",
}

GREETINGS = ("initialize", "server/discover")

# How many pages of a list are compared: a server may count on for ever.
_PAGES_LIMIT = 64

# The longest life of an answer, in milliseconds: a number may be larger than any integer.
_LIFE_LIMIT = 1e15

_PREFIX = "io.modelcontextprotocol/"

# The parameters of a request for a list. With any other one, the answer may be another.
_KNOWN_PARAMETERS = {"_meta", "cursor"}


def name_client(said: Object) -> str:
    """Return the kind of client that a request names; empty if it names none that can be kept."""
    params = said.get("params")
    if not isinstance(params, dict):
        return ""
    if said.get("method") == "initialize":
        facts = [params.get(name) for name in ("protocolVersion", "capabilities", "clientInfo")]
    else:
        meta = params.get("_meta")
        if not isinstance(meta, dict) or _PREFIX + "protocolVersion" not in meta:
            return ""
        names = ("protocolVersion", "clientCapabilities", "clientInfo")
        facts = [meta.get(_PREFIX + name) for name in names]
    era = "initialize" if said.get("method") == "initialize" else "2026"
    # A new release of a host is the same client, unless its capabilities have changed.
    facts[2] = protocol.get_member(facts[2], "name")
    try:
        return json_text.encode(_sort([era, *facts]))
    except RecursionError:
        return ""  # capabilities that are nested hundreds of levels deep


def _sort(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _sort(value[name]) for name in sorted(value)}
    return [_sort(one) for one in value] if isinstance(value, list) else value


def find_question(said: Object) -> tuple[str, bytes] | None:
    """Return the method and page that a request asks for; None: its answer cannot be kept."""
    method, params = said.get("method"), said.get("params")
    if method in GREETINGS:
        return str(method), b""
    if method not in LISTS:
        return None
    if params is None:
        return str(method), b""
    if not isinstance(params, dict) or not params.keys() <= _KNOWN_PARAMETERS:
        return None
    cursor = params.get("cursor")
    return None if isinstance(cursor, (dict, list)) else (str(method), _spell_cursor(cursor))


def find_page(answer: Object) -> bytes:
    """Return which page of a list follows the one in an answer; empty if it is the last."""
    return _spell_cursor(protocol.get_member(answer, "result", "nextCursor"))


def _spell_cursor(cursor: Json) -> bytes:
    # An empty one counts as none, and so does one that is not a single value.
    is_cursor = cursor and not isinstance(cursor, (dict, list))
    return json_text.encode(cursor).encode() if is_cursor else b""


class KnownList:
    """What a host has of one list."""

    __slots__ = ("method", "pages", "request")

    def __init__(self, method: str, request: bytes) -> None:
        self.method = method
        self.request = request  # the line that asked for the first page
        self.pages: list[int] = []  # their hashes


class Comparison:
    """Compares the lists of a new server with those that the host has, page by page."""

    __slots__ = ("_pages", "changed")

    def __init__(self) -> None:
        self._pages: dict[str, list[int]] = {}  # hashes of the new server's pages, by method
        self.changed: list[str] = []  # the methods of lists that differ

    @property
    def is_going_on(self) -> bool:
        """Whether an answer is still awaited."""
        return bool(self._pages)

    def begin(self, lists: dict[str, KnownList]) -> list[KnownList]:
        """Return the lists to ask for."""
        known = [one for one in lists.values() if one.pages]
        self._pages = {one.method: [] for one in known}
        return known

    def take(self, known: KnownList, answer: Object, line: bytes) -> bytes:
        """Compare a page; return the request for the next one, or nothing."""
        pages = self._pages.pop(known.method, [])
        pages.append(hash_page(known.method, line))
        if find_page(answer) and len(pages) < _PAGES_LIMIT:
            self._pages[known.method] = pages
            cursor = json_edit.read_raw(line, "result", "nextCursor")
            return json_edit.put(known.request, cursor, "params", "cursor")
        if pages != known.pages and "result" in answer:
            known.pages = pages
            self.changed.append(known.method)
        return b""


def hash_page(method: str, line: bytes) -> int:
    """Return a hash of a page of a list, and of whether another page follows."""
    listed = json_edit.read_raw(line, "result", LISTS[method])
    cursor = json_edit.read_raw(line, "result", "nextCursor")
    return hash((listed, cursor not in {b"", b"null", b'""'}))


class Remembered:
    """The answers of one server to one kind of client."""

    __slots__ = (
        "answers",
        "client",
        "has_changed",
        "is_due",
        "is_new",
        "size_of_server",
        "written",
    )

    def __init__(
        self,
        client: str,
        written: float,
        answers: dict[tuple[str, bytes], bytes] | None = None,
    ) -> None:
        self.client = client
        self.written = written  # when the server gave the answers, by the clock of the events
        self.answers = answers or {}  # `{"result":…}` or `{"error":…}`, by method and cursor
        self.is_due = False  # it is old, and should be compared with the server itself
        self.has_changed = False  # since it was read or written
        self.is_new = not answers  # nothing was ever written
        self.size_of_server = 0  # the memory that the server used when it was last measured

    def renew(self, now: float) -> None:
        """Count the age of all answers from now on; what is left of their lives stays."""
        for question, kept in self.answers.items():
            if b'"ttlMs"' in kept:
                self.answers[question] = _shorten_life(kept, now - self.written)
        self.written = now

    def answer(self, said: Object, line: bytes, now: float) -> bytes:
        """Return the answer to a request as a line; empty if it is not known."""
        question = find_question(said)
        kept = self.answers.get(question) if question is not None else None
        if kept is None or name_client(said) not in {"", self.client}:
            return b""
        if b'"ttlMs"' in kept:
            kept = _shorten_life(kept, now - self.written)
        raw_id = json_edit.read_raw(line, "id")
        return b'{"jsonrpc":"2.0","id":%b,%b\n' % (raw_id, kept[1:])

    def learn(self, question: tuple[str, bytes], said: Object, line: bytes) -> None:
        """Keep an answer of the server, if it may be given again."""
        method, cursor = question
        result = json_edit.read_raw(line, "result")
        if result:
            kept = b'{"result":%b}' % result
        elif protocol.get_member(said, "error", "code") == protocol.METHOD_NOT_FOUND:
            kept = b'{"error":%b}' % json_edit.read_raw(line, "error")
        else:
            return
        is_unfinished = protocol.get_member(said, "result", "resultType") not in {None, "complete"}
        listed = protocol.get_member(said, "result", LISTS.get(method, ""))
        # A server without tools may not have loaded them yet.
        is_empty = method == "tools/list" and result and not listed
        if is_unfinished or is_empty or b"\n" in kept:
            return
        if method in LISTS and not cursor:
            self._forget_pages(method, but=kept)
        if self.answers.get(question) != kept:
            self.answers[question] = kept
            self.has_changed = True

    def _forget_pages(self, method: str, *, but: bytes) -> None:
        if self.answers.get((method, b"")) != but:
            for question in [one for one in self.answers if one[0] == method]:
                del self.answers[question]

    def list_names(self, method: str) -> list[str]:
        """Return the names in a list, of all pages that are known."""
        names: list[str] = []
        for (asked, _), kept in self.answers.items():
            listed = protocol.get_member(look(kept), "result", LISTS[method])
            if asked == method and isinstance(listed, list):
                names += [str(protocol.get_member(one, "name")) for one in listed]
        return names

    def list_pages(self, method: str) -> list[bytes]:
        """Return the answers that are the pages of a list, in their order, as far as known."""
        pages: list[bytes] = []
        cursor = b""
        while (kept := self.answers.get((method, cursor))) is not None and kept not in pages:
            pages.append(kept)
            cursor = find_page(protocol.look_message(kept))
            if not cursor:
                break
        return pages

    @property
    def is_worth_keeping(self) -> bool:
        """Whether a host can be answered from this: a refusal, or a greeting with a list."""
        refused = self.answers.get(("server/discover", b""), b"").startswith(b'{"error"')
        has_greeting = any((method, b"") in self.answers for method in GREETINGS)
        is_filled = any(
            protocol.get_member(look(kept), "result", LISTS[method])
            for (method, _), kept in self.answers.items()
            if method in LISTS
        )
        return refused or (has_greeting and is_filled)


def _shorten_life(kept: bytes, seconds: float) -> bytes:
    given = look(json_edit.read_raw(kept, "result", "ttlMs"))
    if not isinstance(given, (int, float)):
        return kept
    # Not a number (NaN) is not above 0, either.
    life = min(given, _LIFE_LIMIT) if given > 0 else 0
    left = max(0, int(life - seconds * 1000))
    return json_edit.replace(kept, b"%d" % left, "result", "ttlMs")
