"""Kimi Code as a host: its configuration, a single turn, and its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.acp import Agent
from hosts.workspace import make_entries

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

AGENT = ["acp"]


def say(tool: str, server: str = "probe") -> str:
    """Return the prompt for a call."""
    return f"call mcp__{server}__{tool} {{}}"


def configure_all(workspace: Workspace, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a configuration with several servers."""
    lines = [
        'default_model = "stand-in"',
        "telemetry = false",
        "[providers.stand-in]",
        'type = "openai"',
        f'base_url = "http://127.0.0.1:{workspace.models.port}/v1"',
        'api_key = "none"',
        "[models.stand-in]",
        'provider = "stand-in"',
        'model = "stand-in"',
        "max_context_size = 100000",
        'capabilities = ["tool_use"]',
    ]
    workspace.write(".kimi-code/config.toml", "\n".join(lines) + "\n")
    workspace.write(".kimi-code/mcp.json", {"mcpServers": make_entries(commands)})


def make_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment in which kimi asks nobody but the fake model."""
    return workspace.environment_with_node(KIMI_DISABLE_TELEMETRY="1", KIMI_CODE_NO_AUTO_UPDATE="1")


def run(
    workspace: Workspace, project: str, words: str, **variables: str
) -> subprocess.Popen[bytes]:
    """Start `kimi -p` with a prompt."""
    env = make_environment(workspace) | variables
    options = ["--output-format", "stream-json", "-p", words]
    return workspace.start("kimi", *options, cwd=project, env=env)


def list_sessions(workspace: Workspace) -> list[str]:
    """Return the ids of all sessions, as kimi recorded them."""
    found = (workspace.home / ".kimi-code/sessions").glob("wd_*/session_*")
    return [path.name for path in found]


def read_trouble(workspace: Workspace, _project: str) -> str:
    """Return its log, which says what `/mcp` shows in a terminal."""
    return (workspace.home / ".kimi-code/logs/kimi-code.log").read_text(encoding="utf-8")


def open_agent(workspace: Workspace, cwd: str) -> Agent:
    """Start `kimi acp` in a directory."""
    return Agent(workspace, "kimi", AGENT, make_environment(workspace), cwd)
