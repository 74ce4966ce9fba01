"""The launch around this one: a host that is itself a server behind mcp-launch.

Claude Code starts Codex as a server, Codex starts ours. A host does not pass the `_meta` of
the call it serves on to the calls it makes, and Codex clears the environment; but its own
process still has the outer launch's id, and that launch's lease names the current session.
"""

from __future__ import annotations

import os

from mcp_launch import protocol, state
from mcp_launch.state import leases
from mcp_launch.system import list_ancestors
from mcp_launch.values import Stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable

# How many nested launches are followed.
_DEPTH = 8


class Outer:
    """Reads the outer launch's lease, and reads it again when it has changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stamp = Stamp()
        self._context: Json = None

    def read(self) -> Json:
        """Return its current context."""
        try:
            seen = os.stat(self.path)
        except OSError:
            return self._context
        if self._stamp.may_have_changed(seen):
            self._context = _read_context(self.path, _DEPTH)
        return self._context


def find(table: ProcessTable, host: int) -> Outer | None:
    """Return the launch that the host's process runs under, if there is one.

    It counts only if that launch's guardian is an ancestor of the host, because every
    process started below a launch inherits the variable.
    """
    launch = table.read_variable(host, "MCP_LAUNCH_ID")
    if not launch or "/" in launch:
        return None
    environ = {name: table.read_variable(host, name) or "" for name in ("HOME", "MCP_LAUNCH_HOME")}
    path = state.name_lease(environ, launch)
    record = leases.read(path) or {}
    guardian = protocol.get_member(record.get("processes"), "guardian", "pid")
    above = [process.identity.pid for process in list_ancestors(table, host)]
    return Outer(path) if guardian in above else None


def _read_context(path: str, depth: int) -> Json:
    record = leases.read(path)
    binding = record.get("binding") if record else None
    if record is None or not isinstance(binding, dict):
        return None
    context = leases.name_context(
        record.get("context"), record.get("launch"), binding.get("state"), binding.get("evidence")
    )
    outer = record.get("outer")
    if isinstance(outer, str) and depth:
        beyond = _read_context(outer, depth - 1)
        context |= {"outer": beyond} if beyond else {}
    return context
