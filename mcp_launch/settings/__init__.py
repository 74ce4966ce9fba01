"""The hosts whose configuration we know, in the order in which they are shown."""

from __future__ import annotations

from mcp_launch.settings import (
    claude,
    claude_desktop,
    cline,
    codex,
    copilot,
    cursor,
    gemini,
    goose,
    opencode,
    vscode,
    windsurf,
    zed,
)

HOSTS = {
    module.HOST.name: module.HOST
    for module in (
        codex,
        claude,
        claude_desktop,
        cursor,
        vscode,
        gemini,
        opencode,
        zed,
        windsurf,
        cline,
        copilot,
        goose,
    )
}
