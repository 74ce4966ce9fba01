"""Qwen Code as a host: its configuration, a single turn, and its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosts.acp import Agent
from hosts.workspace import make_entries

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

OPTIONS = ["--auth-type", "openai", "--approval-mode", "yolo"]
AGENT = ["--acp", *OPTIONS]


def say(tool: str, server: str = "probe") -> str:
    """Return the prompt for a call."""
    return f"call mcp__{server}__{tool} {{}}"


def configure_all(workspace: Workspace, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a configuration with several servers."""
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        # Otherwise it shows the model no tool until the model searches for it.
        "tools": {"toolSearch": {"enabled": False}},
        "mcpServers": make_entries(commands),
    }
    workspace.write(".qwen/settings.json", settings)


def make_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment in which qwen accepts a fake model."""
    return workspace.environment_with_node(
        OPENAI_API_KEY="none",
        OPENAI_BASE_URL=f"http://127.0.0.1:{workspace.models.port}/v1",
        OPENAI_MODEL="stand-in",
    )


def run(
    workspace: Workspace, project: str, words: str, **variables: str
) -> subprocess.Popen[bytes]:
    """Start `qwen -p` with a prompt."""
    env = make_environment(workspace) | variables
    options = [*OPTIONS, "-o", "stream-json", "-p", words]
    return workspace.start("qwen", *options, cwd=project, env=env)


def list_sessions(workspace: Workspace) -> list[str]:
    """Return the ids of all sessions, as qwen printed them."""
    return workspace.list_printed(r'"session_id": ?"([0-9a-f-]{36})"')


def open_agent(workspace: Workspace, cwd: str) -> Agent:
    """Start `qwen --acp` in a directory."""
    return Agent(workspace, "qwen", AGENT, make_environment(workspace), cwd)
