"""Qwen Code as a host: its configuration, a single turn, its agent, and its daemon."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from hosts.acp import Agent
from hosts.fake_models import LIMIT
from hosts.workspace import find_free_port, make_entries

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

# In seconds: between two looks at a port, which nothing announces.
_INTERVAL = 0.05

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
        "tools": {"toolSearch": {"enabled": False}, "approvalMode": "yolo"},
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


class Daemon:
    """`qwen serve`: one process with one connection to each server, for all sessions."""

    def __init__(self, workspace: Workspace, project: str) -> None:
        port = find_free_port()
        words = ["serve", "--no-web", "--workspace", project, "--port", str(port)]
        env = make_environment(workspace)
        self.process = workspace.start("qwen", *words, cwd=project, env=env)
        self._address = f"http://127.0.0.1:{port}"
        self._project = project
        deadline = time.monotonic() + LIMIT
        while not self._answers():
            assert time.monotonic() < deadline, workspace.read_output()
            time.sleep(_INTERVAL)

    def start_sessions(self, count: int) -> list[str]:
        """Start so many sessions, and return their ids."""
        # Without this scope, all clients of the daemon have the same session.
        words = {"cwd": self._project, "sessionScope": "thread"}
        return [str(self._post("/session", words)["sessionId"]) for _ in range(count)]

    def send_prompts(self, words: Mapping[str, str]) -> None:
        """Send prompts to several sessions at once."""
        for session, text in words.items():
            prompt = [{"type": "text", "text": text}]
            self._post(f"/session/{session}/prompt", {"prompt": prompt})

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._address}/health", timeout=LIMIT):  # noqa: S310
                return True
        except urllib.error.URLError:
            return False

    def _post(self, path: str, content: dict[str, Any]) -> Any:
        data = json.dumps(content).encode()
        kind = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self._address}{path}", data, kind)  # noqa: S310  # ours
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:  # noqa: S310
            return json.loads(answer.read())
