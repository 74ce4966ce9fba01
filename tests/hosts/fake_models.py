"""Fake models: both services on one loopback port, following a script.

The script is the user's prompt itself. Each `call TOOL {ARGUMENTS}` in it becomes one call, in
that order, one at a time, in the format of the service; then the turn ends.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# In seconds: no host needs longer for a turn, even on a busy machine.
LIMIT = 40.0

_SCRIPT = re.compile(r"call ([A-Za-z0-9_-]+) (?=\{)")
_SESSION = re.compile(r'"session_id": ?"([0-9a-f-]{36})"')
_USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


class Step(NamedTuple):
    """A call that the user's prompt asks for."""

    tool: str
    arguments: dict[str, Any]


class Answer(NamedTuple):
    """A tool's answer, and the Codex thread or Claude Code session that asked."""

    asker: str
    tool: str
    text: str


class Turn(NamedTuple):
    """A request to a model, independent of the service."""

    asker: str
    steps: list[Step]  # of the user's last prompt
    answers: dict[str, str]  # to calls since then, by call
    offered: list[tuple[str, str]]  # namespace and name of each tool


class FakeModels:
    """Both services, their requests, and the tools' answers."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.not_offered: list[tuple[str, str]] = []  # asker and tool
        self.before_call: Callable[[], object] = int  # a hook: may wait, or cause a fault
        self._calls: dict[str, str] = {}  # the tool of each
        self._answered: set[str] = set()
        self._changed = threading.Condition()
        self._service = _Service(self)
        self.port: int = self._service.server_address[1]
        threading.Thread(target=self._service.serve_forever, args=[0.02], daemon=True).start()

    def close(self) -> None:
        """Stop both services."""
        self._service.shutdown()
        self._service.server_close()

    def wait_for(self, count: int) -> list[Answer]:
        """Return the tools' answers once there are `count`; a tool not offered counts as one."""
        deadline = time.monotonic() + LIMIT
        with self._changed:
            while len(self.answers) + len(self.not_offered) < count:
                assert self._changed.wait(deadline - time.monotonic()), (
                    f"{len(self.answers)} of {count} answered, not offered: {self.not_offered}"
                )
            return list(self.answers)

    def decide(self, turn: Turn) -> tuple[str, str, Step] | str:
        """Return the next call (its id, namespace and words), or the text that ends the turn."""
        with self._changed:
            self._note_answers(turn)
            if len(turn.answers) >= len(turn.steps) or not turn.offered:
                return "done"
            step = turn.steps[len(turn.answers)]
            found = [one for one in turn.offered if step.tool in _list_names(*one)]
            if not found:
                self.not_offered.append((turn.asker, step.tool))
                self._changed.notify_all()
                return f"there is no {step.tool}"
            call_id = f"call-{len(self._calls) + 1}"
            self._calls[call_id] = step.tool
        self.before_call()
        namespace, name = found[0]
        return call_id, namespace, Step(name, step.arguments)

    def _note_answers(self, turn: Turn) -> None:
        # Every request holds the whole conversation: most of its answers are old.
        for call_id, text in turn.answers.items():
            if call_id not in self._answered:
                self._answered.add(call_id)
                self.answers.append(Answer(turn.asker, self._calls[call_id], text))
        self._changed.notify_all()


def _list_names(namespace: str, name: str) -> list[str]:
    # Codex 0.166 says ("mcp__probe", "look"), 0.125 "mcp__probe__" and Claude Code all in one.
    return [name, f"{namespace.rstrip('_')}__{name}"]


def _read_script(content: Any) -> list[Step]:
    """Return the calls that a message asks for."""
    if not isinstance(content, str):
        content = "\n".join(part.get("text", "") for part in content or [])
    steps = []
    at = 0
    while found := _SCRIPT.search(content, at):
        arguments, at = json.JSONDecoder().raw_decode(content, found.end())
        steps.append(Step(found[1], arguments))
    return steps


class _Service(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, models: FakeModels) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models = models

    def handle_error(self, *_: Any) -> None:
        """Print nothing: a killed host does not wait for its answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Service

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = self._read_body()
        path = self.path.partition("?")[0]
        if path == "/v1/responses":
            self._send_events(self._play_responses(json.loads(body)))
        elif path == "/v1/messages":
            self._send_events(self._play_messages(json.loads(body)))
        elif path == "/v1/messages/count_tokens":
            self._send(200, b'{"input_tokens":1}', "application/json")
        else:
            self._refuse()

    def _refuse(self) -> None:
        # The hosts' proxy settings lead here, so requests to other addresses arrive too.
        self._send(404, b'{"error":{"message":"not here"}}', "application/json")
        self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_CONNECT = _refuse  # noqa: N815

    def _play_responses(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Answer Codex."""
        steps: list[Step] = []
        answers: dict[str, str] = {}
        for item in request["input"]:
            if item.get("role") == "user" and (script := _read_script(item.get("content"))):
                steps, answers = script, {}
            elif item.get("type") == "function_call_output":
                answers[item["call_id"]] = _to_text(item["output"])
        offered = []
        for tool in request.get("tools", []):
            inside = tool.get("tools", [tool])
            space = tool["name"] if "tools" in tool else ""
            offered += [(space, one.get("name", "")) for one in inside]
        asker = self.headers.get("thread-id") or self.headers.get("session_id") or ""
        made = self.server.models.decide(Turn(asker, steps, answers, offered))
        item = {"type": "message", "role": "assistant", "id": _make_id()}
        if isinstance(made, str):
            item["content"] = [{"type": "output_text", "text": made}]
        else:
            call_id, namespace, step = made
            item = {"type": "function_call", "call_id": call_id, "name": step.tool}
            item["arguments"] = json.dumps(step.arguments)
            if namespace:
                item["namespace"] = namespace
        response = {"id": _make_id(), "usage": _USAGE}
        return [
            {"type": "response.created", "response": response},
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": response},
        ]

    def _play_messages(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Answer Claude Code."""
        steps: list[Step] = []
        answers: dict[str, str] = {}
        for message in request["messages"]:
            content = message["content"]
            if message["role"] == "user" and (script := _read_script(content)):
                steps, answers = script, {}
            for part in content if isinstance(content, list) else []:
                if part.get("type") == "tool_result":
                    answers[part["tool_use_id"]] = _to_text(part.get("content"))
        offered = [("", tool.get("name", "")) for tool in request.get("tools", [])]
        found = _SESSION.search(request.get("metadata", {}).get("user_id", ""))
        asker = found[1] if found else ""
        made = self.server.models.decide(Turn(asker, steps, answers, offered))
        if isinstance(made, str):
            block: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": made}
        else:
            call_id, _, step = made
            block = {"type": "tool_use", "id": call_id, "name": step.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
        stop = "end_turn" if isinstance(made, str) else "tool_use"
        message = {"id": _make_id(), "type": "message", "role": "assistant", "content": []}
        message |= {"model": request.get("model"), "stop_reason": None, "usage": _USAGE}
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": _USAGE},
            {"type": "message_stop"},
        ]

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send_events(self, events: list[dict[str, Any]]) -> None:
        lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
        self._send(200, "".join(lines).encode(), "text/event-stream")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _make_id() -> str:
    # Messages with the same id count as one when a conversation is resumed.
    return f"id-{uuid.uuid4()}"


def _to_text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output)
