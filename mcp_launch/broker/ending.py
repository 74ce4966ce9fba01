"""What answers when there is no server, and how a launch ends.

The stand-in is what a client has in place of a server that could not be started, is not started yet
again, or will never be: the failure is said in one place.

The end is one phase after the other; there is no way back.
"""

from __future__ import annotations

from mcp_launch import __version__, protocol
from mcp_launch.protocol.memory import LISTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mcp_launch.broker.request import Request
    from mcp_launch.errors import LaunchError
    from mcp_launch.protocol.json_text import Object

    Phase = Literal["serving", "ending", "failed", "finished"]

    # What the client gets: an error answer to everything, and then we leave; a server with one tool
    # that says why; one that lists nothing, and says so to each call; or an error for now, because
    # a later call tries again.
    Shown = Literal["error", "tool", "call", "later"]

# A server that ends is replaced; it is not replaced any more; there is none, and requests are
# answered with the reason; nothing is left to do.
PHASES: tuple[Phase, ...] = ("serving", "ending", "failed", "finished")

# How long to wait for the host's first request when there is no server to answer it. Hosts
# send it at once; a script that keeps our stdin open and sends nothing must not hang.
FIRST_REQUEST_GRACE = 3.0

# How long to wait after the answer for the host to close its end: closing a socket that
# holds unread data would discard our answer.
HANG_UP_GRACE = 1.0

# How long a server may take to exit after the end of its input, counted from its last sign of
# work. The specification asks for a wait but names no number; its SDKs wait this long.
INPUT_ENDED_GRACE = 2.0

# How long a server may keep answering after the end of its input, if the host still reads.
GRACE_LIMIT = 30.0

# When to exit after a signal, even if the guardian is still busy: Claude Code kills after
# 500 ms, and exiting before that keeps its log clean.
LEAVE_AFTER = 0.45

# How long to wait for the end of a server that has closed its stdin or stdout.
DYING = 0.5

# How long to wait before the next attempt after a server could not be started. Each failure
# doubles it, up to the limit.
_RETRY_AFTER = 1.0
_RETRY_LIMIT = 60.0

# The name of the tool: a model that reads only names should understand it.
TOOL = "mcp_launch_error"

# The protocol versions of the older era, the newest first; and the newer era's.
_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_MODERN_VERSION = "2026-07-28"

# How long a problem and its fix may be in a description, which every request to the model carries.
_PROBLEM_LENGTH = 600
_FIX_LENGTH = 300

# The reader is a model, to which "the host" alone means nothing.
_AGAIN = (
    "Once that is fixed, restart the host (the program that runs this session), or reconnect the "
    "server in it."
)
_SAME = "Calling this tool returns the same text."

# What hosts may do with an answer of the newer era: keep it for no time, for nobody else.
_NOT_TO_BE_KEPT: Object = {"ttlMs": 0, "cacheScope": "private"}


class Leaving:
    """How far the end of a launch has come."""

    __slots__ = (
        "failure",
        "grace_until",
        "host_is_lost",
        "is_out_of_time",
        "phase",
        "signalled",
        "unanswered",
    )

    def __init__(self) -> None:
        self.phase: Phase = "serving"
        self.failure: StandIn | None = None  # why there is no server, or will be none
        self.signalled = 0
        self.host_is_lost = False
        self.grace_until = 0.0  # when servers are ended whose input has ended; 0: it has not
        self.is_out_of_time = False  # a server did not end after its input had
        self.unanswered: set[str] = set()  # methods of requests that a server's end left open

    def enter(self, phase: Phase) -> None:
        """Go on to another phase; there is no way back."""
        if PHASES.index(phase) > PHASES.index(self.phase):
            self.phase = phase

    @property
    def is_serving(self) -> bool:
        """Whether a server that is needed is started."""
        return self.phase == "serving"

    @property
    def is_shown_as_tool(self) -> bool:
        """Whether the launch stays, with the reason why there is no server as a tool."""
        return self.failure is not None and self.failure.shown in {"tool", "call"}


class StandIn:
    """Answers in place of a server that there is not."""

    __slots__ = ("_server", "error", "failures", "retry_at", "shown")

    def __init__(
        self, server: str, error: LaunchError, shown: Shown, failures: int = 1, now: float = 0.0
    ) -> None:
        self._server = server
        self.error = error
        self.shown = shown
        self.failures = failures  # in a row
        self.retry_at = now + min(_RETRY_LIMIT, _RETRY_AFTER * 2.0 ** min(failures - 1, 6))

    def answer(self, request: Request, now: float) -> bytes:
        """Return the answer to a request, or the confirmation of a stream."""
        message, error = request.message, self.error
        is_modern = protocol.PROTOCOL_VERSION in message.meta
        if self.shown in {"tool", "call"}:
            return self._answer_as_server(request, is_modern=is_modern)
        if self.shown == "error" and message.method == "server/discover":
            # With any other error, the host would take us for a server of the new era.
            return protocol.make_error(message.id, protocol.METHOD_NOT_FOUND, "Method not found")
        text = f"[mcp-launch] {error.problem} — fix: {error.fix}"
        if self.shown == "later":
            wait = max(1.0, self.retry_at - now)
            text += f"; after that, call again (a call in {wait:.0f} s or later starts it again)"
        return protocol.make_refusal(message.id, message.method, text, is_modern=is_modern)

    def _answer_as_server(self, request: Request, *, is_modern: bool) -> bytes:
        message = request.message
        if request.is_stream:  # it stays open, and is never answered
            meta: Object = {protocol.SUBSCRIPTION_ID: message.parse()["id"]}
            return protocol.make_notification(
                "notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": {}}
            )
        result = self._make_result(message.method, message.params)
        # If the tool is not listed, calls of tools that the host knows from before are answered.
        if result is None or (message.method == "tools/list" and self.shown == "call"):
            text = f"[mcp-launch] {self._describe(self.error.problem, self.error.fix)}"
            return protocol.make_refusal(message.id, message.method, text, is_modern=is_modern)
        if is_modern or message.method == "server/discover":
            result["resultType"] = "complete"
            result |= {} if message.method == "ping" else _NOT_TO_BE_KEPT
        return protocol.make_result(message.id, result)

    def _make_result(self, method: str, params: Object) -> Object | None:
        """Return a result; None for a call, and for what such a server cannot do."""
        error = self.error
        short = self._describe(_cut(error.problem, _PROBLEM_LENGTH), _cut(error.fix, _FIX_LENGTH))
        about: Object = {"name": self._server or "mcp-launch", "version": __version__}
        greeting: Object = {"capabilities": {"tools": {}}, "instructions": short}
        if method == "initialize":
            asked = params.get("protocolVersion")
            version = asked if asked in _VERSIONS else _VERSIONS[0]
            return {"protocolVersion": version, "serverInfo": about, **greeting}
        if method == "server/discover":
            meta: Object = {"io.modelcontextprotocol/serverInfo": about}
            return {"supportedVersions": [_MODERN_VERSION], "_meta": meta, **greeting}
        if method == "tools/list":
            schema: Object = {"type": "object", "properties": {}}
            tool: Object = {
                "name": TOOL,
                "description": f"{short} {_SAME}",
                "inputSchema": schema,
                "annotations": {"title": "Why this server does not run", "readOnlyHint": True},
            }
            return {"tools": [tool]}
        if method in LISTS:
            return {LISTS[method]: []}
        return {} if method == "ping" else None

    def _describe(self, problem: str, fix: str) -> str:
        """Return for a model why there is no server, and what helps."""
        name = f"The MCP server `{self._server}`" if self._server else "This MCP server"
        return f"{name} could not be started: {_end(problem)} Fix: {_end(fix)} {_AGAIN}"


def _end(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!", "…")) else f"{sentence}."


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
