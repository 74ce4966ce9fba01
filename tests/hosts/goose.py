"""Goose as a host: its configuration, a single turn, and its agent."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING

from hosts.acp import Agent

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

AGENT = ["acp"]


def say(tool: str, server: str = "probe") -> str:
    """Return the prompt for a call."""
    return f"call {server}__{tool} {{}}"


def configure_all(workspace: Workspace, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a configuration with several servers."""
    extensions = {
        name: {
            "enabled": True,
            "type": "stdio",
            "name": name,
            "description": name,
            "cmd": command[0],
            "args": list(command[1:]),
            "timeout": 60,
        }
        for name, command in commands.items()
    }
    # JSON is also valid YAML.
    workspace.write(".config/goose/config.yaml", json.dumps({"extensions": extensions}))


def make_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment in which goose accepts a fake model."""
    return workspace.environment(
        GOOSE_PROVIDER="openai",
        GOOSE_MODEL="gpt-4o",
        OPENAI_HOST=f"http://127.0.0.1:{workspace.models.port}",
        OPENAI_BASE_PATH="v1/chat/completions",
        OPENAI_API_KEY="none",
        GOOSE_DISABLE_KEYRING="1",
        GOOSE_MODE="auto",
        GOOSE_TELEMETRY_ENABLED="false",
    )


def run(
    workspace: Workspace, project: str, words: str, **variables: str
) -> subprocess.Popen[bytes]:
    """Start `goose run` with a prompt."""
    env = make_environment(workspace) | variables
    return workspace.start("goose", "run", "-t", words, cwd=project, env=env)


def list_sessions(workspace: Workspace) -> list[str]:
    """Return the ids of all sessions, as goose recorded them."""
    path = workspace.home / ".local/share/goose/sessions/sessions.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        return [row[0] for row in database.execute("select id from sessions")]


def read_trouble(workspace: Workspace, _project: str) -> str:
    """Return what it showed during the turn."""
    return workspace.read_output()


def open_agent(workspace: Workspace, cwd: str) -> Agent:
    """Start `goose acp` in a directory."""
    return Agent(workspace, "goose", AGENT, make_environment(workspace), cwd)
