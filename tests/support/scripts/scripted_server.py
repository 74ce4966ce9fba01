"""A server that remembers its messages, and does what its calls ask for.

    scripted_server.py [--needs VARIABLE] [--once FILE]

The tool `look` returns its environment and the messages it got; `die` ends it; `ask` asks the
host and returns the answer; `wait` answers when the file in its arguments exists, with as much
text as asked for; `slowly` starts a long answer, and finishes it when the file exists; `big` gives
a long answer, `exactly` one of a size; `half` dies in the middle of an answer, `bare` before its
newline, `leave` with a child that stays; `deaf` closes its stdin and dies when the file exists.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

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


def run_beside(work: Callable[..., None], *arguments: object) -> None:
    import threading

    threading.Thread(target=work, args=arguments).start()


def leave_a_child() -> None:
    """Start a child that ignores SIGTERM, and wait until it does."""
    import subprocess  # this and threading are slow to import, and most tests need neither

    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    child = subprocess.Popen(
        [sys.executable, "-c", code + "; time.sleep(3600)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout
    child.stdout.read(1)


def call(request_id: object, params: dict[str, Any]) -> None:  # noqa: C901  # a table
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
        say({"id": 1, "method": "sampling/createMessage"})
    elif tool == "wait":
        say({"method": "notifications/message", "params": {"data": "waiting"}})
        size = arguments.get("size", 0)
        run_beside(wait_for, arguments["path"], request_id, size)
    elif tool == "slowly":
        run_beside(answer_slowly, arguments["path"], request_id)
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


def hear(message: dict[str, Any]) -> None:
    HEARD.append(message)
    method, request_id = message.get("method"), message.get("id")
    if method is None:
        if str(request_id) in WAITING:
            answer(WAITING.pop(str(request_id)), told=message)
    elif method == "tools/call":
        call(request_id, message["params"])
    elif method == "initialize":
        if message.get("params", {}).get("refuse"):
            say({"id": request_id, "error": {"code": 1, "message": "no"}})
        else:
            answer(request_id, capabilities={"tools": {}}, serverInfo={"name": "memory"})
    elif method == "tools/list":
        answer(request_id, tools=[{"name": "look"}])
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
