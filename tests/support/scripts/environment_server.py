"""A server that answers every request with its environment."""

from __future__ import annotations

import json
import os
import sys

for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message:
        continue
    sight = {
        "pid": os.getpid(),
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "fds": sorted(int(name) for name in os.listdir("/proc/self/fd")),
        "argv": sys.argv[1:],
        "asked": message,
    }
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": sight}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()
