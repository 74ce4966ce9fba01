"""Tell when the host ends: at once where the kernel says so, else by looking again.

Launcher and guardian each have one of these: either may be stopped or dead by then.
"""

from __future__ import annotations

import os

from mcp_launch.system import kernel
from mcp_launch.values import compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process


class HostWatch:
    """The processes whose end is the host's, and how the end of each becomes known."""

    __slots__ = ("_looked_at", "_parent", "_table", "descriptors", "is_lost")

    # How often to look whether they are still there, where no descriptor tells of an end
    # (no pidfd to be had: an old kernel, a filter on system calls). It costs microseconds.
    interval = 0.5

    def __init__(self, table: ProcessTable, pids: list[int], parent: int | None = None) -> None:
        """Watch these; `parent` is the one of them that started this very process."""
        self._table = table
        self._parent = parent
        self._looked_at: list[Process] = []
        self.descriptors: list[int] = []  # readable when one has ended
        # Adopted by another: our parent ended while we started.
        self.is_lost = parent is not None and os.getppid() != parent
        for pid in pids:
            # 0: it is outside our pid namespace, where nothing tells of it.
            if pid > 0:
                self._watch(pid)

    def _watch(self, pid: int) -> None:
        try:
            fd = kernel.open_watch(pid)
        except ProcessLookupError:
            self.is_lost = True
            return
        if fd is not None:
            self.descriptors.append(fd)
            return
        process = self._table.look(pid)
        if process is None:
            self.is_lost = True
        else:
            self._looked_at.append(process)

    @property
    def needs_looking(self) -> bool:
        """Whether there is one of whose end no descriptor tells."""
        return bool(self._looked_at)

    def look(self) -> bool:
        """Tell whether one of those has ended."""
        if self._parent is not None and os.getppid() != self._parent:
            return True  # sooner than the table, which still shows it until it is collected
        return any(self._has_ended(known) for known in self._looked_at)

    def _has_ended(self, known: Process) -> bool:
        seen = self._table.look(known.identity.pid)
        return (
            seen is None
            or compare(known.identity, seen.identity) == "different"
            or not self._table.is_running(known.identity.pid)
        )
