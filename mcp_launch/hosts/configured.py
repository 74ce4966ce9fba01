"""The hosts whose configuration we know, in the order in which they are shown."""

from __future__ import annotations

from mcp_launch.hosts.claude.config import CONFIG as CLAUDE
from mcp_launch.hosts.codex.config import CONFIG as CODEX
from mcp_launch.hosts.goose.config import CONFIG as GOOSE
from mcp_launch.hosts.simple import SIMPLE
from mcp_launch.hosts.vscode.config import CONFIG as VSCODE

_ORDER = (
    *("codex", "claude", "claude-desktop", "cursor", "vscode", "gemini", "opencode"),
    *("zed", "windsurf", "cline", "copilot", "goose"),
)

_KNOWN = {config.name: config for config in (CLAUDE, CODEX, GOOSE, VSCODE, *SIMPLE)}

HOSTS = {name: _KNOWN[name] for name in (*_ORDER, *sorted(_KNOWN.keys() - set(_ORDER)))}

# The host whose entries an unknown file probably has, by its format.
WRITTEN_IN = {"yaml": GOOSE}
