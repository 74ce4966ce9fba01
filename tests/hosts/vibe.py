"""Mistral Vibe as a host: its configuration, a single turn, and its agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hosts.acp import Agent

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace


def say(tool: str, server: str = "probe") -> str:
    """Return the prompt for a call: its model writes programs that call tools."""
    program = f"async function main() {{ return await tools.mcp_{server}.{tool}({{}}); }}"
    return "call run_typescript " + json.dumps({"code": program})


def configure_all(workspace: Workspace, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a configuration with several servers."""
    lines = [
        'active_model = "stand-in"',
        "enable_telemetry = false",
        "enable_update_checks = false",
        "enable_auto_update = false",
        "[[providers]]",
        'name = "stand-in"',
        f'api_base = "http://127.0.0.1:{workspace.models.port}/v1"',
        'api_key_env_var = "MISTRAL_API_KEY"',
        'api_style = "openai"',
        'backend = "generic"',
        "[[models]]",
        'name = "stand-in"',
        'provider = "stand-in"',
        'alias = "stand-in"',
    ]
    for name, command in commands.items():
        lines += [
            "[[mcp_servers]]",
            f'name = "{name}"',
            'transport = "stdio"',
            # Strings and lists in JSON are also valid TOML.
            f"command = {json.dumps(command[0])}",
            f"args = {json.dumps(command[1:])}",
        ]
    workspace.write(".vibe/config.toml", "\n".join(lines) + "\n")


def make_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment in which vibe accepts a fake model."""
    return workspace.environment(MISTRAL_API_KEY="none")


def run(
    workspace: Workspace, project: str, words: str, **variables: str
) -> subprocess.Popen[bytes]:
    """Start `vibe -p` with a prompt."""
    env = make_environment(workspace) | variables
    options = ["--auto-approve", "--trust", "--output", "streaming", "-p", words]
    return workspace.start("vibe", *options, cwd=project, env=env)


def list_sessions(workspace: Workspace) -> list[str]:
    """Return the ids of all sessions, as vibe recorded them."""
    return [path.name for path in (workspace.home / ".vibe/logs/session/unified").iterdir()]


def open_agent(workspace: Workspace, cwd: str) -> Agent:
    """Start `vibe-acp` in a directory."""
    return Agent(workspace, "vibe-acp", [], make_environment(workspace), cwd)
