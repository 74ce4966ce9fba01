"""Count the recorded calls of each tool: how many, how many failed, how long they took."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_launch.machine.call_records import RecordedCall

# How far back the course of calls goes, and in how many steps, in seconds.
COURSE = 3600.0
STEPS = 12


class ToolStatistics(NamedTuple):
    """The calls of one tool of one server."""

    server: str
    tool: str
    calls: int
    failures: int
    # In milliseconds; None if no duration is known. The refused calls are left out: they would
    # make a slow tool look fast.
    p50: float | None
    p95: float | None
    slowest: float | None
    request: int  # bytes in all
    response: int
    first: float  # when the first one came, since 1970
    last: float
    last_hour: tuple[int, ...]  # how many came in each step of it, the oldest first

    @property
    def bytes(self) -> int:
        """What was sent in both directions."""
        return self.request + self.response


def count_calls(calls: Iterable[RecordedCall], now: float) -> list[ToolStatistics]:
    """Return the statistics of each tool, those with the most calls first."""
    tallies: dict[tuple[str, str], _Tally] = {}
    for call in calls:
        key = (call.server, call.tool)
        tally = tallies.get(key)
        if tally is None:
            tally = tallies[key] = _Tally(now)
        tally.add(call)
    counted = [tally.conclude(*key) for key, tally in sorted(tallies.items())]
    return sorted(counted, key=lambda one: one.calls, reverse=True)


class _Tally:
    """What is known of one tool's calls while they are read."""

    def __init__(self, now: float) -> None:
        self._begin = now - COURSE
        self._count = self._failures = self._request = self._response = 0
        self._durations: list[float] = []
        self._first, self._last = math.inf, -math.inf
        self._course = [0] * STEPS

    def add(self, call: RecordedCall) -> None:
        self._count += 1
        self._failures += call.has_failed
        self._request += call.request or 0
        self._response += call.response or 0
        self._first = min(self._first, call.time)
        self._last = max(self._last, call.time)
        if call.ms is not None and call.outcome != "refused":
            self._durations.append(call.ms)
        if call.time >= self._begin:
            step = int((call.time - self._begin) / COURSE * STEPS)
            self._course[min(step, STEPS - 1)] += 1

    def conclude(self, server: str, tool: str) -> ToolStatistics:
        durations = sorted(self._durations)
        return ToolStatistics(
            server,
            tool,
            self._count,
            self._failures,
            find_percentile(durations, 50),
            find_percentile(durations, 95),
            durations[-1] if durations else None,
            self._request,
            self._response,
            self._first,
            self._last,
            tuple(self._course),
        )


def find_percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that at least so many percent do not exceed; None: no values."""
    if not ordered:
        return None
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
