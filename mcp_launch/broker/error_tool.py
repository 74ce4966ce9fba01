"""What a launch that failed answers in place of a server, with one tool that says why.

Most hosts show an error answer to `initialize`, and get one (`ending`). Some show only that the
server is not connected, and swallow the reason. They get a server whose only tool has the reason
as its description and as its result: so the model knows it, and the host lists the tool.
"""

from __future__ import annotations

from mcp_launch import __version__, protocol
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.memory import LISTS
from mcp_launch.protocol.requests import SUBSCRIPTION_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.errors import LaunchError
    from mcp_launch.protocol.json_text import Message

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
_NOT_TO_BE_KEPT: Message = {"ttlMs": 0, "cacheScope": "private"}


def answer_as_server(line: bytes, server: str, error: LaunchError, *, is_listed: bool) -> bytes:
    """Return the answer of a server whose only tool says why there is no other.

    If the tool is not listed, the host gets an error in its place, and calls of tools that it
    knows from before are still answered.
    """
    said = protocol.look_message(line)
    method = str(said["method"])
    result = _make_result(said, server, error)
    if result is None or (method == "tools/list" and not is_listed):
        text = describe(server, error.problem, error.fix)
        return protocol.make_refusal(line, f"[mcp-launch] {text}")
    if protocol.is_modern(line) or method == "server/discover":
        result["resultType"] = "complete"
        result |= {} if method == "ping" else _NOT_TO_BE_KEPT
    return protocol.make_result(json_edit.read_raw(line, "id"), result)


def _make_result(said: Message, server: str, error: LaunchError) -> Message | None:
    """Return the result of a request; None for a call, and for what such a server cannot do."""
    method = said["method"]
    short = describe(server, _cut(error.problem, _PROBLEM_LENGTH), _cut(error.fix, _FIX_LENGTH))
    about: Message = {"name": server or "mcp-launch", "version": __version__}
    greeting: Message = {"capabilities": {"tools": {}}, "instructions": short}
    if method == "initialize":
        asked = protocol.get_member(said, "params", "protocolVersion")
        version = asked if asked in _VERSIONS else _VERSIONS[0]
        return {"protocolVersion": version, "serverInfo": about, **greeting}
    if method == "server/discover":
        meta: Message = {"io.modelcontextprotocol/serverInfo": about}
        return {"supportedVersions": [_MODERN_VERSION], "_meta": meta, **greeting}
    if method == "tools/list":
        schema: Message = {"type": "object", "properties": {}}
        tool: Message = {
            "name": TOOL,
            "description": f"{short} {_SAME}",
            "inputSchema": schema,
            "annotations": {"title": "Why this server does not run", "readOnlyHint": True},
        }
        return {"tools": [tool]}
    if isinstance(method, str) and method in LISTS:
        return {LISTS[method]: []}
    return {} if method == "ping" else None


def describe(server: str, problem: str, fix: str) -> str:
    """Return for a model why there is no server, and what helps."""
    name = f"The MCP server `{server}`" if server else "This MCP server"
    return f"{name} could not be started: {_end(problem)} Fix: {_end(fix)} {_AGAIN}"


def _end(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!", "…")) else f"{sentence}."


def acknowledge(said: Message) -> bytes:
    """Return the confirmation of a stream that never announces anything."""
    meta: Message = {SUBSCRIPTION_ID: said["id"]}
    return protocol.make_notification(
        "notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": {}}
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
