"""What the records say of a census's servers: calls of the last minute, failures of the last hour.

A lease counts all calls of its launch. How many there are at the moment, and how many failed,
only the records say. Calls that a launcher has refused are left out, as in the lease's count. The
first look reads an hour of them, and each later one only what is new.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.machine.call_records import Follower, read_each
from mcp_launch.machine.process_snapshot import RecentCalls
from mcp_launch.values import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.machine.call_records import RecordedCall
    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Census

# In seconds.
MINUTE = 60.0
HOUR = 3600.0


class _Seen(NamedTuple):
    """What is needed of a call."""

    time: float
    launch: str
    caller: str
    is_refused: bool  # by us: no server got it
    has_failed: bool  # at the server


class RecentRecords:
    """The records of the last hour, which grow with each look at them."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._follower: Follower | None = None
        self._seen: deque[_Seen] = deque()

    def add_to(self, census: Census) -> Census:
        """Return a census whose launched servers have their recent calls."""
        now = time.time()
        self._look(now)
        counts = self._count(now)

        def add(servers: Iterable[Server]) -> list[Server]:
            return [_add(server, counts, now) for server in servers]

        hosts = [
            host._replace(
                sessions=[one._replace(servers=add(one.servers)) for one in host.sessions]
            )
            for host in census.hosts
        ]
        return census._replace(hosts=hosts)

    def _look(self, now: float) -> None:
        if self._follower is None:
            self._follower = Follower(self._directory)
            self._take(reversed([*read_each(self._follower.parts, since=now - HOUR)]))
        self._take(self._follower.read())
        while self._seen and self._seen[0].time < now - HOUR:
            self._seen.popleft()

    def _take(self, calls: Iterable[RecordedCall]) -> None:
        self._seen += map(_see, calls)

    def _count(self, now: float) -> dict[tuple[str, str], RecentCalls]:
        """Return the counts of each launch, and of each session in it."""
        known: set[tuple[str, str]] = set()
        recent: Counter[tuple[str, str]] = Counter()
        failed: Counter[tuple[str, str]] = Counter()
        for one in self._seen:
            known.add((one.launch, one.caller))
            recent[one.launch, one.caller] += one.time >= now - MINUTE and not one.is_refused
            failed[one.launch, one.caller] += one.has_failed and one.time >= now - HOUR
        for launch, caller in [*known]:
            if caller:
                known.add((launch, ""))
                recent[launch, ""] += recent[launch, caller]
                failed[launch, ""] += failed[launch, caller]
        return {key: RecentCalls(recent[key], failed[key]) for key in known}


def _see(call: RecordedCall) -> _Seen:
    # Refusals are counted by the lease, and are no calls of the server.
    is_refused = call.outcome == REFUSED
    has_failed = call.has_failed and not is_refused
    return _Seen(call.time, call.launch, call.caller, is_refused, has_failed)


def _add(server: Server, counts: dict[tuple[str, str], RecentCalls], now: float) -> Server:
    launch = server.launch
    if launch is None or launch.wire == "direct":
        return server
    # A launch with a server for each session has a row for each of them.
    caller = (server.thread or server.session) if launch.backend else ""
    found = counts.get((launch.id, caller))
    was_called = launch.last_call is not None and launch.last_call >= now - HOUR
    if found is None and was_called:
        return server  # its calls are not recorded, or the first one has not ended yet
    return replace(server, recent=found or RecentCalls())
