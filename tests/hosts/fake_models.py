"""Fake models: all services on one loopback port, following a script.

The script is the user's prompt itself. Each `call TOOL {ARGUMENTS}` in it becomes one call, in
that order, one at a time, in the format of the service; then the turn ends.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from hosts.model_formats import Call, ChatCompletions, GenerateContent, Messages, Responses, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.model_formats import Format, Turn

# In seconds: no host needs longer for a turn, even on a busy machine.
LIMIT = 90.0

_FORMATS: dict[str, Format] = {
    "/v1/responses": Responses(),
    "/v1/messages": Messages(),
    "/v1/chat/completions": ChatCompletions(),
}
_GOOGLE = GenerateContent()
_GOOGLES = ":generateContent"
_GOOGLES_STREAM = ":streamGenerateContent"


class Answer(NamedTuple):
    """A tool's answer, and the session or thread that asked."""

    asker: str
    tool: str
    text: str


class FakeModels:
    """All services, their requests, and the tools' answers."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.not_offered: list[tuple[str, str]] = []  # asker and tool
        self.calls: list[tuple[str, str]] = []  # ditto, in the order in which they were made
        self.before_call: Callable[[], object] = int  # a hook: may wait, or cause a fault
        self._answered: set[str] = set()
        self._changed = threading.Condition()
        self._service = _Service(self)
        self.port: int = self._service.server_address[1]
        threading.Thread(target=self._service.serve_forever, args=[0.02], daemon=True).start()

    def close(self) -> None:
        """Stop all services."""
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

    def decide(self, turn: Turn) -> Call | str:
        """Return the next call, or the text that ends the turn."""
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
            self.calls.append((turn.asker, step.tool))
            call_id = f"call-{len(self.calls)}"
        self.before_call()
        namespace, name = found[0]
        return Call(call_id, namespace, Step(name, step.arguments))

    def _note_answers(self, turn: Turn) -> None:
        # Every request holds the whole conversation: most of its answers are old.
        for call_id, text in turn.answers.items():
            if call_id not in self._answered:
                self._answered.add(call_id)
                tool = self.calls[int(call_id.removeprefix("call-")) - 1][1]
                self.answers.append(Answer(turn.asker, tool, text))
        self._changed.notify_all()


def _list_names(namespace: str, name: str) -> list[str]:
    # Codex 0.166 says ("mcp__probe", "look"), 0.125 "mcp__probe__" and other hosts all in one.
    return [name, f"{namespace.rstrip('_')}__{name}"]


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
        if path in _FORMATS:
            self._play(_FORMATS[path], json.loads(body))
        elif path.endswith((_GOOGLES, _GOOGLES_STREAM)):
            self._play(_GOOGLE, {**json.loads(body), "streams": path.endswith(_GOOGLES_STREAM)})
        elif path == "/v1/messages/count_tokens":
            self._send(200, b'{"input_tokens":1}', "application/json")
        else:
            self._refuse()

    def _refuse(self) -> None:
        # The hosts' proxy settings lead here, so requests to other addresses arrive too.
        self._send(404, b'{"error":{"message":"not here"}}', "application/json")
        self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_CONNECT = _refuse  # noqa: N815

    def _play(self, spoken: Format, request: dict[str, Any]) -> None:
        made = self.server.models.decide(spoken.read(request, self.headers))
        reply = spoken.spell(made, request)
        self._send(200, reply.data, reply.kind)

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
