"""The host and the server of `mcp-launch demo`, run as a script with the standard library only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

_SLEEP = [sys.executable, "-c", "import time; time.sleep(3600)"]

# Forks twice in its own session, with an empty environment, to detach from its parents.
_DAEMON = """
import os, sys
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.execve(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(3600)"], {})
"""


def _be_host(command: list[str]) -> None:
    """Start a server as a host does, print what it says, and stay until killed."""
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin  # noqa: S101  # for the type checker: we asked for a pipe
    assert server.stdout  # noqa: S101
    version, client = "2025-11-25", {"name": "stand-in", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    print(json.loads(server.stdout.readline())["result"]["instructions"], flush=True)  # noqa: T201
    sys.stdin.read()


def _be_server() -> None:
    """Start children, answer with their process ids, and outlive the end of the input."""
    child = subprocess.Popen(_SLEEP)
    own_session = subprocess.Popen(_SLEEP, start_new_session=True)
    with subprocess.Popen([sys.executable, "-c", _DAEMON], stdout=subprocess.PIPE) as starter:
        assert starter.stdout  # noqa: S101  # for the type checker: we asked for a pipe
        daemon = int(starter.stdout.readline())
    pids = {"server": os.getpid(), "child": child.pid, "own session": own_session.pid}
    request = json.loads(sys.stdin.readline())
    result = {
        "protocolVersion": request["params"]["protocolVersion"],
        "capabilities": {},
        "serverInfo": {"name": "demo", "version": "1"},
        "instructions": json.dumps(pids | {"daemon": daemon}),
    }
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    print(json.dumps(answer), flush=True)  # noqa: T201  # its output is the wire
    while True:
        signal.pause()  # the most common fault of real servers: they outlive their input


if __name__ == "__main__":
    if sys.argv[1] == "host":
        _be_host(sys.argv[2:])
    else:
        _be_server()
