"""Look into a line: is it a message, what does it ask, who waits for an answer.

Everything here is about single lines of JSON-RPC, one message a line, as MCP's stdio
transport has them in both eras (`initialize`, to 2025-11-25; `server/discover`, 2026-07-28).
A message is looked at as the dictionary that it is.
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

# Ours. Outside of what JSON-RPC and MCP reserve: the SDKs take -32000 for a closed connection,
# and Kimi Code then starts another launcher and repeats the call.
NOT_SERVED = -31000

# Requests of the 2026 era name their protocol version, and their results say that they are whole.
_MODERN = b'"io.modelcontextprotocol/protocolVersion"'

# Some readers take it, so it must not hide a call.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# How most messages begin: the id follows …
_USUAL_BEGINNING = b'{"jsonrpc":"2.0","id":'
_ID_AT = len(_USUAL_BEGINNING)
_ID_DIGITS = 20
_ZERO = ord("0")
_USUAL_CALL = b',"method":"tools/call","params":{"_meta":{"'
_TO_META = len(_USUAL_CALL) - 2
_OUTCOMES = (b'"result"', b'"error"')
# … or ends, as the TypeScript SDK writes it.
_OUTCOME_FIRST = (b'{"result":', b'{"error":')
_ID_LAST = b',"id":'


def look(line: bytes) -> Json:
    """Return what a line holds: a message, a batch of them, or None for what is neither."""
    try:
        return json_text.parse(line.removeprefix(_BYTE_ORDER_MARK))
    except ValueError:
        return None
    except RecursionError:
        from mcp_launch.protocol import json_edit

        return json_edit.look_at_deep(line)


def spell(request_id: Json) -> bytes:
    """Return an id as bytes, so that 1 and "1" differ, but 1 and 1.0 do not."""
    if request_id.__class__ is int:
        return b"%d" % request_id
    if isinstance(request_id, (dict, list)):
        return b""  # no id at all
    if isinstance(request_id, float) and request_id.is_integer():
        return b"%d" % int(request_id)
    return json_text.encode(request_id).encode()


def has_stray_return(line: bytes) -> bool:
    """Tell whether there is a carriage return in the line, and not only before its end."""
    return 0 <= line.find(b"\r") < len(line) - 2


def has_no_method(line: bytes) -> bool:
    """Tell whether no reader finds a method in a line: neither spelled out nor escaped."""
    if b'"method"' in line or b"\\" in line:
        return False
    return b"method" not in _unify(line)


def may_hide_a_message(line: bytes) -> bool:
    """Tell whether a more lenient reader may find a message in what we cannot read.

    Python's `strip` takes more for a space than JSON does, and some readers allow comments
    or a trailing comma. No reader finds one without a brace and the name of a member.
    """
    plain = _unify(line)
    return b"{" in plain and (b"method" in plain or b"\\u" in plain)


def _unify(line: bytes) -> bytes:
    """Return a line in small letters, and without what UTF-16 and UTF-32 put between them."""
    # Python's own reader takes both encodings.
    return line.replace(b"\0", b"").lower() if b"\0" in line else line.lower()


def read_answered(line: bytes) -> bytes:
    """Return the spelt id that a line answers, if it is written as answers usually are.

    Nothing for everything else: then a real look is needed. A line may be long: its first
    and its last few hundred bytes are enough.
    """
    if not line.endswith(b"}\n"):
        return b""
    if line.startswith(_USUAL_BEGINNING):
        end = line.find(b",", _ID_AT)
        return line[_ID_AT:end] if line.startswith(_OUTCOMES, end + 1) else b""
    if line.startswith(_OUTCOME_FIRST):
        # The last brace closes the message, so what stands before it is a member of it.
        start = line.rfind(_ID_LAST) + len(_ID_LAST)
        return line[start:-2] if start >= len(_ID_LAST) else b""
    return b""


def find_usual_meta(line: bytes) -> int:
    """Return where the `_meta` of a call begins, if this is one line as Codex writes it.

    0 for everything else: then a real look is needed.
    """
    end = line.find(b",", _ID_AT, _ID_AT + _ID_DIGITS)
    if end < 0 or not line.startswith(_USUAL_CALL, end) or not line.startswith(_USUAL_BEGINNING):
        return 0
    if line.find(b"\n") != len(line) - 1 or not line[_ID_AT:end].isdigit():
        return 0
    if line.find(b"\r") >= 0:
        return 0
    if line[_ID_AT] == _ZERO and end > _ID_AT + 1:
        return 0  # 007 is no number
    return end + _TO_META


def read_usual_meta(line: bytes, start: int) -> tuple[Message, int] | None:
    """Return the object that begins there, and where it ends, in a line that is all ASCII."""
    try:
        value, end = json_text.scan(line.decode("ascii"), start)
    except (StopIteration, SystemError, ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def is_settled(line: bytes, end: int) -> bool:
    """Tell whether what stands behind a usual `_meta` leaves what was asked as it is.

    It could change that only by saying one of these names again, in whatever letters.
    """
    rest = line[end:].lower()
    return (
        rest.find(b'"_meta"') < 0
        and rest.find(b'"params"') < 0
        and rest.find(b'"method"') < 0
        and (rest.find(b"\\") < 0 or rest.find(b"\\u") < 0)
        and rest.isascii()  # some letters beyond ASCII are another's capitals
    )


def read_usual_id(line: bytes, start: int) -> bytes:
    """Return the spelt id of a usual call whose `_meta` begins there."""
    return line[_ID_AT : start - _TO_META]


def is_request(message: Message) -> bool:
    """Tell whether somebody waits for an answer to it."""
    return "method" in message and message.get("id") is not None


def is_answer(message: Message) -> bool:
    """Tell whether it answers a request."""
    return "method" not in message and "id" in message


def get_member(message: Json, *names: str) -> Json:
    """Return what stands at the end of a path of names, None where it leads nowhere."""
    for name in names:
        if not isinstance(message, dict):
            return None
        message = message.get(name)
    return message


def make_error(request_id: bytes, code: int, text: str) -> bytes:
    """Return an error answer as a line; the id is as it was written in the request."""
    error = encode({"code": code, "message": text})[:-1]
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (request_id or b"null", error)


def make_refusal(line: bytes, text: str) -> bytes:
    """Return our own answer to a request that no server answers, as a line.

    A call gets a result that says it failed: hosts hand its text to the model and none
    repeats the call, which some do after an error. Everything else gets an error.
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
    """Return an answer as a line; the id is as it was written in the request."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (request_id, encode(result)[:-1])


def make_request(request_id: str, method: str) -> bytes:
    """Return a request of our own as a line."""
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method})


def make_notification(method: str, params: dict[str, Json] | None = None) -> bytes:
    """Return a notification as a line."""
    told: Message = {"jsonrpc": "2.0", "method": method}
    return encode(told | {"params": params} if params else told)


def encode(message: object) -> bytes:
    """Return a message as a line."""
    return json_text.encode(message).encode() + b"\n"


def read_request(line: bytes) -> tuple[Json, str] | None:
    """Return id and method of a request; None for anything else."""
    message = look(line)
    if not isinstance(message, dict) or not is_request(message):
        return None
    method = message["method"]
    return (message["id"], method) if isinstance(method, str) else None
