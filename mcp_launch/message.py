"""Look into a line: is it a message, what does it ask, who waits for an answer.

Everything here is about single lines of JSON-RPC, one message a line, as MCP's stdio
transport has them in both eras (`initialize`, to 2025-11-25; `server/discover`, 2026-07-28).
"""

from __future__ import annotations

from mcp_launch import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.errors import LaunchError
    from mcp_launch.jsontext import Json

# JSON-RPC's own code for a method that is not there, and the first of those left to servers.
METHOD_NOT_FOUND = -32601
SERVER_ERROR = -32000

# How much of the host's first words is kept while nobody has answered them.
_OPENING_LIMIT = 1 << 20


def make_error(request_id: Json, code: int, text: str) -> bytes:
    """Return an error answer as a line."""
    answer = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}
    return jsontext.encode(answer).encode() + b"\n"


def read_request(line: bytes) -> tuple[Json, str] | None:
    """Return id and method of a request; None for anything else."""
    try:
        message = jsontext.parse(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("id") is None:
        return None
    method = message.get("method")
    return (message["id"], method) if isinstance(method, str) else None


class Opening:
    """The first requests of a connection, and whether the server has answered them.

    Over when a request was answered, in any way, or `server/discover` with a result: from
    then on host and server understand each other without us.
    """

    __slots__ = ("_rest", "era", "is_over", "pending")

    def __init__(self) -> None:
        self.pending: dict[str, tuple[Json, str]] = {}  # by the id's JSON: 1 and "1" differ
        self.is_over = False
        self.era: str | None = None
        self._rest = b""

    def hear_host(self, data: bytes) -> None:
        """Note the requests in what the host said."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            request = read_request(line)
            if request is not None:
                self.pending[jsontext.encode(request[0])] = request
        # A host that opens with a megabyte and no newline is none that we could answer.
        self.is_over = self.is_over or len(self._rest) > _OPENING_LIMIT

    def leave_to(self, error: LaunchError) -> None:
        """Note in an error what is still to be answered, and the beginning of a line."""
        error.pending = list(self.pending.values())
        error.unfinished = self._rest

    def hear_server(self, message: Json) -> None:
        """Note the answer in what the server said."""
        if not isinstance(message, dict) or "method" in message or "id" not in message:
            return
        _, method = self.pending.pop(jsontext.encode(message["id"]), (None, ""))
        # A refused `server/discover` is followed by `initialize`; a host of the new era may
        # leave both out and just ask.
        if method and (method != "server/discover" or "result" in message):
            self.is_over = True
            self.era = method
