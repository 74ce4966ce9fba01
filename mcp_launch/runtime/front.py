"""The first stage of a launch whose server is not started yet: answers its host from memory.

Most servers are never called. Until something comes that memory cannot answer, the core and all
that it needs are not even imported. They then get everything that the host has said so far, and
come to the same answers: this is a part of what they do, not another way to do it.
"""

from __future__ import annotations

import os
import time

from mcp_launch.errors import OutOfResources
from mcp_launch.protocol import make_refusal, make_result
from mcp_launch.protocol.lines import Lines
from mcp_launch.protocol.memory import Remembered, name_client
from mcp_launch.protocol.message import NOTIFICATION, REQUEST, read
from mcp_launch.runtime.loop import CHUNK, Loop
from mcp_launch.runtime.writer import Writer
from mcp_launch.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.launch.running import Running
    from mcp_launch.protocol.message import Message

# How many descriptors the start of a server needs, with the modules that are imported for it.
_NEEDED = 15

# When the lease is written: not while the host waits for its answers.
_LEASE_AFTER = 0.25


class Front:
    """Reads what the host says, and answers it as long as memory can."""

    def __init__(self, running: Running) -> None:
        self.hosts = running.watch_hosts()
        self.loop = Loop()
        self.out = Writer(self.loop, 1, on_moved=self.loop.stop, on_broken=self.loop.stop)
        self.lines = Lines()
        self.answered: list[bytes] = []  # what was said, and needs no other answer
        self.unanswered: list[bytes] = []
        self.memories: dict[str, Remembered] = {}
        self._client = ""  # the kind of client that the host is
        # For a host that ignores changed lists, an old memory is compared with its server.
        self._compares = running.found.facts.ignores_changed_lists
        self._running = running

    def serve(self, wake: int) -> None:
        """Answer from memory until something else is needed."""
        loop = self.loop
        loop.watch(0, self._read)
        loop.watch(wake, loop.stop)
        loop.watch_hosts(self.hosts, loop.stop)
        loop.set_timer("lease", _LEASE_AFTER, self._write_lease)
        loop.run()
        while self.unanswered and not self._has_room():
            loop.run()
        loop.cancel_timer("lease")
        for fd in (0, wake):
            loop.unwatch(fd)  # others handle them from now on

    def _has_room(self) -> bool:
        """Return whether a server could be started; if not, refuse what asks for one."""
        try:
            kernel.reserve_descriptors(_NEEDED)
        except OSError as error:
            refused, lines = OutOfResources(error), self.unanswered
            text = f"[mcp-launch] {refused.problem} — fix: {refused.fix}"
            self.unanswered = []
            for message in map(read, lines):
                if message.kind == REQUEST:
                    self.out.put(make_refusal(message.id, message.method, text))
            return False
        return True

    def _read(self) -> None:
        try:
            data = os.read(0, CHUNK)
        except OSError:
            data = b""
        if not data:
            self.loop.stop()  # whoever reads next finds the end, too
        for line in self.lines.feed(data) if data else ():
            if self.unanswered or not self._answer(line):
                self.unanswered.append(line)
        if self.unanswered or self.out.pending or self.out.is_closed:
            self.loop.stop()

    def _answer(self, line: bytes) -> bool:
        """Return whether memory has answered a line, or it needs no answer now."""
        message = read(line)
        if message.kind == NOTIFICATION and message.method == "notifications/initialized":
            self.answered.append(line)
            return True
        is_late = message.method == "server/discover" and bool(self.answered)
        if message.kind != REQUEST or is_late:
            return False
        memory = self._find_memory(message)
        if memory is None or (self._compares and memory.is_due):
            return False
        answer = memory.answer(message.parse(), line, time.monotonic())
        if not answer and message.method == "ping" and self._client:
            answer = make_result(message.id, {})
        if not answer:
            return False
        if message.method == "initialize" and answer.find(b'"result"') >= 0:
            self._client = memory.client
        self.answered.append(line)
        self.out.put(answer)
        return True

    def _find_memory(self, message: Message) -> Remembered | None:
        name = name_client(message.parse()) or self._client
        if name and name not in self.memories:
            now = time.monotonic()
            self.memories[name] = self._running.open_handshakes().read(name, now) or Remembered(
                name, now
            )
        return self.memories.get(name)

    def _write_lease(self) -> None:
        from mcp_launch.runtime.lease import LeaseWriter, find_outer

        size = max((one.size_of_server for one in self.memories.values()), default=0)
        outer = find_outer(self._running)
        self._running.open_log()
        LeaseWriter(self._running, outer).write_absent(size)
