"""opencode as a host: its configuration, a single turn, and its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.acp import Agent
from hosts.fake_models import LIMIT

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

AGENT = ["acp"]


def say(tool: str, server: str = "probe") -> str:
    """Return the prompt for a call."""
    return f"call {server}_{tool} {{}}"


def configure_all(workspace: Workspace, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a configuration with several servers."""
    entries = {
        name: {"type": "local", "command": list(command), "enabled": True}
        for name, command in commands.items()
    }
    model = {"name": "mock", "tool_call": True, "limit": {"context": 100000, "output": 8000}}
    url = f"http://127.0.0.1:{workspace.models.port}/v1"
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "stand-in",
        "options": {"baseURL": url, "apiKey": "none"},
        "models": {"stand-in": model},
    }
    settings = {
        "model": "stand-in/stand-in",
        "small_model": "stand-in/stand-in",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"stand-in": provider},
        "permission": {"*": "allow"},
        "mcp": entries,
    }
    workspace.write(".config/opencode/opencode.json", settings)


def make_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment in which opencode asks nobody but the fake model."""
    return workspace.environment(
        OPENCODE_DISABLE_AUTOUPDATE="1",
        OPENCODE_DISABLE_MODELS_FETCH="1",
        OPENCODE_DISABLE_LSP_DOWNLOAD="1",
        OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
    )


def run(
    workspace: Workspace, project: str, words: str, **variables: str
) -> subprocess.Popen[bytes]:
    """Start `opencode run` with a prompt."""
    options = ["run", "--format", "json", "--print-logs", words]
    env = make_environment(workspace) | variables
    return workspace.start("opencode", *options, cwd=project, env=env)


def list_sessions(workspace: Workspace) -> list[str]:
    """Return the ids of all sessions, as opencode printed them."""
    return workspace.list_printed(r'"sessionID":"(\w+)"')


def read_trouble(workspace: Workspace, project: str) -> str:
    """Return what `opencode mcp list` shows."""
    env = make_environment(workspace)
    workspace.start("opencode", "mcp", "list", cwd=project, env=env).wait(LIMIT)
    return workspace.read_output()


def open_agent(workspace: Workspace, cwd: str) -> Agent:
    """Start `opencode acp` in a directory."""
    return Agent(workspace, "opencode", AGENT, make_environment(workspace), cwd)
