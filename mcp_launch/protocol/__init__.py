"""Reads and writes single lines of JSON-RPC.

MCP's stdio transport has one message per line in both eras (`initialize`, up to 2025-11-25;
`server/discover`, 2026-07-28). Messages are plain dictionaries.
"""

from __future__ import annotations

from mcp_launch.protocol import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json, Message


# JSON-RPC's own codes.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601

# Ours, outside the range that JSON-RPC and MCP reserve: the SDKs read -32000 as a closed
# connection, and Kimi Code then starts another launcher and repeats the call.
NOT_SERVED = -31000

# What is kept of a long request's `_meta`, if it is short.
_KEPT_OF_META = ("progressToken", "io.modelcontextprotocol/protocolVersion")

# Requests of the 2026 era name their protocol version; their results need a `resultType`.
_MODERN = b'"io.modelcontextprotocol/protocolVersion"'

# Some readers accept it, so it must not hide a call from us.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Most messages begin like this, followed by the id …
USUAL_BEGINNING = b'{"jsonrpc":"2.0","id":'
ID_AT = len(USUAL_BEGINNING)
# … also with spaces, as Python's `json` writes them …
_USUAL_ANSWERS = (
    (USUAL_BEGINNING, (b'"result"', b'"error"')),
    (b'{"jsonrpc": "2.0", "id": ', (b' "result"', b' "error"')),
)
# … or have the id at the end, as the TypeScript SDK writes it.
_OUTCOME_FIRST = (b'{"result":', b'{"error":')
_ID_LAST = b',"id":'

# A line longer than one read is checked without its long strings.
LONG_LINE = 1 << 16
_LONG_STRING = 1 << 14

# How many strings to look at: a line of many short ones would not become much shorter.
_STRINGS_LIMIT = 1 << 16

# How many bytes before a quote to check for backslashes first; nearly always enough.
_ESCAPES = 64
_BACKSLASH = ord("\\")

# The members of a message. Go's reader ignores how they are capitalised.
_MEMBERS = {"jsonrpc", "id", "method", "params", "result", "error"}

# The parameters of most requests; comparing the sets is faster than checking each name.
_USUAL_PARAMETERS = {"_meta", "name", "arguments", "uri", "cursor"}


def look(line: bytes) -> Json:
    """Return the JSON value of a line, usually a message; None if it is not JSON."""
    try:
        return json_text.parse(line.removeprefix(_BYTE_ORDER_MARK))
    except ValueError:
        return None
    except RecursionError:
        from mcp_launch.protocol import json_edit

        return json_edit.look_at_deep(line)


def look_message(line: bytes) -> Message:
    """Return a line as one message; empty if it is none."""
    said = look(line)
    return said if isinstance(said, dict) else {}


class LongLine(bytes):
    """A long call with a mark in place of each long string, so that it is cheap to check.

    A mark is a number between zero bytes, which no valid JSON contains.
    """

    strings: list[memoryview]

    @property
    def whole_length(self) -> int:
        """The length with the strings."""
        return len(self) + sum(map(len, self.strings))

    def restore(self, line: bytes) -> bytes:
        """Return a line made from this one, with the strings put back."""
        parts: list[bytes | memoryview] = [*line.split(b"\0")]
        parts[1::2] = [self.strings[int(number)] for number in parts[1::2]]
        return b"".join(parts)


def shorten(line: bytes) -> bytes:
    """Return a call as a `LongLine`, if it has long strings and none where we read."""
    strings: list[memoryview] = []
    parts: list[bytes] = []
    done = end = -1
    view = memoryview(line)
    for _ in range(_STRINGS_LIMIT):
        start = line.find(b'"', end + 1)
        end = _find_closing_quote(line, start + 1)
        if start < 0 or end < 0:
            break
        if end - start > _LONG_STRING:
            parts += [line[done + 1 : start + 1], b"\0%d\0" % len(strings)]
            strings.append(view[start + 1 : end])
            done = end - 1
    if not strings or b"\0" in line:
        return line
    from mcp_launch.protocol import json_edit

    short = LongLine(b"".join((*parts, view[done + 1 :])))

    said = look(short)
    if get_member(said, "method") != "tools/call" or get_member(said, "id") is None:
        return line
    read = json_edit.read_raw(short, "id") + json_edit.read_raw(short, "params", "_meta")
    short.strings = strings
    return line if b"\0" in read else short


def condense(line: bytes, said: Message) -> bytes:
    """Return the part of a request that we need to refuse it; the rest cannot be restored."""
    from mcp_launch.protocol import json_edit

    # The two ends are searched first: to walk through a long line takes time.
    written = b'"id":%b,' % spell(said["id"])
    is_plain = said["id"].__class__ is int and (written in line[:512] or written in line[-512:])
    raw_id = written[5:-1] if is_plain else json_edit.read_raw(line, "id")
    kept = {name: get_member(said, "params", "_meta", name) for name in _KEPT_OF_META}
    meta: Message = {k: one for k, one in kept.items() if isinstance(one, (str, int, float))}
    params: Message = {"_meta": meta, "\0": 0}
    text = json_text.encode({"method": said["method"], "params": params})
    return b'{"jsonrpc":"2.0","id":%b,%b\n' % (raw_id, text[1:].encode().replace(b"\\u0000", b"\0"))


def restore(short: bytes, sent: bytes) -> bytes:
    """Return a request as the host wrote it, from its kept form and the line that was sent.

    Empty if that is not possible.
    """
    if b"\0" not in short:
        return short
    strings = getattr(shorten(sent), "strings", [])
    line = LongLine(short)
    line.strings = strings
    return line.restore(short) if len(strings) * 2 == short.count(b"\0") else b""


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


def spell(request_id: Json) -> bytes:
    """Return an id as bytes, such that 1 and "1" differ but 1 and 1.0 do not."""
    if request_id.__class__ is int:
        return b"%d" % request_id
    if isinstance(request_id, (dict, list)):
        return b""  # not a valid id
    if isinstance(request_id, float) and request_id.is_integer():
        return b"%d" % int(request_id)
    return json_text.encode(request_id).encode()


def read_id(message: Message) -> bytes | None:
    """Return the id of a message, as `spell` writes it; None if it has none."""
    request_id = message.get("id")
    return None if request_id is None else spell(request_id)


def is_ambiguous(message: Message) -> bool:
    """Return whether a lenient server may read a member that we ignore for its capitalisation."""
    if not message.keys() <= _MEMBERS and any(
        name not in _MEMBERS and name.casefold() in _MEMBERS for name in message
    ):
        return True
    params = message.get("params")
    if not isinstance(params, dict) or params.keys() <= _USUAL_PARAMETERS:
        return False
    return any(name != "_meta" and name.casefold() == "_meta" for name in params)


def has_stray_return(line: bytes) -> bool:
    """Return whether a carriage return is in the line anywhere but in its line ending."""
    return 0 <= line.find(b"\r") < len(line) - 2


def has_no_method(line: bytes) -> bool:
    """Return whether no reader can find a method in a line, neither spelled out nor escaped."""
    if b'"method"' in line or b"\\" in line:
        return False
    return b"method" not in _simplify(line)


def may_hide_a_message(line: bytes) -> bool:
    """Return whether a more lenient reader may find a message in a line that we cannot parse.

    Python's `strip` removes more whitespace than JSON allows, and some readers accept comments
    or a trailing comma. But every message has a brace and the name of a member.
    """
    plain = _simplify(line)
    return b"{" in plain and (b"method" in plain or b"\\u" in plain)


def _simplify(line: bytes) -> bytes:
    """Return a line in lower case, without the zero bytes of UTF-16 and UTF-32."""
    # Python's `json` accepts both encodings.
    return line.replace(b"\0", b"").lower() if b"\0" in line else line.lower()


def read_answered(line: bytes) -> bytes:
    """Return the spelt id that a line answers, if it has the usual form of an answer.

    Empty for everything else, which has to be parsed.
    """
    for beginning, outcomes in _USUAL_ANSWERS:
        if line.startswith(beginning):
            start = len(beginning)
            end = line.find(b",", start)
            is_usual = line.startswith(outcomes, end + 1) and line.endswith(b"}\n")
            return line[start:end] if is_usual else b""
    if line.startswith(_OUTCOME_FIRST) and line.endswith(b"}\n"):
        # The last brace closes the message, so the text before it is a member of the message.
        start = line.rfind(_ID_LAST) + len(_ID_LAST)
        return line[start:-2] if start >= len(_ID_LAST) else b""
    return b""


def is_request(message: Message) -> bool:
    """Return whether a message is a request, which needs an answer."""
    return isinstance(message.get("method"), str) and message.get("id") is not None


def is_answer(message: Message) -> bool:
    """Return whether a message answers a request."""
    return "method" not in message and "id" in message


def get_member(message: Json, *names: str) -> Json:
    """Return the value at a path of names; None if there is none."""
    for name in names:
        if not isinstance(message, dict):
            return None
        message = message.get(name)
    return message


def make_error(request_id: bytes, code: int, text: str) -> bytes:
    """Return an error answer as a line; the id is written as in the request."""
    error = encode({"code": code, "message": text})[:-1]
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (request_id or b"null", error)


def make_refusal(line: bytes, text: str) -> bytes:
    """Return our own answer to a request that no server will answer, as a line.

    A call gets a result with `isError`: hosts pass its text to the model and do not repeat
    the call, which some do after an error. Everything else gets an error.
    """
    from mcp_launch.protocol import json_edit

    request_id = json_edit.read_raw(line, "id")
    if get_member(look(line), "method") != "tools/call":
        return make_error(request_id, NOT_SERVED, text)
    result: Message = {"content": [{"type": "text", "text": text}], "isError": True}
    if is_modern(line):
        result["resultType"] = "complete"
    return make_result(request_id, result)


def is_modern(line: bytes) -> bool:
    """Return whether a request is of the 2026 era."""
    return _MODERN in line


def make_result(request_id: bytes, result: Message) -> bytes:
    """Return an answer as a line; the id is written as in the request."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (request_id, encode(result)[:-1])


def make_request(request_id: str, method: str) -> bytes:
    """Return a request of our own as a line."""
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method})


def make_notification(method: str, params: dict[str, Json] | None = None) -> bytes:
    """Return a notification as a line."""
    message: Message = {"jsonrpc": "2.0", "method": method}
    return encode(message | {"params": params} if params else message)


def encode(message: object) -> bytes:
    """Return a message as a line."""
    return json_text.encode(message).encode() + b"\n"


def read_request(line: bytes) -> tuple[Json, str] | None:
    """Return the id and method of a request; None for anything else."""
    message = look(line)
    if not isinstance(message, dict) or not is_request(message):
        return None
    method = message["method"]
    return (message["id"], method) if isinstance(method, str) else None


def read_key(line: bytes) -> bytes | None:
    """Return the id of a request, as `spell` writes it; None for anything else."""
    request = read_request(line)
    return spell(request[0]) if request is not None else None
