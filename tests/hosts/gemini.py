"""Gemini CLI as a host: its configuration, a single turn, and its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosts.acp import Agent
from hosts.workspace import make_entries

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

OPTIONS = ["-m", "gemini-2.5-flash", "--approval-mode", "yolo"]
AGENT = ["--acp", *OPTIONS]


def say(tool: str, server: str = "probe") -> str:
    """Return the prompt for a call."""
    return f"call mcp_{server}_{tool} {{}}"


def configure_all(workspace: Workspace, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a configuration with several servers."""
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "mcpServers": make_entries(commands),
    }
    workspace.write(".gemini/settings.json", settings)


def make_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment in which gemini accepts a fake model."""
    return workspace.environment_with_node(
        GEMINI_API_KEY="none",
        GOOGLE_GEMINI_BASE_URL=f"http://127.0.0.1:{workspace.models.port}",
        GEMINI_CLI_TRUST_WORKSPACE="true",
    )


def run(
    workspace: Workspace, project: str, words: str, **variables: str
) -> subprocess.Popen[bytes]:
    """Start `gemini -p` with a prompt."""
    env = make_environment(workspace) | variables
    options = [*OPTIONS, "-o", "stream-json", "-p", words]
    return workspace.start("gemini", *options, cwd=project, env=env)


def list_sessions(workspace: Workspace) -> list[str]:
    """Return the ids of all sessions, as gemini printed them."""
    return workspace.list_printed(r'"session_id": ?"([0-9a-f-]{36})"')


def open_agent(workspace: Workspace, cwd: str) -> Agent:
    """Start `gemini --acp` in a directory."""
    # Otherwise it starts itself again with more memory, and what it started ignores its end.
    env = make_environment(workspace) | {"GEMINI_CLI_NO_RELAUNCH": "true"}
    return Agent(workspace, "gemini", AGENT, env, cwd)
