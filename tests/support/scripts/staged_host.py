"""A stand-in for a host with several servers, which does what a test asks for.

Run with a Python that is linked under a host's name. Each line on its stdin is a JSON object,
and is answered by one:

    {"do": "open", "path": FILE}            holds a file open, as Codex does with a thread's lock
    {"do": "start", "name": NAME, "command": [...], "cwd": DIR, "env": {...}}
    {"do": "send", "name": NAME, "message": {...}}     the answer is the server's, if it has one
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

SERVERS: dict[str, subprocess.Popen[bytes]] = {}


def do(what: dict[str, Any]) -> Any:
    if what["do"] == "open":
        return os.open(what["path"], os.O_CREAT | os.O_RDWR)
    if what["do"] == "start":
        SERVERS[what["name"]] = subprocess.Popen(
            what["command"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=what["cwd"],
            env=os.environ | what["env"],
        )
        return SERVERS[what["name"]].pid
    server = SERVERS[what["name"]]
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps(what["message"]).encode() + b"\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline()) if "id" in what["message"] else None


for line in sys.stdin:
    answer = json.dumps(do(json.loads(line)))
    os.write(1, answer.encode() + b"\n")
