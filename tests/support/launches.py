"""Launches on real processes: start them, talk to them, and end all of them."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent

# The limit of every wait in a test; reaching it is a failure. On a machine with two cores and ten
# other programs at work, an answer that takes a second otherwise has taken more than twenty.
LIMIT = 60.0

RUN = [sys.executable, "-m", "mcp_launch", "run"]
# A Python that looks for no packages starts in half the time.
_BARE_PYTHON = [sys.executable, "-S", "-E"]
ENVIRONMENT_SERVER = [sys.executable, str(HERE / "scripts" / "environment_server.py")]
SCRIPTED_SERVER = [*_BARE_PYTHON, str(HERE / "scripts" / "scripted_server.py")]
FORKING_SERVER = [*_BARE_PYTHON, str(HERE / "scripts" / "forking_server.py")]


def python(code: str) -> list[str]:
    """Return the command that runs some Python."""
    return [sys.executable, "-c", code]


def call(tool: str, request_id: object = 1, **params: Any) -> dict[str, Any]:
    """Return a call; `meta` is its `_meta`, the rest are the tool's arguments."""
    meta = params.pop("meta", None)
    message = request("tools/call", request_id, name=tool, arguments=params)
    if meta is not None:
        message["params"]["_meta"] = meta
    return message


def request(method: str, request_id: object = 1, **params: object) -> dict[str, Any]:
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def read_refusal(answer: dict[str, Any]) -> str:
    """Return the text of an answer by the launcher itself: a call's result, or an error."""
    if "error" in answer:
        code = answer["error"]["code"]
        assert not -32768 <= code <= -32000, "hosts would take it for a broken connection"
        return str(answer["error"]["message"])
    assert answer["result"]["isError"] is True
    return str(answer["result"]["content"][0]["text"])


class Launch:
    """One process that we started, with pipes to it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.child = process.pid  # the launcher's pid, if below a fake host
        self._read = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, *messages: dict[str, Any]) -> None:
        """Write messages, a line each."""
        assert self.process.stdin
        for message in messages:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def write(self, data: bytes) -> None:
        """Write raw bytes."""
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read_line(self) -> bytes:
        """Return the next line of its stdout, or the rest at the end."""
        assert self.process.stdout
        deadline = time.monotonic() + LIMIT
        while b"\n" not in self._read:
            data = _read_some(self.process.stdout, deadline)
            if not data:
                line, self._read = self._read, b""
                return line
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line + b"\n"

    def has_output(self) -> bool:
        """Return whether something can be read from its stdout without waiting."""
        assert self.process.stdout
        return bool(self._read) or bool(select.select([self.process.stdout], [], [], 0)[0])

    def wait_for_stderr(self, text: bytes) -> None:
        """Wait until this is written to stderr."""
        assert self.process.stderr
        deadline = time.monotonic() + LIMIT
        written = b""
        while text not in written:
            data = _read_some(self.process.stderr, deadline)
            assert data, written
            written += data

    def answer(self) -> dict[str, Any]:
        """Return the next message."""
        line = self.read_line()
        assert line, "the launch closed its stdout"
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Ask and return the result."""
        self.send(request(method, **params))
        result = self.answer()["result"]
        assert isinstance(result, dict)
        return result

    def call(self, tool: str, request_id: object = 1, **params: Any) -> dict[str, Any]:
        """Call a tool and return the result."""
        self.send(call(tool, request_id, **params))
        answer = self.answer()
        assert answer["id"] == request_id
        assert "result" in answer, answer
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    def initialize(self, **capabilities: object) -> dict[str, Any]:
        """Open the connection as hosts did until 2025-11-25."""
        self.send(request("initialize", 0, capabilities=capabilities))
        answer = self.answer()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def close(self) -> None:
        """Close its stdin."""
        assert self.process.stdin
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has already exited, which some tests provoke

    def finish(self) -> tuple[int, bytes, bytes]:
        """Close its stdin; return exit code, the rest of stdout, and stderr."""
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, self._read + out, err

    def wait(self, seconds: float = LIMIT) -> int:
        """Return its exit code."""
        return self.process.wait(seconds)


class LaunchRunner:
    """Starts launches in a project, and ends all of them."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self._started: list[subprocess.Popen[bytes]] = []

    def launch(self, *words: str, **options: Any) -> Launch:
        """Start `mcp-launch run` with these words."""
        return self.start([*RUN, *words], **options)

    def launch_below_host(
        self, program: str, *words: str, command: list[str], **options: Any
    ) -> Launch:
        """Start a launch below a fake host, and return its connection."""
        path = self.project.parent / program
        if not path.exists():
            path.symlink_to(os.path.realpath(sys.executable))
        script = str(HERE / "scripts" / "fake_host.py")
        host = self.start([str(path), "-S", "-E", script, *words, "--", *command], **options)
        host.child = int(host.read_line())
        return host

    def start(self, command: list[str], **options: Any) -> Launch:
        """Start any command with pipes."""
        settings: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            # pytest changes this one between a fixture and its test: to us, another environment.
            "env": {name: os.environ[name] for name in os.environ if name != "PYTEST_CURRENT_TEST"},
        }
        settings.update(options)
        process = subprocess.Popen(command, **settings)
        self._started.append(process)
        return Launch(process)

    def end_all(self) -> None:
        """End everything that was started here."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            for stream in (process.stdin, process.stdout, process.stderr):
                _close(stream)
            process.wait(LIMIT)


class LivenessSocket:
    """A socket that processes connect to: when a connection ends, its process has ended."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "liveness")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT)
        self._socket.bind(self.path)
        self._socket.listen(16)
        self.connections: dict[str, socket.socket] = {}
        self.pids: dict[str, int] = {}
        self._said: dict[str, bytes] = {}

    def wait_for(self, *roles: str) -> None:
        """Wait until all these processes have connected."""
        while not set(roles) <= set(self.connections):
            connection, _ = self._socket.accept()
            connection.settimeout(LIMIT)
            role, pid = connection.recv(100).decode().split()
            self.connections[role] = connection
            self.pids[role] = int(pid)

    def read_until_end(self, role: str) -> bytes:
        """Return everything that a process writes until it ends, which proves its end."""
        return read_until_end(self.connections[role])

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()
        self._socket.close()
        for pid in self.pids.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # as it should be


def read_until_end(connection: socket.socket) -> bytes:
    """Return everything that a process writes until it ends, which proves its end."""
    words = b""
    try:
        while data := connection.recv(100):
            words += data
    except ConnectionResetError:
        pass  # it ended with unread input, but it ended
    return words


def wait_for_lease(state: Path, is_right: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the only lease once it is right; leases are written with a delay."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        for path in (state / "leases").glob("[!.]*.json"):
            try:
                lease = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue  # the launch has ended, or is between two servers
            assert isinstance(lease, dict)
            if is_right(lease):
                return lease
        time.sleep(0.02)
    raise AssertionError("no lease became right")


def wait_until_gone(pid: int) -> None:
    """Wait until a process has ended, whichever process has to reap it."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], LIMIT)[0], f"process {pid} is still there"
    finally:
        os.close(fd)


def _read_some(stream: IO[bytes], deadline: float) -> bytes:
    left = max(0.0, deadline - time.monotonic())
    assert select.select([stream], [], [], left)[0], "no answer within the limit"
    return os.read(stream.fileno(), 1 << 16)


def _close(stream: IO[bytes] | None) -> None:
    try:
        if stream:
            stream.close()
    except BrokenPipeError:
        pass  # its reader is gone
