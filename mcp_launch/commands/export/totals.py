"""Count calls: totals since an export began, which are kept with its position.

They are cumulative, not deltas. A total that is sent twice is still the same total, so a crash
between sending and remembering counts nothing twice; and what one request failed to deliver is
part of the next.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from mcp_launch.commands.export import call_facts

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json

# The upper ends of the buckets of durations, in seconds, as the semantic conventions have them.
BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

# How many combinations of host, server, tool, outcome and protocol are counted. A server may
# make up tools without end; what is beyond this is counted together, as SDKs do it.
_MOST = 2000
OVERFLOW = ("", "", "", "", "")

# Of a call: its host, server, tool, outcome and protocol version.
Kind = tuple[str, str, str, str, str]


class Durations:
    """How many calls of one kind there were, and how long they took."""

    __slots__ = ("buckets", "count", "longest", "shortest", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0  # in seconds, as are all the others
        self.shortest = 0.0
        self.longest = 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)

    def add(self, seconds: float) -> None:
        """Count one call."""
        self.shortest = min(self.shortest, seconds) if self.count else seconds
        self.longest = max(self.longest, seconds)
        self.count += 1
        self.sum += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1


class Totals:
    """All calls, and all restarts of servers, since the export began."""

    def __init__(self) -> None:
        self.calls: dict[Kind, Durations] = {}
        self.restarts: dict[tuple[str, str], int] = {}  # by host and server
        self.seen_restarts: dict[str, int] = {}  # of each living launch, to count only new ones

    def add_call(self, record: dict[str, Json]) -> None:
        """Count one call."""
        host, server, tool, protocol = (
            call_facts.read_text(record, name) for name in ("host", "server", "tool", "protocol")
        )
        kind = (host, server, tool, call_facts.read_outcome(record), protocol)
        if kind not in self.calls and len(self.calls) >= _MOST:
            kind = OVERFLOW
        self.calls.setdefault(kind, Durations()).add(call_facts.read_duration(record) / 1000)

    def see_restarts(self, launches: dict[str, tuple[str, str, int]]) -> bool:
        """Count the new restarts of living launches; return whether anything has changed.

        Each launch has its host, its server, and how often that was replaced so far.
        """
        seen = {launch: count for launch, (_, _, count) in launches.items() if count}
        for launch, (host, server, count) in launches.items():
            new = count - self.seen_restarts.get(launch, 0)
            if new > 0:
                key = (call_facts.make_text(host), call_facts.make_text(server))
                self.restarts[key] = self.restarts.get(key, 0) + new
        has_changed = seen != self.seen_restarts
        self.seen_restarts = seen
        return has_changed

    def dump(self) -> dict[str, Any]:
        """Return the totals as JSON can have them."""
        return {
            "calls": [
                [*kind, one.count, one.sum, one.shortest, one.longest, one.buckets]
                for kind, one in self.calls.items()
            ],
            "restarts": [[*key, count] for key, count in self.restarts.items()],
            "seen_restarts": self.seen_restarts,
        }

    @classmethod
    def load(cls, data: dict[str, Any]) -> Totals:
        """Return the totals that `dump` returned.

        Raises:
            KeyError, TypeError, ValueError: It did not.

        """
        totals = cls()
        for *kind, count, total, shortest, longest, buckets in data["calls"]:
            host, server, tool, outcome, protocol = map(str, kind)
            one = totals.calls[host, server, tool, outcome, protocol] = Durations()
            one.count, one.sum = int(count), float(total)
            one.shortest, one.longest = float(shortest), float(longest)
            one.buckets = [int(each) for each in buckets]
            if len(one.buckets) != len(BOUNDS) + 1:
                raise ValueError("other bounds")
        for host, server, count in data["restarts"]:
            totals.restarts[str(host), str(server)] = int(count)
        for launch, count in data["seen_restarts"].items():
            totals.seen_restarts[str(launch)] = int(count)
        return totals
