"""Cline CLI as a host: its configuration, a single turn, and its hub."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

from hosts.workspace import find_free_port, make_entries

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

_PROVIDER = "openai-compatible"


def say(tool: str, server: str = "probe") -> str:
    """Return the prompt for a call."""
    return f"call {server}__{tool} {{}}"


def configure_all(workspace: Workspace, commands: Mapping[str, Sequence[str]]) -> None:
    """Write a configuration with several servers."""
    workspace.write(
        ".cline/data/settings/cline_mcp_settings.json", {"mcpServers": make_entries(commands)}
    )
    model = {
        "provider": _PROVIDER,
        "apiKey": "none",
        "model": "stand-in",
        "baseUrl": f"http://127.0.0.1:{workspace.models.port}/v1",
    }
    # As `cline auth` writes it.
    known = {"version": 1, "lastUsedProvider": _PROVIDER, "modes": {}}
    entry = {"settings": model, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    settings = {**known, "providers": {_PROVIDER: entry}}
    workspace.write(".cline/data/settings/providers.json", settings)


def make_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment of cline, whose hub has the same port for everyone otherwise."""
    return workspace.environment(CLINE_HUB_PORT=str(find_free_port()))


def run(
    workspace: Workspace, project: str, words: str, **variables: str
) -> subprocess.Popen[bytes]:
    """Start `cline` with a prompt."""
    env = make_environment(workspace) | variables
    options = ["--json", "-P", "openai", "-m", "stand-in", words]
    return workspace.start("cline", *options, cwd=project, env=env)


def hand_over(workspace: Workspace, project: str, words: str) -> subprocess.Popen[bytes]:
    """Start `cline --zen`, which hands a prompt over to its hub and exits."""
    options = ["--zen", "-P", "openai", "-m", "stand-in", words]
    return workspace.start("cline", *options, cwd=project, env=make_environment(workspace))


def list_sessions(workspace: Workspace) -> list[str]:
    """Return the ids of all sessions, as cline recorded them."""
    return list(map_sessions(workspace))


def map_sessions(workspace: Workspace) -> dict[str, str]:
    """Return the directory of each session, as cline recorded them."""
    path = workspace.home / ".cline/data/db/sessions.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        return dict(database.execute("select session_id, cwd from sessions"))
