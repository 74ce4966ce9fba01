"""A server for real hosts: its tools report what it sees, and its options make it misbehave.

    probe_server.py [--modern] [--touchy] [--needs VARIABLE] [--noisy]
              [--notes PATH] [--liveness PATH MANNER]

Tools: `look` returns pid, cwd, environment, the number of calls so far, `_meta` and its arguments;
`shout` prints a line to stdout first; `wait` never answers. With a liveness socket it starts
descendants that tend to be left behind; its manner is hostile (all of them ignore signals) or slow
(it takes a while to finish, and then writes so). A touchy one exits on an unknown request. With
notes it records its start, fails, waits and offers tools as the notes say (all of them `look`),
and announces that the tools may change.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from hosts.notes import Notes
from scripts import forking_server

VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
MODERN = "2026-07-28"
INFO = {"name": "probe", "version": "1"}

# How long a slow server takes to finish: longer than Codex waits for it, and shorter than the
# launcher does.
FAREWELL = 0.25

TOOLS = ["look", "shout", "wait"]
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def describe_tool(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": "For tests.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True},
    }


def look(calls: int, params: dict[str, Any]) -> str:
    """Return what this server sees, encoded so that no host's quoting can spoil it."""
    sight = {"pid": os.getpid(), "cwd": os.getcwd(), "env": dict(os.environ)}
    said = {"meta": params.get("_meta"), "arguments": params.get("arguments")}
    told = json.dumps({**sight, "calls": calls, **said})
    return f"<<{base64.b64encode(told.encode()).decode()}>>"


class Server:
    def __init__(self, words: list[str], notes: Notes | None) -> None:
        self.is_modern = "--modern" in words
        self.is_noisy = "--noisy" in words
        self.is_touchy = "--touchy" in words
        self.capabilities = {"tools": {"listChanged": True} if notes else {}}
        self.tools = (notes and notes.read_tools()) or TOOLS
        self.calls = 0

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            if self.is_noisy:
                os.write(1, b"DEBUG: a request\nworking on it... ")
            message = json.loads(line)
            if message.get("method") == "subscriptions/listen" and self.is_modern:
                self.confirm(message)
            elif "method" in message and "id" in message:
                self.say({"id": message["id"], **self.answer(message)})

    def say(self, message: dict[str, Any]) -> None:
        os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def confirm(self, message: dict[str, Any]) -> None:
        meta = {SUBSCRIPTION: message["id"]}
        wanted = message["params"]["notifications"].get("toolsListChanged", False)
        params = {"_meta": meta, "notifications": {"toolsListChanged": wanted}}
        self.say({"method": "notifications/subscriptions/acknowledged", "params": params})

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        method, params = message["method"], message.get("params", {})
        result: dict[str, Any] | None = None
        if method == "initialize":
            asked = params["protocolVersion"]
            version = asked if asked in VERSIONS else VERSIONS[0]
            result = {"protocolVersion": version, "serverInfo": INFO}
            result["capabilities"] = self.capabilities
        elif method == "server/discover" and self.is_modern:
            result = {"supportedVersions": [MODERN], "capabilities": self.capabilities}
        elif method == "tools/list":
            result = {"tools": [describe_tool(name) for name in self.tools]}
        elif method == "tools/call":
            result = self.call(params)
        elif method == "ping":
            result = {}
        if result is None and self.is_touchy:
            sys.exit(f"what is {method}?")
        if result is None:
            return {"error": {"code": -32601, "message": f"no such method: {method}"}}
        if self.is_modern:
            result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            result["_meta"] = {"io.modelcontextprotocol/serverInfo": INFO}
        return {"result": result}

    def call(self, params: dict[str, Any]) -> dict[str, Any]:
        tool = params["name"]
        self.calls += 1
        if tool not in self.tools:
            return {"content": [{"type": "text", "text": f"no tool {tool}"}], "isError": True}
        if tool == "wait":
            signal.pause()
        if tool == "shout":
            os.write(1, b"DEBUG: a request\n")
        return {"content": [{"type": "text", "text": look(self.calls, params)}]}


def start_descendants(liveness: str, manner: str) -> None:
    forking_server.start("child", liveness, "hostile", forks=1, own_session=False)
    forking_server.start("own-session", liveness, "hostile", forks=1, own_session=True)
    forking_server.start("daemon", liveness, "hostile", forks=2, own_session=True)
    connection = forking_server.connect("server", liveness)
    if manner == "hostile":
        signal.alarm(120)  # in case nothing else ends it
        for number in forking_server.IGNORED:
            signal.signal(number, signal.SIG_IGN)
        return

    def finish(_number: int, _frame: object) -> None:
        for number in forking_server.IGNORED:
            signal.signal(number, signal.SIG_IGN)
        time.sleep(FAREWELL)
        connection.sendall(b"finished")
        os._exit(0)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, finish)


def option(words: list[str], name: str, place: int = 1) -> str:
    return words[words.index(name) + place] if name in words else ""


def main(words: list[str]) -> None:
    path = option(words, "--notes")
    notes = Notes(path) if path else None
    if notes:
        notes.record_start()
        if fault := notes.read_fault():
            sys.exit(fault)
    needed = option(words, "--needs")
    if needed and not os.environ.get(needed):
        sys.exit(f"{needed} is not set")
    liveness = option(words, "--liveness")
    manner = option(words, "--liveness", 2)
    if liveness:
        start_descendants(liveness, manner)
    if notes:
        notes.wait_until_released()
    Server(words, notes).serve()
    if manner == "hostile":
        signal.pause()
    elif liveness:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1:])
