"""Answer the host's first request with the reason why there is no server.

Hosts do not show a launcher's stderr, but Codex and Claude Code show an error answer to
`initialize` word for word. A host that speaks both eras asks `server/discover` first. It
must get "Method not found", or it would take our error for a server of the new era.
"""

from __future__ import annotations

import os
import select
import time

from mcp_launch import protocol
from mcp_launch.protocol import json_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.errors import LaunchError

# How long to wait for the host's first request. Hosts send it at once; a script that keeps
# our stdin open and sends nothing must not hang on a failed launch.
_FIRST_REQUEST_GRACE = 3.0

# How long to wait for a host that does not read our answers.
_ROOM_MS = 10_000

# How long to wait after the answer for the host to close its end: closing a socket that
# holds unread data would discard our answer.
_HANG_UP_GRACE = 1.0


def answer_host(error: LaunchError) -> None:
    """Answer the host's pending and next requests, until it has the reason or closes."""
    answers = _HostAnswers(f"{error.problem} — fix: {error.fix}")
    for line in error.pending:
        answers.answer(line)
    if not os.isatty(0):
        answers.go_on(error.unfinished)


class _HostAnswers:
    def __init__(self, text: str) -> None:
        self.text = f"[mcp-launch] {text}"
        self.host_was_told = False

    def answer(self, line: bytes) -> None:
        request = protocol.read_request(line)
        if request is None:
            return
        if request[1] == "server/discover":
            request_id = json_edit.read_raw(line, "id")
            line = protocol.make_error(request_id, protocol.METHOD_NOT_FOUND, "Method not found")
        else:
            line = protocol.make_refusal(line, self.text)
            self.host_was_told = True
        _write_all(line)

    def go_on(self, rest: bytes) -> None:
        deadline = time.monotonic() + (
            _HANG_UP_GRACE if self.host_was_told else _FIRST_REQUEST_GRACE
        )
        while data := _read_until(deadline):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.answer(line)
            if self.host_was_told:
                deadline = min(deadline, time.monotonic() + _HANG_UP_GRACE)


def _read_until(deadline: float) -> bytes:
    poll = select.poll()
    poll.register(0, select.POLLIN)
    try:
        left = deadline - time.monotonic()
        return os.read(0, 1 << 16) if left > 0 and poll.poll(left * 1000) else b""
    except OSError:
        return b""  # the host has gone


def _write_all(line: bytes) -> None:
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    try:
        while line and poll.poll(_ROOM_MS):
            line = line[os.write(1, line) :]
    except OSError:
        pass  # the host has gone; stderr has the same text
