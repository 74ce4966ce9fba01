"""The pipes of one launch: messages to and from the server, and its last lines on stderr.

Text from stderr is only quoted, never interpreted: the facts are in `state.outcome`.
"""

from __future__ import annotations

import os
import selectors
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_launch import protocol

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import IO

    from mcp_launch.protocol.json_text import Message

# A launcher whose input has ended is gone well before this, whatever its server does.
END_LIMIT = 10.0

# The longest line that is read; Claude Code's limit is the same.
_LINE_LIMIT = 16 << 20

# How long a terminated launcher may take to end its server and write the outcome.
_TERMINATED_LIMIT = 2.0

# How many of the last lines on stderr are kept, and how much of each is shown. Secrets are
# searched for in a longer part.
_LAST_LINES = 5
WIDTH = 300
_SEARCHED = 10 * WIDTH

# npm announces its own updates after whatever went wrong, in five lines.
_NOTICE = "npm notice"


class Wire:
    """One launch, and the host's side of the conversation with its server."""

    def __init__(
        self, process: subprocess.Popen[bytes], project: str, clean: Callable[[str], str]
    ) -> None:
        self.since = time.monotonic()
        self.last_lines: list[str] = []  # on stderr
        self.answers: dict[str, Message] = {}
        self.has_ended = False
        self._process = process
        self._project = project
        self._clean = clean
        self._selector = selectors.DefaultSelector()
        for stream, handle in (
            (process.stdout, self._on_stdout),
            (process.stderr, self._on_stderr),
        ):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, _WireReader(stream, handle))

    def ask(self, request_id: str, method: str, params: Message, until: float) -> Message | None:
        """Return the answer to a request; None if there is none in time or the launch has ended."""
        request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self.write(protocol.encode(request))
        while request_id not in self.answers and not self.has_ended and self._listen(until):
            pass
        return self.answers.get(request_id)

    def listen_for(self, seconds: float) -> None:
        """Read further messages for a while, and answer the server's requests."""
        until = time.monotonic() + seconds
        while not self.has_ended and self._listen(until):
            pass

    def write(self, line: bytes) -> None:
        """Write a message, unless the input is closed."""
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            return
        try:
            stdin.write(line)
        except BrokenPipeError:
            pass  # the launch has ended; its stdout says so, too

    def close(self) -> int:
        """Close the input, wait until the launch has ended, and return the exit code."""
        if self._process.stdin:
            self._process.stdin.close()
        if not self._drain(END_LIMIT):
            self._process.terminate()
            if not self._drain(_TERMINATED_LIMIT):
                self._process.kill()  # a killed launcher leaves nothing behind either
        self._selector.close()
        for stream in filter(None, (self._process.stdout, self._process.stderr)):
            stream.close()
        return self._process.wait()

    def _drain(self, seconds: float) -> bool:
        """Read both streams to their end; return False if that takes too long."""
        until = time.monotonic() + seconds
        while self._selector.get_map() and self._listen(until):
            pass
        return not self._selector.get_map()

    def _listen(self, until: float) -> bool:
        """Read what comes next; return False when the time is up."""
        left = until - time.monotonic()
        for key, _ in self._selector.select(max(0.0, left)):
            if not key.data.read():
                self._selector.unregister(key.fileobj)
                self.has_ended |= key.fileobj is self._process.stdout
        return left > 0

    def _on_stdout(self, line: bytes) -> None:
        message = protocol.look(line)
        if not isinstance(message, dict):
            return
        if protocol.is_request(message):
            self._answer(message)
        elif protocol.is_answer(message):
            self.answers[str(message["id"])] = message

    def _answer(self, request: Message) -> None:
        """Answer as a host would: a server may wait for it."""
        request_id = protocol.spell(request["id"])
        results: dict[str, Message] = {
            "ping": {},
            "elicitation/create": {"action": "cancel"},
            "roots/list": {"roots": [{"uri": Path(self._project).absolute().as_uri()}]},
        }
        result = results.get(str(request["method"]))
        if result is None:
            text = "the doctor does not support this request"
            self.write(protocol.make_error(request_id, protocol.METHOD_NOT_FOUND, text))
        else:
            self.write(protocol.make_result(request_id, result))

    def _on_stderr(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()
        if text and not text.startswith(_NOTICE):
            self.last_lines = [*self.last_lines, self.quote(text)][-_LAST_LINES:]

    def quote(self, line: str) -> str:
        """Return a line of the server's output, safe to show."""
        # In this order: half a secret would not be recognised.
        return self._clean(line[:_SEARCHED])[:WIDTH]


class _WireReader:
    """Splits what comes through a pipe into lines."""

    def __init__(self, stream: IO[bytes], handle: Callable[[bytes], None]) -> None:
        self._fd = stream.fileno()
        self._handle = handle
        self._rest = b""

    def read(self) -> bool:
        """Read what there is; return False at the end, or if a line is too long."""
        data = os.read(self._fd, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._handle(line)
        if not data and self._rest:
            self._handle(self._rest)
        return bool(data) and len(self._rest) <= _LINE_LIMIT
