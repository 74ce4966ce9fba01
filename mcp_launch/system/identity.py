"""What makes a process the same process: a pid alone is not enough.

Pids are reused, so every sighting also carries the moment the process started,
as its reader spells it ("ticks:…" from /proc, "time:…" from psutil).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Verdict = Literal["same", "different", "unknown"]


class ProcessIdentity:
    """One process, told apart from any later process with the same pid."""

    __slots__ = ("pid", "start")

    def __init__(self, pid: int, start: str | None) -> None:
        self.pid = pid
        self.start = start  # None: this platform could not tell us


class Process:
    """One row of the process table."""

    __slots__ = ("identity", "name", "parent")

    def __init__(self, identity: ProcessIdentity, parent: int, name: str) -> None:
        self.identity = identity
        self.parent = parent  # its pid; 0 when there is none to be seen
        self.name = name  # what the kernel calls it


def compare(recorded: ProcessIdentity, seen: ProcessIdentity) -> Verdict:
    """Tell whether two sightings are of one process.

    "unknown" is not "different": callers that destroy something (reclaim a lease,
    end a process) must require "different"; callers that trust something (accept
    a parent as the host) must require "same".
    """
    if recorded.pid != seen.pid:
        return "different"
    if recorded.start is None or seen.start is None:
        return "unknown"
    if recorded.start.partition(":")[0] != seen.start.partition(":")[0]:
        return "unknown"  # two readers, two spellings of the same moment
    return "same" if recorded.start == seen.start else "different"
