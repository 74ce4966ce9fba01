"""Read and write single lines of JSON-RPC.

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

# Requests of the 2026 era name their protocol version; their results need a `resultType`.
_MODERN = b'"io.modelcontextprotocol/protocolVersion"'

# Some readers accept it, so it must not hide a call from us.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Most messages begin like this, with the id next …
_USUAL_BEGINNING = b'{"jsonrpc":"2.0","id":'
_ID_AT = len(_USUAL_BEGINNING)
_ID_DIGITS = 20
_ZERO = ord("0")
_USUAL_CALL = b',"method":"tools/call","params":{"_meta":{"'
_TO_META = len(_USUAL_CALL) - 2
_OUTCOMES = (b'"result"', b'"error"')
# … or have the id at the end, as the TypeScript SDK writes it.
_OUTCOME_FIRST = (b'{"result":', b'{"error":')
_ID_LAST = b',"id":'


def look(line: bytes) -> Json:
    """Return the JSON value of a line, usually a message or a batch; None if it is not JSON."""
    try:
        return json_text.parse(line.removeprefix(_BYTE_ORDER_MARK))
    except ValueError:
        return None
    except RecursionError:
        from mcp_launch.protocol import json_edit

        return json_edit.look_at_deep(line)


def spell(request_id: Json) -> bytes:
    """Return an id as bytes, such that 1 and "1" differ but 1 and 1.0 do not."""
    if request_id.__class__ is int:
        return b"%d" % request_id
    if isinstance(request_id, (dict, list)):
        return b""  # not a valid id
    if isinstance(request_id, float) and request_id.is_integer():
        return b"%d" % int(request_id)
    return json_text.encode(request_id).encode()


def has_stray_return(line: bytes) -> bool:
    """Return whether a carriage return is in the line anywhere but in its line ending."""
    return 0 <= line.find(b"\r") < len(line) - 2


def has_no_method(line: bytes) -> bool:
    """Return whether no reader can find a method in a line, neither spelled out nor escaped."""
    if b'"method"' in line or b"\\" in line:
        return False
    return b"method" not in _unify(line)


def may_hide_a_message(line: bytes) -> bool:
    """Return whether a more lenient reader may find a message in a line that we cannot parse.

    Python's `strip` removes more whitespace than JSON allows, and some readers accept comments
    or a trailing comma. But every message has a brace and the name of a member.
    """
    plain = _unify(line)
    return b"{" in plain and (b"method" in plain or b"\\u" in plain)


def _unify(line: bytes) -> bytes:
    """Return a line in lower case, without the zero bytes of UTF-16 and UTF-32."""
    # Python's `json` accepts both encodings.
    return line.replace(b"\0", b"").lower() if b"\0" in line else line.lower()


def read_answered(line: bytes) -> bytes:
    """Return the spelt id that a line answers, if it has the usual form of an answer.

    Empty for everything else, which has to be parsed. Of a long line, the first and last few
    hundred bytes are enough.
    """
    if not line.endswith(b"}\n"):
        return b""
    if line.startswith(_USUAL_BEGINNING):
        end = line.find(b",", _ID_AT)
        return line[_ID_AT:end] if line.startswith(_OUTCOMES, end + 1) else b""
    if line.startswith(_OUTCOME_FIRST):
        # The last brace closes the message, so the text before it is a member of the message.
        start = line.rfind(_ID_LAST) + len(_ID_LAST)
        return line[start:-2] if start >= len(_ID_LAST) else b""
    return b""


def find_usual_meta(line: bytes) -> int:
    """Return where the `_meta` of a call begins, if the line is one that Codex writes.

    0 for everything else, which has to be parsed.
    """
    end = line.find(b",", _ID_AT, _ID_AT + _ID_DIGITS)
    if end < 0 or not line.startswith(_USUAL_CALL, end) or not line.startswith(_USUAL_BEGINNING):
        return 0
    if line.find(b"\n") != len(line) - 1 or not line[_ID_AT:end].isdigit():
        return 0
    if line.find(b"\r") >= 0:
        return 0
    if line[_ID_AT] == _ZERO and end > _ID_AT + 1:
        return 0  # 007 is not a JSON number
    return end + _TO_META


def read_usual_meta(line: bytes, start: int) -> tuple[Message, int] | None:
    """Return the object at `start` and where it ends; None if it or the line is unusual."""
    try:
        value, end = json_text.scan(line.decode("ascii"), start)
    except (StopIteration, SystemError, ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def is_settled(line: bytes, end: int) -> bool:
    """Return whether the rest of a line after its `_meta` cannot change what was asked.

    Only a duplicate of one of these names could, in whatever case.
    """
    rest = line[end:].lower()
    return (
        rest.find(b'"_meta"') < 0
        and rest.find(b'"params"') < 0
        and rest.find(b'"method"') < 0
        and (rest.find(b"\\") < 0 or rest.find(b"\\u") < 0)
        and rest.isascii()  # some letters beyond ASCII have ASCII lower case
    )


def read_usual_id(line: bytes, start: int) -> bytes:
    """Return the spelt id of a usual call whose `_meta` begins at `start`."""
    return line[_ID_AT : start - _TO_META]


def is_request(message: Message) -> bool:
    """Return whether a message is a request, which needs an answer."""
    return "method" in message and message.get("id") is not None


def is_answer(message: Message) -> bool:
    """Return whether a message answers a request."""
    return "method" not in message and "id" in message


def get_member(message: Json, *names: str) -> Json:
    """Return the value at the end of a path of names; None if there is none."""
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
    if _MODERN in line:
        result["resultType"] = "complete"
    return make_result(request_id, result)


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
