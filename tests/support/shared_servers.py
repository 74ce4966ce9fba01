"""Launches that share one server: join it, find its pool, and see what is left of both."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from launches import HERE, LIMIT, RUN, call, request, wait_until_gone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from launches import Launch, LaunchRunner

# The options that make launches share a server.
SHARE = ["--share", "project"]

SESSION_SERVER = [sys.executable, "-S", "-E", str(HERE / "scripts" / "session_server.py")]

PREFIX = "io.modelcontextprotocol/"

# What a host of the 2026 era says with every request, instead of a handshake.
MODERN = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
    f"{PREFIX}clientCapabilities": {},
}


@pytest.fixture
def sharing(runner: LaunchRunner, tmp_path: Path) -> Iterator[Sharing]:
    """Return a starter of launches that share a server; all of them end with the test."""
    sharing = Sharing(runner, tmp_path / "state")
    yield sharing
    sharing.end_all()
    crashes = [path.read_text(encoding="utf-8") for path in sharing.state.glob("crash-*")]
    assert not crashes, crashes[0]


class Sharing:
    """Starts launches that share a server, and ends whatever is left of them."""

    def __init__(self, runner: LaunchRunner, state: Path) -> None:
        self.runner = runner
        self.state = state

    def connect(self, *words: str, **options: Any) -> Launch:
        """Start a launch; nothing is said yet."""
        return self.runner.launch(*SHARE, *words, "--", *SESSION_SERVER, **options)

    def join(self, *words: str, **options: Any) -> Launch:
        """Start a launch and greet its server."""
        launch = self.connect(*words, **options)
        greet(launch)
        return launch

    def join_two(self) -> tuple[Launch, Launch, int]:
        """Return two launches of one server, and its pid."""
        first, second = self.join(), self.join()
        pid = read_pid(first)
        assert read_pid(second) == pid, "each has a server of its own"
        return first, second, pid

    def join_below_host(self) -> Launch:
        """Start a launch below a host that can be killed, and greet its server."""
        command = [*RUN, *SHARE, "--", *SESSION_SERVER]
        host = self.runner.launch_below_host("opencode", command=command)
        greet(host)
        return host

    def wait_for_pool(self) -> dict[str, Any]:
        """Return the record of the only pool; it may be written after the first answer."""
        deadline = time.monotonic() + LIMIT
        while not (records := self.list_records()):
            assert time.monotonic() < deadline, "no pool has a record"
            time.sleep(0.01)
        [path] = records
        record = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(record, dict)
        return record

    def find_pool(self) -> int:
        """Return the pid of the only pool."""
        pid = self.wait_for_pool()["processes"]["pool"]["pid"]
        assert isinstance(pid, int)
        return pid

    def list_records(self) -> list[Path]:
        """Return the records of all pools."""
        return sorted((self.state / "pools").glob("[!.]*.json"))

    def list_sockets(self) -> list[Path]:
        """Return the sockets of all pools."""
        return [path for path in self.state.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]

    def wait_until_nothing_is_left(self) -> None:
        """Wait until no process of ours is left; no socket and no record may remain, either."""
        deadline = time.monotonic() + LIMIT
        while pids := list_processes(self.state):
            assert time.monotonic() < deadline, f"still running: {pids}"
            for pid in pids:
                wait_until_gone(pid)
        assert self.list_sockets() == []
        assert self.list_records() == []

    def end_all(self) -> None:
        """Kill whatever a failed test has left, also what a launcher starts meanwhile."""
        deadline = time.monotonic() + LIMIT
        while pids := list_processes(self.state):
            assert time.monotonic() < deadline, f"still running: {pids}"
            for pid in pids:
                _kill(pid)


def greet(launch: Launch, version: str = "2025-11-25", /, **capabilities: object) -> dict[str, Any]:
    """Go through the handshake; return the answer to `initialize`."""
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
    launch.send(request("initialize", 0, **params))
    answer = launch.answer()
    assert answer["id"] == 0
    assert "result" in answer, answer
    launch.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return answer


def read_pid(launch: Launch) -> int:
    """Return the pid of a launch's server."""
    pid = launch.call("echo", "whose server")["pid"]
    assert isinstance(pid, int)
    return pid


def hold(launch: Launch, request_id: object, key: str, **params: Any) -> None:
    """Make a call that stays open, and wait until the server has it."""
    launch.send(call("hold", request_id, key=key, **params))
    launch.call("echo", f"after {key}")  # calls of one connection arrive in their order


def cancel(request_id: object) -> dict[str, Any]:
    """Return the notification that cancels a request."""
    params = {"requestId": request_id}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def answer_to(request_: dict[str, Any], **result: object) -> dict[str, Any]:
    """Return the host's answer to a request of the server."""
    return {"jsonrpc": "2.0", "id": request_["id"], "result": result}


def list_processes(state: Path) -> list[int]:
    """Return every process that was started with this state directory."""
    mark = f"MCP_LAUNCH_HOME={state}".encode()
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has(pid, mark)]


def _has(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended, or belongs to another user


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has ended since
    wait_until_gone(pid)
