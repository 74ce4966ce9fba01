"""A server that notes each of its starts, and does what the files in its directory ask for.

    counting_server.py DIRECTORY [WORD]...

`starts` gets a line for each start: the pid and the thread in the environment. It answers only
once `closed` is not there, a second later if `slow` is, and dies with an excuse while `broken` is.
Its tools are the names in `tools`, or in the file that follows `--tools`. The tool `child` starts
another program, `listen` opens a socket, `notify` has it send a log message when the file `notice`
appears, `pid` returns its pid, `grow` gives it one more tool, and announces that unless `silent`
is there.

It announces its lists as soon as it is initialized if `announces` is there. With `instructions`,
the greeting has that text, with `description`, each tool: $NAME is a variable, $QUOTED_NAME the
same with percent signs; with `escaped`, it writes every character of a text as its number.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

PLACE = Path(sys.argv[1])
TOOLS = Path(sys.argv[sys.argv.index("--tools") + 1]) if "--tools" in sys.argv else PLACE / "tools"
KEPT: list[Any] = []  # a child, a socket
GROWN: list[str] = []  # tools


def say(message: dict[str, Any]) -> None:
    text = json.dumps({"jsonrpc": "2.0", **message})
    if (PLACE / "escaped").exists():
        text = re.sub(r'(?<=: ")[^"\\]{9,}(?=")', escape, text)
    os.write(1, text.encode() + b"\n")


def escape(found: re.Match[str]) -> str:
    return "".join(f"\\u{ord(one):04x}" for one in found.group())


def tell(name: str) -> dict[str, str]:
    """Return a member with the text in a file, if it is there."""
    if not (PLACE / name).exists():
        return {}
    from string import Template  # this and others here, because most tests need none of it
    from urllib.parse import quote

    quoted = {f"QUOTED_{key}": quote(value, safe="") for key, value in os.environ.items()}
    text = Template((PLACE / name).read_text(encoding="utf-8"))
    return {name: text.safe_substitute(os.environ, **quoted)}


def announce() -> None:
    say({"method": "notifications/tools/list_changed"})


def wait_until(path: Path, *, is_there: bool) -> None:
    deadline = time.monotonic() + 20
    while path.exists() != is_there and time.monotonic() < deadline:
        time.sleep(0.005)


def notify() -> None:
    wait_until(PLACE / "notice", is_there=True)
    say({"method": "notifications/message", "params": {"level": "info", "data": "unasked"}})


def call(tool: str) -> None:
    if tool == "child":
        import subprocess

        KEPT.append(subprocess.Popen(["/bin/sleep", "3600"], stdin=subprocess.DEVNULL))
    elif tool == "listen":
        import socket

        KEPT.append(socket.create_server(("127.0.0.1", 0)))
    elif tool == "notify":
        import threading

        threading.Thread(target=notify, daemon=True).start()
    elif tool == "grow":
        GROWN.append("grown")
        if not (PLACE / "silent").exists():
            announce()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "logging": {}}
        told = tell("instructions")
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, **told}
    if method == "tools/list":
        names = TOOLS.read_text(encoding="utf-8").split() + GROWN
        told = tell("description")
        return {"tools": [{"name": name, "inputSchema": {}, **told} for name in names]}
    if method == "tools/call":
        call(params["name"])
        return {"content": [], "pid": os.getpid()}
    return {}


with (PLACE / "starts").open("a", encoding="utf-8") as starts:
    starts.write(f"{os.getpid()} {os.environ.get('CODEX_THREAD_ID')}\n")
if (PLACE / "broken").exists():
    sys.exit("no configuration found in settings.ini")
wait_until(PLACE / "closed", is_there=False)
if (PLACE / "slow").exists():
    time.sleep(1)
for line in sys.stdin:
    said = json.loads(line)
    if said["method"] == "notifications/initialized" and (PLACE / "announces").exists():
        announce()
    if "id" in said:
        say({"id": said["id"], "result": answer(said["method"], said.get("params", {}))})
