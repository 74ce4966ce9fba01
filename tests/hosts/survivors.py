"""Find the processes of a server that are still alive when all should be gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

    from launches import LivenessSocket

ROLES = ["server", "child", "own-session", "daemon"]

# In seconds; the launcher gives a server that ignores everything four.
PATIENCE = 7.0


def list_survivors(liveness: LivenessSocket) -> list[str]:
    """Return the roles that are still alive after a generous wait."""
    return wait_for_ends(liveness.pids.items())


def wait_for_ends(known: Iterable[tuple[str, int]]) -> list[str]:
    """Return which of these, given by role and pid, are still alive after a generous wait."""
    processes = {}
    for role, pid in known:
        try:
            processes[psutil.Process(pid)] = role
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
    return [processes[process] for process in alive]
