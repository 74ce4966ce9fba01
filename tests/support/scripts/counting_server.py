"""A server that notes each of its starts, and does what the files in its directory ask for.

    counting_server.py DIRECTORY

`starts` gets a line for each start: the pid and the thread in the environment. It answers only
once `closed` is not there, and dies with an excuse while `broken` is. Its tools are the names in
`tools`. The tool `child` starts another program, `listen` opens a socket, `notify` has it send a
log message when the file `notice` appears, `pid` returns its pid.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

PLACE = Path(sys.argv[1])
KEPT: list[Any] = []  # a child, a socket


def say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def wait_until(path: Path, *, is_there: bool) -> None:
    deadline = time.monotonic() + 20
    while path.exists() != is_there and time.monotonic() < deadline:
        time.sleep(0.005)


def notify() -> None:
    wait_until(PLACE / "notice", is_there=True)
    say({"method": "notifications/message", "params": {"level": "info", "data": "unasked"}})


def call(tool: str) -> None:
    if tool == "child":
        KEPT.append(subprocess.Popen(["/bin/sleep", "3600"], stdin=subprocess.DEVNULL))
    elif tool == "listen":
        KEPT.append(socket.create_server(("127.0.0.1", 0)))
    elif tool == "notify":
        threading.Thread(target=notify, daemon=True).start()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "logging": {}}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities}
    if method == "tools/list":
        names = (PLACE / "tools").read_text(encoding="utf-8").split()
        return {"tools": [{"name": name, "inputSchema": {}} for name in names]}
    if method == "tools/call":
        call(params["name"])
        return {"content": [], "pid": os.getpid()}
    return {}


with (PLACE / "starts").open("a", encoding="utf-8") as starts:
    starts.write(f"{os.getpid()} {os.environ.get('CODEX_THREAD_ID')}\n")
if (PLACE / "broken").exists():
    sys.exit("no configuration found in settings.ini")
wait_until(PLACE / "closed", is_there=False)
for line in sys.stdin:
    said = json.loads(line)
    if "id" in said:
        say({"id": said["id"], "result": answer(said["method"], said.get("params", {}))})
