"""A server that remembers its messages, and does what its calls ask for.

    scripted_server.py [--tools VARIABLE] [--pages VARIABLE] [--announces] [--needs VARIABLE]
                       [--once FILE]

The tool `look` returns its environment and the messages it got; `die` ends it; `ask` asks the
host and returns the answer (or answers at once); `withdraw` cancels that request; `wait` answers
when the file in its arguments exists, with as much text as asked for; `slowly` starts a long
answer, and finishes it when the file exists; `big` gives a long answer; `half` dies in the
middle of an answer, `bare` before its newline, `leave` with a child that stays; `deaf` closes
its stdin and dies when the file exists. Its only tool is named by the variable, and it
may announce that the list of tools changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HEARD: list[dict[str, Any]] = []
WAITING: dict[str, object] = {}  # our own requests, and which call waits for the answer
CALLS: list[str] = []


def say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def answer(request_id: object, **result: Any) -> None:
    say({"id": request_id, "result": result})


def option(name: str) -> str | None:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def read_lease() -> Any:
    path = Path(os.environ["MCP_LAUNCH_HOME"], "leases", os.environ["MCP_LAUNCH_ID"] + ".json")
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def wait_until_there(path: str) -> None:
    deadline = time.monotonic() + 20
    while not Path(path).exists() and time.monotonic() < deadline:
        time.sleep(0.005)


def wait_for(path: str, request_id: object, size: int) -> None:
    wait_until_there(path)
    answer(request_id, waited=path, **({"text": "x" * size} if size else {}))


def answer_slowly(path: str, request_id: object) -> None:
    os.write(1, f'{{"jsonrpc":"2.0","id":{request_id},"result":{{"text":"'.encode())
    os.write(1, b"x" * 50_000)
    wait_until_there(path)
    os.write(1, b'"}}\n')


def leave_a_child() -> None:
    """Start a child that ignores SIGTERM, and wait until it does."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    child = subprocess.Popen(
        [sys.executable, "-c", code + "; time.sleep(3600)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout
    child.stdout.read(1)


def call(request_id: object, params: dict[str, Any]) -> None:  # noqa: C901, PLR0912  # a table
    arguments = params.get("arguments", {})
    tool = params["name"]
    CALLS.append(tool)
    if tool == "look":
        sight = {"pid": os.getpid(), "cwd": os.getcwd(), "env": dict(os.environ)}
        sight["lease"] = read_lease()
        answer(request_id, **sight, calls=len(CALLS), meta=params.get("_meta"), heard=HEARD)
    elif tool == "die":
        os.write(2, b"about to die\nof old age\n")
        os._exit(arguments.get("code", 7))
    elif tool == "ask":
        WAITING["1"] = request_id
        say({"id": 1, "method": arguments.get("method", "sampling/createMessage")})
        if arguments.get("at_once"):
            answer(WAITING.pop("1"))
    elif tool == "withdraw":
        say({"method": "notifications/cancelled", "params": {"requestId": 1}})
        answer(request_id)
    elif tool == "wait":
        say({"method": "notifications/message", "params": {"data": "waiting"}})
        size = arguments.get("size", 0)
        threading.Thread(target=wait_for, args=[arguments["path"], request_id, size]).start()
    elif tool == "slowly":
        threading.Thread(target=answer_slowly, args=[arguments["path"], request_id]).start()
    elif tool == "big":
        answer(request_id, text='x,"y' * arguments["size"])
    elif tool == "exactly":
        empty = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {"text": ""}})
        answer(request_id, text="x" * (arguments["size"] - len(empty) - 1))
    elif tool == "half":
        os.write(1, f'{{"jsonrpc":"2.0","id":{request_id},"result":{{"text":"'.encode())
        os.write(1, b"x" * arguments["size"])
        os._exit(5)
    elif tool == "bare":
        text = "x" * arguments["size"]
        line = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {"text": text}})
        os.write(1, line.encode())
        os._exit(5)
    elif tool == "deaf":
        os.close(0)
        answer(request_id)
        wait_until_there(arguments["path"])
        os._exit(5)
    elif tool == "leave":
        leave_a_child()
        os._exit(5)
    elif tool == "ask at length":
        WAITING["7"] = request_id
        say({"params": {"text": "x" * 100_000}, "id": 7, "method": "sampling/createMessage"})


def hear(message: dict[str, Any]) -> None:
    HEARD.append(message)
    method, request_id = message.get("method"), message.get("id")
    if method is None:
        if str(request_id) in WAITING:
            answer(WAITING.pop(str(request_id)), told=message)
    elif method == "tools/call":
        call(request_id, message["params"])
    elif method == "initialize":
        tools = {"listChanged": True} if "--announces" in sys.argv else {}
        if message.get("params", {}).get("refuse"):
            say({"id": request_id, "error": {"code": 1, "message": "no"}})
        else:
            answer(request_id, capabilities={"tools": tools}, serverInfo={"name": "memory"})
    elif method == "tools/list":
        name = os.environ.get(option("--tools") or "", "look")
        more = {"nextCursor": "2"} if os.environ.get(option("--pages") or "") == "s-2" else {}
        answer(request_id, tools=[{"name": name}], **more)
    elif method == "subscriptions/listen":
        meta = {"io.modelcontextprotocol/subscriptionId": request_id}
        say({"method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta}})
    elif request_id is not None:
        answer(request_id)


def main() -> None:
    needed = option("--needs")
    if needed and needed not in os.environ:
        sys.exit(f"{needed} is not set")
    once = option("--once")
    if once:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            sys.exit("it has been started before")
    for line in sys.stdin.buffer:
        hear(json.loads(line))


if __name__ == "__main__":
    main()
