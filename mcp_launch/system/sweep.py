"""Kills what a guardian or a keeper could not end."""

from __future__ import annotations

import os
import time

from mcp_launch.system.guardian_process import SWEEP_INTERVAL, UNKILLABLE_AFTER
from mcp_launch.system.kernel import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_launch.system import ProcessTable


def end_all(table: ProcessTable, spared: Collection[int] = ()) -> None:
    """SIGKILL every process below this one until none is left, or UNKILLABLE_AFTER has passed.

    A process that forks while we list is caught by the next round: as it dies, we adopt its
    children. `spared` are children of ours that go on, with everything below them.
    """
    give_up = time.monotonic() + UNKILLABLE_AFTER
    while time.monotonic() < give_up:
        below = _list_below(table, spared)
        for pid in below:
            try:
                os.kill(pid, SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # it has just ended, or is another user's
        # Those that are spared are not to be reaped here.
        reaped = [_reap(pid) for pid in (below if spared else [-1])]
        if all(reaped) and not _list_below(table, spared):
            return
        time.sleep(SWEEP_INTERVAL)


def _list_below(table: ProcessTable, spared: Collection[int]) -> list[int]:
    kept = {pid for top in spared for pid in (top, *table.list_descendants(top))}
    return [pid for pid in table.list_descendants(os.getpid()) if pid not in kept]


def _reap(pid: int) -> bool:
    """Reap a child, or all; return whether there is no such child any more."""
    try:
        while os.waitpid(pid, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False
