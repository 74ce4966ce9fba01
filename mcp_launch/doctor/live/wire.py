"""Both ends of a launch's pipes: messages out and in, and what is said beside them."""

from __future__ import annotations

import os
import re
import selectors
import time
from dataclasses import dataclass, field
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

# How many of a server's last lines on stderr are kept, and how much of each; of what is longer,
# how much is looked at for secrets before.
_LAST_WORDS = 5
_WIDTH = 300
_LOOKED_AT = 10 * _WIDTH

# What the launcher says on its own stderr, and what the server's lines lack.
OURS = "[mcp-launch] "
_NOISE = " wrote this to stdout, it is no message: "
_GOES_ON = "the server goes on after the end of its input"
_LEFT = re.compile(r"the server left (\d+) process(?:es)? behind")


@dataclass
class Overheard:
    """What was not said to the host."""

    noise: list[str] = field(default_factory=list)  # on stdout, and no message
    last_words: list[str] = field(default_factory=list)  # on stderr
    goes_on: bool = False  # after the end of its input
    left_behind: int = 0  # processes


class Wire:
    """One launch, and the host's part of the conversation with its server."""

    def __init__(
        self, process: subprocess.Popen[bytes], project: str, clean: Callable[[str], str]
    ) -> None:
        self.since = time.monotonic()
        self.overheard = Overheard()
        self.answers: dict[str, Message] = {}
        self.has_ended = False
        self._process = process
        self._project = project
        self._clean = clean
        self._selector = selectors.DefaultSelector()
        for stream, hear in ((process.stdout, self._hear), (process.stderr, self._overhear)):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, _Reader(stream, hear))

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
        until = time.monotonic() + END_LIMIT
        while self._selector.get_map() and self._listen(until):
            pass
        if self._selector.get_map():
            self._process.kill()  # a launcher that is killed leaves nothing either
        self._selector.close()
        for stream in filter(None, (self._process.stdout, self._process.stderr)):
            stream.close()
        return self._process.wait()

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
        text = line.decode(errors="replace").strip()
        heard = self.overheard
        if not text.startswith(OURS):
            heard.last_words = [*heard.last_words, self._cut(text)][-_LAST_WORDS:] if text else []
            return
        told = text.removeprefix(OURS)
        if _NOISE in told:
            heard.noise.append(self._cut(told.partition(_NOISE)[2]))
        heard.goes_on |= told.startswith(_GOES_ON)
        if found := _LEFT.fullmatch(told):
            heard.left_behind += int(found[1])

    def _cut(self, text: str) -> str:
        # In this order: half a secret is not recognised any more.
        return self._clean(text[:_LOOKED_AT])[:_WIDTH]


class _Reader:
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
