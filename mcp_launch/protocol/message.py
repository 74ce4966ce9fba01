"""One line as a message: what it says, and the same line with some values replaced.

A message is spliced, never encoded anew: all bytes but those that are replaced stay as they were
sent. Answers in the usual layouts are not parsed at all: their id is enough.
"""

from __future__ import annotations

from mcp_launch.protocol import json_edit, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mcp_launch.protocol.json_text import Json

    # A part of a line, and what is written in its place.
    Edit = tuple[int, int, bytes]

# Most messages begin like this, followed by the id; with spaces, as Python's `json` writes them; or
# they have the id at the end, as the TypeScript SDK writes it.
_BEGINS, _ID_AT = b'{"jsonrpc":"2.0","id":', 22
_BEGINS_SPACED, _SPACED_ID_AT = b'{"jsonrpc": "2.0", "id": ', 25
_OUTCOMES, _SPACED_OUTCOMES = (b'"result"', b'"error"'), (b' "result"', b' "error"')
_OUTCOME_FIRST = (b'{"result":', b'{"error":')
_ID_LAST = b',"id":'

# How calls are written: by Codex and the Python SDK; with spaces; by the TypeScript SDK. What is
# before the id or, if that is last, before the parameters; what is between the two; what follows
# the parameters.
_CALLS = (
    (_BEGINS, b',"method":"tools/call","params":{', b"}}\n"),
    (_BEGINS_SPACED, b', "method": "tools/call", "params": {', b"}}\n"),
    (b'{"method":"tools/call","params":{', b"", b'},"jsonrpc":"2.0","id":'),
)
META, _TOKEN, _TOOL = b'"_meta":', b'"progressToken":', b'"name":'
_SPACE = ord(" ")
# Python refuses to read much longer numbers.
LONGEST_ID = 18
# Where the name of a tool begins at the latest, if the parameters begin with it.
_PARAMS_END = 80

# Some readers accept it, so it must not hide a call from us.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# The members of a message, and the parameters of most requests. Go's reader ignores how they are
# capitalised.
_MEMBERS = {"jsonrpc", "id", "method", "params", "result", "error"}
_USUAL_PARAMETERS = {"_meta", "name", "arguments", "uri", "cursor"}

# A line longer than one read is parsed without its long strings.
LONG_LINE = 1 << 16
_LONG_STRING = 1 << 14

# How many strings to look at: a line of many short ones would not become much shorter.
_STRINGS_LIMIT = 1 << 16

# How many bytes before a quote to check for backslashes first; nearly always enough.
_ESCAPES = 64
_BACKSLASH = ord("\\")

# The kinds of a message. An array is a JSON-RPC batch, which MCP removed in 2025-06-18; noise is no
# object; what is ambiguous may be read by others in another way; other JSON means nothing to us.
REQUEST, ANSWER, NOTIFICATION = "request", "answer", "notification"
BATCH, NOISE, AMBIGUOUS, OTHER = "batch", "noise", "ambiguous", "other"


class Message:
    """What one line says."""

    __slots__ = (
        "_cuts",
        "_text",
        "has_params",
        "id",
        "id_at",
        "key",
        "kind",
        "line",
        "meta",
        "meta_span",
        "method",
        "params",
        "value",
    )

    def __init__(self, line: bytes, kind: str, raw_id: bytes = b"", id_at: int = 0) -> None:
        self.line = line
        self.kind = kind
        self.id = raw_id  # as it is written
        self.id_at = id_at
        self.key: object = None  # the id, however it is spelt: 1 is 1.0, but not "1"
        self.method = ""

    # What is read only when it is asked for: most answers and calls are never parsed as a whole.
    params: dict[str, Json]
    meta: dict[str, Json]
    value: Json  # the whole message
    has_params: bool
    _text: bytes  # what was parsed: the line without its long strings
    _cuts: list[tuple[int, int]]  # where these were, and their lengths
    meta_span: tuple[int, int] | None  # where the members of `_meta` are, if that is known

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # each has its own type
        """Return the first value of an attribute that was not set."""
        if name == "value":
            self.value = look(self.line)
        elif name == "params":
            params = self.parse().get("params")
            self.params = params if isinstance(params, dict) else {}
        elif name == "meta":
            self.meta = {}
        elif name == "_text":
            self._text = self.line
        elif name == "_cuts":
            self._cuts = []
        elif name == "meta_span":
            self.meta_span = None
        elif name == "has_params":
            self.has_params = bool(self.params) or "params" in self.parse()
        else:
            raise AttributeError(name)
        return getattr(self, name)

    def parse(self) -> dict[str, Json]:
        """Return the whole message; empty if it is none."""
        return self.value if isinstance(self.value, dict) else {}

    def find(self, *path: str) -> tuple[int, int]:
        """Return where a value begins and ends that the message has, in its line."""
        start, end = _find(self._text, path)
        return (self._move(start), self._move(end)) if self._cuts else (start, end)

    def find_all(self, name: str, *path: str) -> list[tuple[int, int]]:
        """Return where all values with a name are, in the object at the end of a path."""
        text = self._text.decode("utf-8", "surrogateescape")
        spans = json_edit.find_all(text, json_edit.find(text, path)[0], name)
        counted = [tuple(_measure(text[:at]) for at in span) for span in spans]
        return [(self._move(start), self._move(end)) for start, end in counted]

    def find_name(self, *path: str) -> int:
        """Return where the value of a member begins, which the message has.

        A name that occurs once in the whole line is the one; only escapes could spell another.
        """
        text = self._text
        name = _QUOTED.get(path[-1]) or json_text.encode(path[-1]).encode()
        at = text.rfind(name)  # CPython searches several times as fast from the end
        if text.rfind(name, 0, at) >= 0 or at < 0 or text.find(b"\\u") >= 0:
            return self.find(*path)[0]
        at += len(name)
        while text[at] in b" \t:":
            at += 1
        return self._move(at) if self._cuts else at

    def _move(self, at: int) -> int:
        """Return where a position in the parsed text is in the line."""
        return at + sum(length for start, length in self._cuts if start < at)

    def raw(self, *path: str) -> bytes:
        """Return a value as it is written; empty if there is none."""
        start, end = self.find(*path)
        return self.line[start:end]

    def edit(self, new: bytes, *path: str) -> Edit:
        """Return the edit that puts something in the place of a value that the message has."""
        return (*self.find(*path), new)

    def with_id(self, new: bytes) -> bytes:
        """Return the line with another id."""
        at = self.id_at
        return b"".join((self.line[:at], new, self.line[at + len(self.id) :]))

    def put(self, new: bytes, *path: str) -> bytes:
        """Return the line with another value at the end of a path."""
        return splice(self.line, [self.edit(new, *path)])

    def put_param(self, name: str, value: bytes) -> Edit:
        """Return the edit that sets a parameter of a request with parameters."""
        if name in self.params:
            return self.edit(value, "params", name)
        at = self.find_name("params") + 1
        comma = b"," if self.params else b""
        return at, at, b"%b:%b%b" % (json_text.encode(name).encode(), value, comma)

    def find_token(self, token: Json) -> tuple[int, int]:
        """Return where the progress token is, whose value is known."""
        start = 0
        if (span := self.meta_span) is not None:
            at = self.line.rfind(_TOKEN, *span)
            if self.line.rfind(_TOKEN, span[0], at) < 0:
                start = at + len(_TOKEN) + (self.line[at + len(_TOKEN)] == _SPACE)
        start = start or self.find_name("params", "_meta", "progressToken")
        raw = json_text.encode(token).encode()
        end = start + len(raw)
        if self.line.startswith(raw, start) and self.line[end : end + 1] in {b",", b"}", b" "}:
            return start, end
        return self.find("params", "_meta", "progressToken")

    def read_tool(self) -> Json:
        """Return the tool that a call names."""
        if (span := self.meta_span) is not None:
            line = self.line
            # Right behind `_meta`, or at the beginning of the parameters.
            starts = (line.find(_TOOL, span[1], span[1] + 12), line.find(_TOOL, 0, _PARAMS_END))
            at = max(starts) + len(_TOOL)
            at += line[at : at + 2] == b' "' or 0
            name = line[at + 1 : line.find(b'"', at + 1)]
            is_found = at >= len(_TOOL) and line[at : at + 1] == b'"'
            if is_found and name.translate(None, b"_-./").isalnum():
                return name.decode("ascii")
        return self.params.get("name")

    def add_to_meta(self, member: bytes) -> Edit:
        """Return the edit that adds a member to the `_meta` of a request with parameters."""
        if (span := self.meta_span) is not None:
            return span[0], span[0], member + b"," if self.meta else member
        if self.meta:
            at = self.find_name("params", "_meta") + 1
            return at, at, member + b","
        if "_meta" not in self.params:
            at = self.find_name("params") + 1
            return at, at, b'"_meta":{%b}%b' % (member, b"," if self.params else b"")
        return self.edit(b"{%b}" % member, "params", "_meta")

    def shorten(self) -> None:
        """Forget the long strings of a long line: it can be answered, but not sent again."""
        if len(self.line) > LONG_LINE:
            self.params = {"name": self.read_tool()}  # all that is asked for later
            self.line = self._text if self._cuts else b""
            self._cuts = []
            self.meta_span = None
            self.value = None


_QUOTED = {name: b'"%b"' % name.encode() for name in ("id", "params", "_meta", "progressToken")}


def find_answered(line: bytes) -> tuple[int, int]:
    """Return where the id is in an answer of one of three layouts; zeros for any other line."""
    if not line.endswith(b"}\n"):
        return 0, 0
    if line.startswith(_BEGINS):
        end = line.find(b",", _ID_AT)
        return (_ID_AT, end) if line.startswith(_OUTCOMES, end + 1) else (0, 0)
    if line.startswith(_OUTCOME_FIRST):
        # The last brace closes the message, so the text before it is a member of the message.
        at = line.rfind(_ID_LAST) + len(_ID_LAST)
        end = len(line) - 2
        return (at, end) if at >= len(_ID_LAST) and line[at:end].isdigit() else (0, 0)
    if line.startswith(_BEGINS_SPACED):
        end = line.find(b",", _SPACED_ID_AT)
        return (_SPACED_ID_AT, end) if line.startswith(_SPACED_OUTCOMES, end + 1) else (0, 0)
    return 0, 0


def read(line: bytes) -> Message:
    """Return what a line says. Most answers are not parsed: their id is enough."""
    at, end = find_answered(line)
    if end and not line.startswith((b"{", b"["), at):  # no id, whatever is in it
        return Message(line, ANSWER, line[at:end], at)
    return (_read_call(line) if len(line) <= LONG_LINE else None) or parse(line)


def locate_call(line: bytes) -> tuple[tuple[bytes, bytes, bytes], int, int, int, int] | None:
    """Return a call's layout, where its id and its parameters are; None if it has none of these."""
    for layout in _CALLS:
        before, between, last = layout
        if line.startswith(before):
            id_at = len(before)
            id_end = line.find(b",", id_at)
            if not between:
                end = line.rfind(last)
                return layout, end + len(last), len(line) - 2, id_at, end
            if line.startswith(between, id_end) and line.endswith(last):
                return layout, id_at, id_end, id_end + len(between), len(line) - len(last)
    return None


def may_repeat(line: bytes, at: int) -> bool:
    """Return whether a member that was read may be there again: the last one counts."""
    return (
        line.rfind(b'"_meta"', at) >= 0
        or line.rfind(b'"params"', at) >= 0
        or line.rfind(b'"method"', at) >= 0
        or line.rfind(b"\\u", at) >= 0
    )


def _read_call(line: bytes) -> Message | None:  # noqa: PLR0911  # each is a sign that it has to be parsed
    """Return a call in one of three layouts, of which only `_meta` is parsed; None for the rest.

    The layout tells where the id and the parameters are. That `_meta` is a member of these and not
    of an argument, either its place at their beginning shows, or that only the end of the message
    follows it. (Its name cannot be a part of a text: there, its quotes would be escaped.)
    """
    found = locate_call(line)
    if found is None:
        return None
    _, id_at, id_end, params_at, end = found
    raw_id = line[id_at:id_end]
    if not (raw_id.isdigit() and line.endswith(b"}\n") and line.isascii()) or end < params_at:
        return None
    if len(raw_id) > LONGEST_ID or raw_id.startswith(b"0") or line.find(b"\r") >= 0:
        return None
    is_first = line.startswith(META, params_at)
    at = params_at if is_first else line.rfind(META, params_at, end)
    if at < 0 or line[at - 1] == _BACKSLASH:
        return None
    start = at + len(META) + (line[at + len(META)] == _SPACE)
    try:
        meta, length = json_text.scan(line[start:].decode("ascii"), 0)
    except (ValueError, StopIteration, SystemError, RecursionError):
        return None
    if meta.__class__ is not dict or not (is_first or start + length == end):
        return None
    if is_first and may_repeat(line, start + length):
        return None
    message = Message(line, REQUEST, raw_id, id_at)
    message.key, message.method = int(raw_id), "tools/call"
    message.meta, message.has_params = meta, True
    message.meta_span = (start + 1, start + length)
    return message


def parse(line: bytes) -> Message:
    """Return what a line says, whatever it is."""
    if 0 <= line.find(b"\r") < len(line) - 2 and may_hide_a_message(line):
        # Python's text streams end a line there, and would read a second message after it.
        line = json_edit.join_line(line)
    message = Message(line, OTHER)
    if len(line) > LONG_LINE:
        message._text, message._cuts = _leave_out_long_strings(line)  # noqa: SLF001  # its maker
    value = message.value = look(message._text)  # noqa: SLF001
    message.params, message.meta = {}, {}
    if value.__class__ is not dict:
        message.kind = BATCH if value.__class__ is list else NOISE
        return message
    _fill(message, value)
    return message


def _fill(message: Message, value: dict[str, Json]) -> None:
    params, given = value.get("params"), value.get("id")
    has_id = given is not None and not isinstance(given, (dict, list))
    message.has_params = "params" in value
    if params.__class__ is dict:
        message.params = params
        meta = params.get("_meta")
        if meta.__class__ is dict:
            message.meta = meta
    if not value.keys() <= _MEMBERS or not message.params.keys() <= _USUAL_PARAMETERS:
        message.kind = AMBIGUOUS if _is_ambiguous(value, message.params) else OTHER
    method = value.get("method")
    if method.__class__ is str:
        message.method = method
        if message.kind != AMBIGUOUS:
            message.kind = REQUEST if has_id else NOTIFICATION
    elif has_id and message.kind != AMBIGUOUS and ("result" in value or "error" in value):
        message.kind = ANSWER
    if has_id:
        message.key = find_key(value["id"])
        _find_id(message, value["id"])


def _find_id(message: Message, value: Json) -> None:
    line = message.line
    if value.__class__ is int:
        raw = b"%d" % value
        if line.startswith(_BEGINS) and line.startswith(raw + b",", _ID_AT):
            message.id, message.id_at = raw, _ID_AT
            return
        if line.endswith(b'"id":%b}\n' % raw):
            message.id, message.id_at = raw, len(line) - 2 - len(raw)
            return
    message.id_at, end = message.find("id")
    message.id = line[message.id_at : end]


def find_key(value: Json) -> object:
    """Return an id however it is spelt: 1 is 1.0, but neither "1" nor true."""
    if value.__class__ is int or value.__class__ is str:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    # A list or an object is nobody's id, however deep it is.
    return None if isinstance(value, (dict, list)) else json_text.encode(value).encode()


def look(line: bytes) -> Json:
    """Return the JSON value of a line, usually a message; None if it is not JSON."""
    try:
        return json_text.parse(line.removeprefix(_BYTE_ORDER_MARK))
    except ValueError:
        return None
    except RecursionError:
        return json_edit.look_at_deep(line)


def _is_ambiguous(value: dict[str, Json], params: dict[str, Json]) -> bool:
    """Return whether a lenient server may read a member that we ignore for its capitalisation."""
    if any(name not in _MEMBERS and name.casefold() in _MEMBERS for name in value):
        return True
    return any(name != "_meta" and name.casefold() == "_meta" for name in params)


def may_hide_a_message(line: bytes) -> bool:
    """Return whether a more lenient reader may find a message in a line that we cannot parse.

    Python's `strip` removes more whitespace than JSON allows, and some readers accept comments
    or a trailing comma. But every message has a brace and the name of a member.
    """
    # Without the zero bytes of UTF-16 and UTF-32, which Python's `json` accepts.
    plain = line.replace(b"\0", b"").lower()
    return b"{" in plain and (b"method" in plain or b"\\u" in plain)


def splice(line: bytes, edits: Iterable[Edit]) -> bytes:
    """Return a line with some parts of it replaced."""
    parts: list[bytes] = []
    last = 0
    for start, end, new in sorted(edits):
        parts += line[last:start], new
        last = end
    parts.append(line[last:])
    return b"".join(parts)


def _find(text: bytes, path: tuple[str, ...]) -> tuple[int, int]:
    if text.isascii():
        return json_edit.find(text.decode("ascii"), path)
    decoded = text.decode("utf-8", "surrogateescape")
    start, end = json_edit.find(decoded, path)
    return _measure(decoded[:start]), _measure(decoded[:end])


def _measure(text: str) -> int:
    """Return the length of a text in bytes."""
    return len(text.encode("utf-8", "surrogateescape"))


def _leave_out_long_strings(line: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a line without its long strings, and where in it they were, with their lengths."""
    parts: list[bytes] = []
    cuts: list[tuple[int, int]] = []
    done = length = 0
    end = -1
    for _ in range(_STRINGS_LIMIT):
        start = line.find(b'"', end + 1)
        end = _find_closing_quote(line, start + 1)
        if start < 0 or end < 0:
            break
        if end - start > _LONG_STRING:
            parts.append(line[done : start + 1])
            length += start + 1 - done
            cuts.append((length, end - start - 1))
            done = end
    parts.append(line[done:])
    return (b"".join(parts), cuts) if cuts else (line, cuts)


def _find_closing_quote(line: bytes, at: int) -> int:
    while (end := line.find(b'"', at)) >= 0:
        if line[end - 1] != _BACKSLASH:
            return end
        if line[end - 2] == _BACKSLASH:  # an even number of them does not escape a quote
            before = line[max(at, end - _ESCAPES) : end]
            if len(before) == _ESCAPES and not before.strip(b"\\"):
                before = line[at:end]
            if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
                return end
        at = end + 1  # this quote is escaped
    return -1


def read_ends(line: bytes) -> Message:
    """Return what both ends of a line show of a request that was too long to be kept."""
    from mcp_launch.protocol.lines import EDGE

    shown = _read_beginning(line[:EDGE])
    last = _read_end(line[-EDGE:])
    value: dict[str, Json] = {**last, **shown}
    message = Message(line, OTHER)
    if "result" in value or "error" in value or value.get("id") is None:
        return message
    message.kind = REQUEST
    message.id = json_text.encode(value["id"]).encode()
    message.method = str(value.get("method", ""))
    message.value = {"id": value["id"], "method": message.method}
    return message


def _read_end(tail: bytes) -> dict[str, Json]:
    """Return the members from the last `"id"` on, if the text ends the message; else none."""
    text = tail.decode("utf-8", "surrogateescape")
    at = text.rfind('"id"')
    while at > 0:
        last = look(f"{{{text[at:]}".encode("utf-8", "surrogateescape"))
        if isinstance(last, dict) and text[:at].rstrip(json_text.WHITESPACE).endswith(","):
            return last
        at = text.rfind('"id"', 0, at)
    return {}


def _read_beginning(head: bytes) -> dict[str, Json]:
    """Return the members up to the first object or array, which gets the value None."""
    members: dict[str, Json] = {}
    text = head.decode("utf-8", "surrogateescape").lstrip(json_text.WHITESPACE)
    at = 1
    try:
        while True:
            start = json_edit.skip_space(text, at)
            name, at = json_text.read_string(text, start)
            at = json_edit.skip_space(text, json_edit.skip_space(text, at) + 1)  # over the colon
            if text[at] in "{[":
                members[name] = None
                return members
            end = json_edit.skip_space(text, json_text.find_end(text, at))
            if text[end] not in ",}":
                return members  # the value is cut off here
            members[name] = json_text.read_value(text, at)
            at = end + 1
    except (ValueError, IndexError, StopIteration, SystemError, RecursionError):
        return members  # the beginning ends here
