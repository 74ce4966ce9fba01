"""Codex as a host: its configuration, a single turn, and its app server."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from typing import IO, TYPE_CHECKING, Any

from hosts.fake_models import LIMIT
from hosts.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosts.workspace import Workspace

LOOK = "call mcp__probe__look {}"
MODEL = "stand-in"


def spawn(name: str) -> str:
    """Return the prompt that makes the model start a sub-agent, which calls `look`."""
    return "call spawn_agent " + json.dumps({"message": f"You are {name}. {LOOK}"})


def configure(
    workspace: Workspace,
    command: Sequence[str],
    *,
    server: str = "probe",
    features: Sequence[str] = (),
    **more: object,
) -> None:
    """Write a configuration with one server, for the existing projects."""
    entry = {"command": command[0], "args": list(command[1:]), **more}
    lines = [
        f'model = "{MODEL}"',
        'model_provider = "stand-in"',
        'approval_policy = "never"',
        'sandbox_mode = "danger-full-access"',
        "check_for_update_on_startup = false",
        "[analytics]",
        "enabled = false",
        "[features]",
        "plugins = false",
        *[f"{feature} = true" for feature in features],
        "[model_providers.stand-in]",
        'name = "stand-in"',
        f'base_url = "http://127.0.0.1:{workspace.models.port}/v1"',
        'wire_api = "responses"',
        "request_max_retries = 0",
        "stream_max_retries = 0",
        f"[mcp_servers.{server}]",
        # Strings, numbers and lists in JSON are also valid TOML.
        *[f"{key} = {json.dumps(value)}" for key, value in entry.items()],
        "[projects]",
        *[f'{json.dumps(one)} = {{ trust_level = "trusted" }}' for one in workspace.projects],
    ]
    path = workspace.home / ".codex" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(
    workspace: Workspace,
    project: str,
    *flags: str,
    name: str = "codex",
    words: str = LOOK,
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start `codex exec` with a prompt."""
    return workspace.start(name, "exec", *flags, words, cwd=project, **options)


def open_terminal(workspace: Workspace, project: str) -> Terminal:
    """Start codex in a terminal, and wait for its prompt."""
    terminal = Terminal(workspace, "codex", cwd=project, env=workspace.environment())
    # Its first screen comes before it has found or started its daemon.
    terminal.wait_for(f"{MODEL} default")
    return terminal


class AppServer:
    """`codex app-server`, the one process behind Codex's desktop, IDE and terminal."""

    def __init__(self, workspace: Workspace, name: str = "codex") -> None:
        # Its own directory must not be a project: the project must come from the thread.
        self.process = workspace.start(
            name, "app-server", cwd=workspace.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answers: dict[int, dict[str, Any]] = {}
        self._finished: list[str] = []  # threads, once for each turn
        self._ready: set[str] = set()  # servers
        self._changed = threading.Condition()
        self._count = 0
        threading.Thread(target=self._read, args=[self.process.stdout], daemon=True).start()
        self.ask("initialize", clientInfo={"name": "test", "title": "test", "version": "1"})
        self._write({"method": "initialized"})

    def send(self, method: str, **params: object) -> int:
        """Send a request and return its number."""
        self._count += 1
        self._write({"id": self._count, "method": method, "params": params})
        return self._count

    def receive(self, number: int) -> Any:
        """Return the result of a request."""
        self._wait(lambda: number in self._answers, f"no answer to request {number}")
        answer = self._answers[number]
        assert "result" in answer, answer
        return answer["result"]

    def ask(self, method: str, **params: object) -> Any:
        """Send a request and return its result."""
        return self.receive(self.send(method, **params))

    def start_threads(self, *projects: str, **params: object) -> list[str]:
        """Start threads at once, and return their ids."""
        numbers = [self.send("thread/start", cwd=project, **params) for project in projects]
        return [str(self.receive(number)["thread"]["id"]) for number in numbers]

    def prompt(self, *threads: str, words: str = LOOK) -> None:
        """Send a prompt to several threads at once, and wait until all turns have ended."""
        before = {thread: self._finished.count(thread) for thread in threads}
        text = [{"type": "text", "text": words}]
        for number in [self.send("turn/start", threadId=one, input=text) for one in threads]:
            self.receive(number)
        self._wait(
            lambda: all(self._finished.count(one) > before[one] for one in threads),
            "not every turn has ended",
        )

    def wait_until_ready(self, server: str) -> None:
        """Wait until Codex reports that a server is ready."""
        self._wait(lambda: server in self._ready, f"{server} does not become ready")

    def close(self) -> None:
        """Close its stdin, and wait until it exits."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(LIMIT)

    def _wait(self, is_so: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + LIMIT
        with self._changed:
            while not is_so():
                assert self._changed.wait(deadline - time.monotonic()), otherwise

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            message = json.loads(line)
            with self._changed:
                if "method" not in message:
                    self._answers[message["id"]] = message
                elif message["method"] == "turn/completed":
                    self._finished.append(message["params"]["threadId"])
                elif message.get("params", {}).get("status") == "ready":
                    self._ready.add(message["params"]["name"])  # a server
                self._changed.notify_all()
