"""A server for several sessions: it says who it is and what it heard, and keeps calls open.

Its tools:

    echo            returns its arguments, who serves it, and how many calls came before it
    count           counts the calls of this tool
    look            returns which calls are open, and which were cancelled
    big SIZE        returns a long text
    hold KEY        stays open until `release` names the key
    report KEY      sends progress of an open call, with the token of that call
    release KEY     answers an open call, and then itself
    ask METHOD      sends a request to the client, and returns the answer
    send METHOD     sends a notification with the given params
    announce        sends a notification in every open stream of the 2026 era
    finish          ends every open stream of the 2026 era
    pace PATH       from now on, takes a byte from this FIFO before each call, until it ends
    stay            from now on, ignores SIGTERM and stays when its input ends
    die             ends the process
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

# The capabilities of a server that does everything the tools above can ask for.
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True},
    "logging": {},
}


class Server:
    """What one process remembers."""

    def __init__(self) -> None:
        self.served = self.counted = self.asked = 0
        self.held: dict[str, dict[str, Any]] = {}  # open calls by their key
        self.askers: dict[str, object] = {}  # our requests, and the calls that wait for them
        self.streams: list[object] = []  # the ids of `subscriptions/listen`
        self.permits: int | None = None
        self.stays = False
        self.cancelled: list[str] = []

    def hear(self, message: dict[str, Any]) -> None:
        method, request_id = message.get("method"), message.get("id")
        params = message.get("params", {})
        if method is None:
            answer(self.askers.pop(str(request_id)), told=message)
        elif method == "tools/call":
            self.call(request_id, params)
        elif method == "notifications/cancelled":
            self.cancel(params["requestId"])
        elif method == "subscriptions/listen":
            self.streams.append(request_id)
            notify("notifications/subscriptions/acknowledged", _meta={SUBSCRIPTION: request_id})
        elif request_id is not None:
            answer(request_id, **describe(method, params))

    def call(self, request_id: object, params: dict[str, Any]) -> None:
        if self.permits is not None and not os.read(self.permits, 1):
            os.close(self.permits)
            self.permits = None
        self.served += 1
        meta = params.get("_meta", {})
        tool = getattr(self, "tool_" + params["name"])
        tool(request_id, meta, **params.get("arguments", {}))

    def cancel(self, request_id: object) -> None:
        keys = [key for key, one in self.held.items() if one["id"] == request_id]
        self.cancelled += keys or ["no open call"]
        for key in keys:
            del self.held[key]

    def tool_echo(self, request_id: object, meta: dict[str, Any], **said: Any) -> None:
        answer(
            request_id,
            content=[],
            said=said,
            pid=os.getpid(),
            cwd=os.getcwd(),
            session=os.environ.get("SESSION"),
            context=meta.get("mcp-launch/context"),
            served=self.served,
        )

    def tool_count(self, request_id: object, _meta: object) -> None:
        self.counted += 1
        session = os.environ.get("SESSION")
        answer(request_id, content=[], count=self.counted, pid=os.getpid(), session=session)

    def tool_look(self, request_id: object, _meta: object) -> None:
        held = sorted(self.held)
        answer(request_id, content=[], held=held, cancelled=self.cancelled)

    def tool_big(self, request_id: object, _meta: object, size: int) -> None:
        answer(request_id, content=[], text="x" * size)

    def tool_hold(self, request_id: object, meta: dict[str, Any], key: str) -> None:
        self.held[key] = {"id": request_id, "token": meta.get("progressToken")}

    def tool_report(self, request_id: object, _meta: object, key: str) -> None:
        token = self.held[key]["token"]
        notify("notifications/progress", progressToken=token, progress=1, message=key)
        answer(request_id, content=[])

    def tool_release(self, request_id: object, _meta: object, key: str) -> None:
        answer(self.held.pop(key)["id"], content=[], held=key, pid=os.getpid())
        answer(request_id, content=[], released=key)

    def tool_ask(self, request_id: object, _meta: object, method: str) -> None:
        self.asked += 1
        self.askers[str(self.asked)] = request_id
        say({"id": self.asked, "method": method, "params": {}})

    def tool_send(
        self, request_id: object, _meta: object, method: str, **params: dict[str, Any]
    ) -> None:
        notify(method, **params)
        answer(request_id, content=[])

    def tool_announce(self, request_id: object, _meta: object) -> None:
        for stream in self.streams:
            notify("notifications/tools/list_changed", _meta={SUBSCRIPTION: stream})
        answer(request_id, content=[])

    def tool_finish(self, request_id: object, _meta: object) -> None:
        while self.streams:
            stream = self.streams.pop(0)
            answer(stream, resultType="complete", _meta={SUBSCRIPTION: stream})
        answer(request_id, content=[])

    def tool_pace(self, request_id: object, _meta: object, path: str) -> None:
        self.permits = os.open(path, os.O_RDONLY)
        answer(request_id, content=[])

    def tool_stay(self, request_id: object, _meta: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.stays = True
        answer(request_id, content=[])

    def tool_die(self, _request_id: object, _meta: object) -> None:
        os._exit(7)


def describe(method: str | None, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request that changes nothing here."""
    if method == "initialize":
        version = params.get("protocolVersion")
        info = {"name": "sessions", "version": "1"}
        return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": info}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}
    if method == "tools/list":
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    return {}


def answer(request_id: object, **result: Any) -> None:
    say({"id": request_id, "result": result})


def notify(method: str, **params: Any) -> None:
    say({"method": method, "params": params})


def say(message: dict[str, Any]) -> None:
    data = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    while data:
        data = data[os.write(1, data) :]


def main() -> None:
    server = Server()
    for line in sys.stdin.buffer:
        server.hear(json.loads(line))
    if server.stays:
        signal.alarm(120)  # ends it if no test does
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
