"""Which processes of a server are still there when all of them should be gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from launches import LivenessSocket

ROLES = ["server", "child", "own-session", "daemon"]

# The launcher gives a server that ignores everything four seconds.
PATIENCE = 7.0


def list_survivors(liveness: LivenessSocket) -> list[str]:
    """Return who is still there, once everybody had the time to go."""
    processes = {}
    for role, pid in liveness.pids.items():
        try:
            processes[psutil.Process(pid)] = role
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
    return [processes[process] for process in alive]
