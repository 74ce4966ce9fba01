"""The demo's server: reports what it sees, ignores the end of its input, hides its children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

SLEEP = [sys.executable, "-c", "import time; time.sleep(3600)"]

# Forks twice in its own session, with an empty environment, to detach from its parents.
DAEMON = """
import os, sys
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.execve(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(3600)"], {})
"""


def main() -> None:
    """Serve until killed."""
    processes = _start_children()
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": _answer(request, processes)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    while True:  # the most common fault of real servers: they outlive their input
        time.sleep(3600)


def _start_children() -> dict[str, int]:
    child = subprocess.Popen(SLEEP)
    own_session = subprocess.Popen(SLEEP, start_new_session=True)
    return {
        "server": os.getpid(),
        "child": child.pid,
        "own session": own_session.pid,
        "daemon": _start_daemon(),
    }


def _start_daemon() -> int:
    with subprocess.Popen([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE) as starter:
        assert starter.stdout  # noqa: S101  # for the type checker: we asked for a pipe
        return int(starter.stdout.readline())


def _answer(request: dict[str, Any], processes: dict[str, int]) -> dict[str, Any]:
    if request["method"] == "initialize":
        return {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "demo", "version": "1"},
        }
    if request["method"] == "tools/call":
        sight = {
            "cwd": os.getcwd(),
            "environment": dict(os.environ),
            "processes": processes,
            "context": request["params"].get("_meta", {}).get("mcp-launch/context"),
        }
        return {"content": [{"type": "text", "text": json.dumps(sight)}]}
    return {"tools": [{"name": "look_around", "inputSchema": {"type": "object"}}]}


if __name__ == "__main__":
    main()
