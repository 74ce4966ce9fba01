"""Limits of a server's calls: how many at the same time, and how long each may take.

This only decides; `calls` holds calls back, delivers them, and ends those that take too long.
Only a launch whose profile sets a limit imports this module.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.routing import NotAdmitted
from mcp_launch.protocol import json_edit
from mcp_launch.values import NO_ANSWER_WITHIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.broker.routing import FollowedCall
    from mcp_launch.protocol.json_text import Message

# How many calls may wait for their turn. Beyond that they are refused: to stop reading from the
# host would keep its other messages from a server that may wait for one of them.
_HELD_LIMIT = 1000

# How long a late answer is expected at least, so that its host does not get it: few servers answer
# a call that was cancelled, and until then every long line is held, because it may be the answer.
_LATE_TIME = 60.0


class CallLimiter:
    """Decides which calls have to wait while a server is busy, and which have taken too long."""

    def __init__(self, *, call_timeout: float = 0.0, max_concurrent: int = 0) -> None:
        self._call_timeout = call_timeout  # in seconds; 0: no limit
        self._max_concurrent = max_concurrent  # 0: no limit

    # How many at the same time

    def is_busy(self, calls: Iterator[object]) -> bool:
        """Return whether a server with these calls has as many as it may get."""
        limit = self._max_concurrent
        return bool(limit) and sum(1 for _ in calls) >= limit

    def refuse(self, waiting: int, server: str) -> NotAdmitted | None:
        """Return why no other call may wait; None if it may."""
        if waiting < _HELD_LIMIT:
            return None
        count = f"{_HELD_LIMIT:,} calls already wait for {server}"
        return NotAdmitted(
            f"{count}, which works on {self._max_concurrent} at a time (max_concurrent)",
            "call again when some of them are finished",
            is_counted=True,
        )

    def stop_holding(self) -> None:
        """Let a server get any number of calls from now on: its input is about to end."""
        self._max_concurrent = 0

    # How long

    def give_time(self, call: FollowedCall, now: float) -> None:
        """Note when a call has to be answered that was delivered now, or that makes progress."""
        if self._call_timeout:
            call.deadline = now + self._call_timeout

    def expect_late_answer(self, now: float) -> float:
        """Return until when a server may still answer a call that is ended now."""
        return now + max(self._call_timeout, _LATE_TIME)

    @property
    def reason(self) -> str:
        """Why a call is ended, for the record and for its server."""
        return f"{NO_ANSWER_WITHIN}{tell_time(self._call_timeout)}"

    def cancel(self, known: bytes) -> bytes:
        """Return the message that cancels a call which has taken too long."""
        why: Message = {"reason": f"{self.reason} (call_timeout)"}
        cancelled = protocol.make_notification("notifications/cancelled", why)
        return json_edit.put(cancelled, known, "params", "requestId")

    def answer(self, line: bytes, server: str) -> bytes:
        """Return the answer to a call that has taken too long."""
        time = tell_time(self._call_timeout)
        problem = f"{server} neither answered this call nor reported progress within {time}"
        fix = (
            "check before you repeat it; then ask for less at once, or allow more time with "
            "call_timeout in the profile"
        )
        text = f"[mcp-launch] {problem}; it may have taken effect — fix: {fix}"
        return protocol.make_refusal(line, text)


def tell_time(seconds: float) -> str:
    """Return a time as a user would write it."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and not seconds % size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
