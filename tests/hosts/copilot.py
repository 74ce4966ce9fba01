"""Copilot CLI as a host: its configuration, a single turn, and its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.acp import Agent
from hosts.workspace import make_entries

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

AGENT = ["--acp", "--allow-all-tools", "--no-auto-update"]


def say(tool: str, server: str = "probe") -> str:
    """Return the prompt for a call."""
    return f"call {server}-{tool} {{}}"


def configure_all(workspace: Workspace, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a configuration with several servers."""
    entries = make_entries(commands, type="local", tools=["*"])
    workspace.write(".copilot/mcp-config.json", {"mcpServers": entries})


def make_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment in which copilot accepts a fake model."""
    return workspace.environment(
        COPILOT_OFFLINE="true",
        COPILOT_PROVIDER_BASE_URL=f"http://127.0.0.1:{workspace.models.port}/v1",
        COPILOT_MODEL="stand-in",
        COPILOT_AUTO_UPDATE="false",
        COPILOT_ALLOW_ALL="true",
    )


def run(
    workspace: Workspace, project: str, words: str, **variables: str
) -> subprocess.Popen[bytes]:
    """Start `copilot -p` with a prompt."""
    options = ["--allow-all-tools", "--no-auto-update", "--output-format", "json", "-p", words]
    env = make_environment(workspace) | variables
    return workspace.start("copilot", *options, cwd=project, env=env)


def list_sessions(workspace: Workspace) -> list[str]:
    """Return the ids of all sessions, as copilot recorded them."""
    return [path.name for path in (workspace.home / ".copilot/session-state").glob("[!.]*")]


def read_trouble(workspace: Workspace, _project: str) -> str:
    """Return what it showed during the turn."""
    return workspace.read_output()


def open_agent(workspace: Workspace, cwd: str) -> Agent:
    """Start `copilot --acp` in a directory."""
    return Agent(workspace, "copilot", AGENT, make_environment(workspace), cwd)
