"""Both ends of a launch's pipes: messages out and in, and the last lines of stderr.

What is on stderr is quoted to people, never interpreted: see `state.outcome` for the facts.
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

# A launcher whose input has ended is gone well before, whatever its server does.
END_LIMIT = 10.0

# A line that does not end: Claude Code gives up as soon.
_LINE_LIMIT = 16 << 20

# A launcher that is told to end then, ends its server at once, and notes what became of it.
_TERMINATED_LIMIT = 2.0

# How many of the last lines on stderr are kept, and how much of each is shown; more of it is
# looked at for secrets before.
_LAST_WORDS = 5
WIDTH = 300
_LOOKED_AT = 10 * WIDTH


class Wire:
    """One launch, and the host's part of the conversation with its server."""

    def __init__(
        self, process: subprocess.Popen[bytes], project: str, clean: Callable[[str], str]
    ) -> None:
        self.since = time.monotonic()
        self.last_words: list[str] = []  # on stderr
        self.answers: dict[str, Message] = {}
        self.has_ended = False
        self._process = process
        self._project = project
        self._clean = clean
        self._selector = selectors.DefaultSelector()
        for stream, hear in ((process.stdout, self._hear), (process.stderr, self._overhear)):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, _WireReader(stream, hear))

    def ask(self, request_id: str, method: str, params: Message, until: float) -> Message | None:
        """Return the answer to a request; None if there was none in time, or will be none."""
        request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self.write(protocol.encode(request))
        while request_id not in self.answers and not self.has_ended and self._listen(until):
            pass
        return self.answers.get(request_id)

    def listen_for(self, seconds: float) -> None:
        """Hear what else a server says, and answer what it asks."""
        until = time.monotonic() + seconds
        while not self.has_ended and self._listen(until):
            pass

    def write(self, line: bytes) -> None:
        """Say something, unless the server asks when all is over."""
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            return
        try:
            stdin.write(line)
        except BrokenPipeError:
            pass  # the launch has ended; its stdout says so, too

    def close(self) -> int:
        """End the input, wait until nothing is left, and return the exit code."""
        if self._process.stdin:
            self._process.stdin.close()
        if not self._hear_out(END_LIMIT):
            self._process.terminate()
            if not self._hear_out(_TERMINATED_LIMIT):
                self._process.kill()  # a launcher that is killed leaves nothing either
        self._selector.close()
        for stream in filter(None, (self._process.stdout, self._process.stderr)):
            stream.close()
        return self._process.wait()

    def _hear_out(self, seconds: float) -> bool:
        """Hear all that is still said; False if it does not end in time."""
        until = time.monotonic() + seconds
        while self._selector.get_map() and self._listen(until):
            pass
        return not self._selector.get_map()

    def _listen(self, until: float) -> bool:
        """Hear what is said next; False when the time is over."""
        left = until - time.monotonic()
        for key, _ in self._selector.select(max(0.0, left)):
            if not key.data.read():
                self._selector.unregister(key.fileobj)
                self.has_ended |= key.fileobj is self._process.stdout
        return left > 0

    def _hear(self, line: bytes) -> None:
        told = protocol.look(line)
        if not isinstance(told, dict):
            return
        if protocol.is_request(told):
            self._answer(told)
        elif protocol.is_answer(told):
            self.answers[str(told["id"])] = told

    def _answer(self, request: Message) -> None:
        """Say what a host would: a server may wait for it before it goes on."""
        request_id = protocol.spell(request["id"])
        results: dict[str, Message] = {
            "ping": {},
            "roots/list": {"roots": [{"uri": Path(self._project).absolute().as_uri()}]},
        }
        result = results.get(str(request["method"]))
        if result is None:
            text = "the doctor does not do that"
            self.write(protocol.make_error(request_id, protocol.METHOD_NOT_FOUND, text))
        else:
            self.write(protocol.make_result(request_id, result))

    def _overhear(self, line: bytes) -> None:
        if text := line.decode(errors="replace").strip():
            # In this order: half a secret is not recognised any more.
            said = self._clean(text[:_LOOKED_AT])[:WIDTH]
            self.last_words = [*self.last_words, said][-_LAST_WORDS:]


class _WireReader:
    """Makes lines of what comes through a pipe."""

    def __init__(self, stream: IO[bytes], hear: Callable[[bytes], None]) -> None:
        self._fd = stream.fileno()
        self._hear = hear
        self._rest = b""

    def read(self) -> bool:
        """Take what there is; False at the end, and of a line that has none."""
        data = os.read(self._fd, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._hear(line)
        if not data and self._rest:
            self._hear(self._rest)
        return bool(data) and len(self._rest) <= _LINE_LIMIT
