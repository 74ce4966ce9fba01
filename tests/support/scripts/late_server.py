"""A server that says more than it was asked for, when it may.

    late_server.py DIRECTORY

It reads nothing before the file DIRECTORY/start exists. Its only tool is named by that file. A
call is answered once DIRECTORY/go exists; before the answer, the server says everything that a
server may say, and its answer has what it was told. It stays until the call is answered.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

DIRECTORY = Path(sys.argv[1])
TOLD: list[dict[str, Any]] = []
WAS_TOLD = threading.Event()


def wait_for(name: str) -> None:
    deadline = time.monotonic() + 20
    while not (DIRECTORY / name).exists() and time.monotonic() < deadline:
        time.sleep(0.005)


def say(method: str, request_id: object = None, /, **params: Any) -> None:
    about = {} if request_id is None else {"id": request_id}
    write({**about, "method": method, "params": params})


def write(message: dict[str, Any]) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def announce() -> None:
    for kind in ("tools", "prompts", "resources"):
        say(f"notifications/{kind}/list_changed")
    say("notifications/message", level="info", data="a word")
    say("notifications/message", level="info", data="x" * 50_000)
    say("notifications/progress", progressToken="nobody's", progress=1)


def work(request_id: object, token: object) -> None:
    say("notifications/message", level="info", data="at work")
    wait_for("go")
    announce()
    say("notifications/progress", progressToken=token, progress=1, message="half done")
    say("sampling/createMessage", 1)
    say("notifications/cancelled", requestId=1)
    WAS_TOLD.wait(20)
    write({"id": request_id, "result": {"content": [], "told": TOLD}})


def hear(message: dict[str, Any]) -> None:
    method, request_id, params = (message.get(name) for name in ("method", "id", "params"))
    if method is None:
        TOLD.append(message)
        WAS_TOLD.set()
    elif method == "notifications/initialized":
        say("roots/list", 2)
        announce()
    elif method == "tools/call" and params is not None:
        token = params.get("_meta", {}).get("progressToken")
        threading.Thread(target=work, args=[request_id, token]).start()
    elif method == "initialize":
        kinds = ("tools", "prompts", "resources")
        offered = {kind: {"listChanged": True} for kind in kinds} | {"logging": {}}
        info = {"name": "late", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": offered, "serverInfo": info}
        write({"id": request_id, "result": result})
    elif method == "tools/list":
        name = (DIRECTORY / "start").read_text(encoding="utf-8")
        tool = {"name": name, "inputSchema": {"type": "object"}}
        write({"id": request_id, "result": {"tools": [tool]}})
    elif request_id is not None:
        write({"id": request_id, "result": {}})


def main() -> None:
    wait_for("start")
    for line in sys.stdin.buffer:
        hear(json.loads(line))
    WAS_TOLD.set()  # nobody can answer any more


if __name__ == "__main__":
    main()
