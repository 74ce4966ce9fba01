"""Claude Code as a host: its configuration, and sessions without and with a terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hosts.terminal import Terminal
from hosts.workspace import make_entries

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

LOOK = "call mcp__probe__look {}"
PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"

_KEY = "sk-ant-this-is-no-key-0000000000000000"
TOOLS = "mcp__probe,mcp__asks,mcp__codex__codex"


def configure(workspace: Workspace, command: Sequence[str], *, server: str = "probe") -> None:
    """Write a configuration with one server, for the existing projects."""
    configure_all(workspace, {server: command})


def configure_all(workspace: Workspace, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a configuration with several servers, for the existing projects."""
    entries = make_entries(commands, type="stdio", env={})
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    settings: dict[str, Any] = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "numStartups": 5,
        "customApiKeyResponses": {"approved": [_KEY[-20:]], "rejected": []},
        "mcpServers": entries,
        "projects": dict.fromkeys(workspace.projects, trusted),
    }
    (workspace.home / ".claude.json").write_text(json.dumps(settings), encoding="utf-8")


def run(
    workspace: Workspace,
    project: str,
    *options: str,
    words: str = LOOK,
    before: Sequence[str] = (),
    **variables: str,
) -> subprocess.Popen[bytes]:
    """Start `claude -p` with a prompt."""
    command = ["-p", words, "--allowedTools", TOOLS, *options]
    environ = make_environment(workspace) | variables
    return workspace.start("claude", *command, before=before, cwd=project, env=environ)


def list_servers(workspace: Workspace, project: str) -> subprocess.Popen[bytes]:
    """Start `claude mcp list`, which starts every server."""
    return workspace.start("claude", "mcp", "list", cwd=project, env=make_environment(workspace))


def open_terminal(workspace: Workspace, project: str) -> Terminal:
    """Start claude in a terminal, and wait for its prompt."""
    words = ["--allowedTools", TOOLS]
    terminal = Terminal(workspace, "claude", *words, cwd=project, env=make_environment(workspace))
    terminal.wait_for(PROMPT)
    return terminal


def make_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment in which claude accepts a fake model."""
    return workspace.environment(
        ANTHROPIC_BASE_URL=f"http://127.0.0.1:{workspace.models.port}",
        ANTHROPIC_API_KEY=_KEY,
        ENABLE_TOOL_SEARCH="false",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_TELEMETRY="1",
        DISABLE_AUTOUPDATER="1",
        CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL="1",
        # No test depends on how long it waits for a server, and machines are busy.
        CLAUDE_CODE_MCP_STARTUP_WAIT_MS="30000",
    )
