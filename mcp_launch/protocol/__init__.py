"""MCP as lines of JSON-RPC: reads them, edits them, and makes our own; no I/O.

MCP's stdio transport has one message per line in both eras (`initialize`, up to 2025-11-25;
`server/discover`, 2026-07-28). Parsed messages are plain dictionaries.
"""

from __future__ import annotations

from mcp_launch.protocol import json_text
from mcp_launch.protocol.message import look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json, Object


# JSON-RPC's own codes.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601

# Ours, outside the range that JSON-RPC and MCP reserve: the SDKs read -32000 as a closed
# connection, and Kimi Code then starts another launcher and repeats the call.
NOT_SERVED = -31000

# Requests of the 2026 era name their protocol version; their results need a `resultType`.
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"

# Names the stream that a message of the 2026 era belongs to, by the id of its request.
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


def look_message(line: bytes) -> Object:
    """Return a line as one message; empty if it is none."""
    said = look(line)
    return said if isinstance(said, dict) else {}


def get_member(message: Json, *names: str) -> Json:
    """Return the value at a path of names; None if there is none."""
    for name in names:
        if not isinstance(message, dict):
            return None
        message = message.get(name)
    return message


def make_error(request_id: bytes, code: int, text: str) -> bytes:
    """Return an error answer as a line; the id is written as in the request."""
    error = json_text.encode({"code": code, "message": text}).encode()
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (request_id or b"null", error)


def make_refusal(request_id: bytes, method: str, text: str, *, is_modern: bool = False) -> bytes:
    """Return our own answer to a request that no server will answer, as a line.

    A call gets a result with `isError`: hosts pass its text to the model and do not repeat
    the call, which some do after an error. Everything else gets an error.
    """
    if method != "tools/call":
        return make_error(request_id, NOT_SERVED, text)
    result: Object = {"content": [{"type": "text", "text": text}], "isError": True}
    if is_modern:
        result["resultType"] = "complete"
    return make_result(request_id, result)


def make_result(request_id: bytes, result: Object) -> bytes:
    """Return an answer as a line; the id is written as in the request."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (
        request_id,
        json_text.encode(result).encode(),
    )


def make_request(method: str, params: Object | None = None) -> bytes:
    """Return a request of our own as a line; its id is set when it is sent."""
    message: Object = {"jsonrpc": "2.0", "id": 0, "method": method}
    return encode(message | {"params": params} if params else message)


def make_notification(method: str, params: Object | None = None) -> bytes:
    """Return a notification as a line."""
    message: Object = {"jsonrpc": "2.0", "method": method}
    return encode(message | {"params": params} if params else message)


def encode(message: object) -> bytes:
    """Return a message as a line."""
    return json_text.encode(message).encode() + b"\n"
