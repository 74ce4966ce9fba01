"""A client that speaks MCP to one server over its pipes; every wait has an end."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from typing import Any

# How long an answer may take, in seconds: forty servers may start at once on two cores.
PATIENCE = 300.0

# How long a server may take to end, in seconds; ours needs up to five if a server hangs.
END_GRACE = 20.0

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class Client:
    """A server, bare or behind something."""

    def __init__(
        self, command: list[str], cwd: str | None = None, environ: dict[str, str] | None = None
    ) -> None:
        # A session of its own: bare npx servers that share a process group stop each other
        # now and then, and then a run never ends.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=environ,
            start_new_session=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        self._read = b""
        self._id = 0

    @property
    def pid(self) -> int:
        """The process that was started."""
        return self._process.pid

    def begin(self) -> None:
        """Say what a host says first; `finish` reads the answer."""
        self.send("initialize", INITIALIZE)

    def greet(self) -> dict[str, Any]:
        """Go through the handshake and return the list of tools."""
        self.begin()
        return self.finish()

    def finish(self) -> dict[str, Any]:
        """Go through the rest of the handshake and return the list of tools."""
        self.wait()
        self.notify("notifications/initialized")
        return self.ask("tools/list", {})

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, a result or an error."""
        self.send(method, params)
        return self.wait()

    def send(self, method: str, params: dict[str, Any]) -> None:
        """Send a request."""
        self._id += 1
        self._write({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._write({"jsonrpc": "2.0", "method": method})

    def wait(self) -> dict[str, Any]:
        """Return the answer to the last request."""
        deadline = time.monotonic() + PATIENCE
        while True:
            line, newline, rest = self._read.partition(b"\n")
            if newline:
                self._read = rest
                message = json.loads(line)
                if message.get("id") == self._id and "method" not in message:
                    return dict(message)
                continue
            ready, _, _ = select.select([self._output], [], [], deadline - time.monotonic())
            part = os.read(self._output, 1 << 16) if ready else b""
            if not part:
                raise SystemExit(f"no answer from {self._process.args!r}")
            self._read += part

    def hang_up(self) -> None:
        """Let the server see the end of its input."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            stream.close()

    def close(self) -> None:
        """End the server."""
        self.hang_up()
        self.join()

    def join(self) -> None:
        """Wait for the end of a server that has seen the end of its input."""
        try:
            self._process.wait(END_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, message: dict[str, Any]) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[os.write(self._input, data) :]
