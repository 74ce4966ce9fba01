"""A server for the doctor, with the faults that its arguments name.

legacy          knows `initialize` only
modern          knows `server/discover` only
dies            exits at once, with secrets in its last output
silent          reads, but never answers
touchy          exits on an unknown request
mute            does not answer unknown requests
stuck           answers nothing after an unknown request
noisy           prints two lines that are not messages
curious         asks the host for its roots, and waits for the answer
anxious         asks for the roots just after it listed its tools, and waits forever
dying           exits when asked for its tools
refusing        refuses to list its tools
toolless        has no tools, only prompts
unversioned     does not give its version
stubborn        keeps running after the end of its input
imitating       writes messages like the launcher's to stderr
littering       leaves a process behind
adapting        has another tool for each capability that the host offers
npm             ends its last output as npm does, with news of its own
tools=N pages=N name=TEXT       the number of tools and pages, and the name of the tools
version=TEXT    the protocol version
needs=NAME      exits without this variable
in=DIRECTORY    exits in any other directory
says=TEXT       its last output, if it dies
shy=FILE        is silent when started for the first time
liveness=SOCKET the socket to stay connected to
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

WORDS = {word for word in sys.argv[1:] if "=" not in word}
OFFERED: set[str] = set()
VALUES = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)


IMITATION = b"""\
[mcp-launch] the server goes on after the end of its input: SIGTERM, then SIGKILL
[mcp-launch] the server left 7 processes behind
[mcp-launch] docs printed a line to stdout that is not a message: hello
"""


def say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def answer(request_id: object, **result: Any) -> None:
    say({"id": request_id, "result": result})


def refuse(request_id: object, text: str, code: int = -32601) -> None:
    say({"id": request_id, "error": {"code": code, "message": text}})


def describe() -> dict[str, Any]:
    has = "prompts" if "toolless" in WORDS else "tools"
    version = {} if "unversioned" in WORDS else {"version": "1"}
    return {"capabilities": {has: {}}, "serverInfo": {"name": "server", **version}}


def list_offered(method: str, params: dict[str, Any]) -> list[str]:
    """Return the host's capabilities, if the request has them."""
    meta = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities", {})
    return list(params.get("capabilities", {}) if method == "initialize" else meta)


def hear(request_id: object, method: str, params: dict[str, Any]) -> None:
    OFFERED.update(list_offered(method, params))
    if method == "server/discover" and "legacy" not in WORDS:
        told = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        answer(request_id, supportedVersions=["2026-07-28"], **told, **describe())
    elif method == "initialize" and "modern" not in WORDS:
        answer(request_id, protocolVersion=VALUES.get("version", "2025-11-25"), **describe())
    elif method == "tools/list" and "toolless" not in WORDS:
        tell_tools(request_id, params)
    elif "touchy" in WORDS:
        sys.exit("expected initialize")
    elif "stuck" in WORDS:
        WORDS.add("silent")
    elif "mute" not in WORDS:
        refuse(request_id, "Method not found")


def tell_tools(request_id: object, params: dict[str, Any]) -> None:
    if "dying" in WORDS:
        sys.exit("out of memory")
    if "refusing" in WORDS:
        refuse(request_id, "the database is locked", -32603)
        return
    if "curious" in WORDS:
        ask_for_roots()
    count, pages = int(VALUES.get("tools", 2)), int(VALUES.get("pages", 1))
    page = int(params.get("cursor", 0))
    count += len(OFFERED) if "adapting" in WORDS else 0
    names = [VALUES.get("name", "tool") + (f"-{at}" if at else "") for at in range(count)]
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names[page::pages]]
    more = {"nextCursor": str(page + 1)} if page + 1 < pages else {}
    answer(request_id, tools=tools, **more)
    if "anxious" in WORDS:
        time.sleep(0.2)
        ask_for_roots()


def ask_for_roots() -> None:
    say({"id": "roots", "method": "roots/list"})
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("id") == "roots":
            assert message["result"]["roots"][0]["uri"].startswith("file:///")
            return
    signal.pause()


def leave_a_child() -> None:
    """Start a process that stays, in a session of its own."""
    subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(3600)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def serve() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "silent" not in WORDS and "method" in message and "id" in message:
            hear(message["id"], message["method"], message.get("params", {}))


def check_surroundings() -> None:
    if VALUES.get("needs", "HOME") not in os.environ:
        sys.exit(f"{VALUES['needs']} is not set")
    if VALUES.get("in", os.getcwd()) != os.getcwd():
        sys.exit(f"started in {os.getcwd()}")
    if "dies" in WORDS and "npm" in WORDS:
        sys.exit("npm error could not determine executable to run\n" + "npm notice New!\n" * 6)
    if "dies" in WORDS and "says" in VALUES:
        sys.exit(VALUES["says"])
    if "dies" in WORDS:
        sys.exit(f"cannot log in with {os.environ.get('API_TOKEN')}\nAPI_KEY='0123456789'")


def is_first_start(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def main() -> None:
    signal.alarm(120)  # in case nothing else ends it
    liveness = socket.socket(socket.AF_UNIX)
    if "liveness" in VALUES:
        liveness.connect(VALUES["liveness"])
        liveness.sendall(f"server {os.getpid()}".encode())
    check_surroundings()
    if "noisy" in WORDS:
        os.write(1, b"Welcome to the server!\nlistening\n")
    if "imitating" in WORDS:
        os.write(2, IMITATION)
    if "littering" in WORDS:
        leave_a_child()
    if "shy" in VALUES and is_first_start(VALUES["shy"]):
        WORDS.add("silent")
    serve()
    if "stubborn" in WORDS:
        signal.pause()


if __name__ == "__main__":
    main()
