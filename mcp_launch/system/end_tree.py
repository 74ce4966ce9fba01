"""End processes: all that are below this one, whatever they do to hide."""

from __future__ import annotations

import os
import time

from mcp_launch.system.signals import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable

# How often to sweep again while something survives SIGKILL (it forks faster than we look).
SWEEP_INTERVAL = 0.01

# When to leave alone what even SIGKILL does not end: another user's, or stuck in the kernel.
UNKILLABLE_AFTER = 5.0


def end_all(table: ProcessTable) -> None:
    """SIGKILL everything below this process until nothing is left.

    A process that forks while we look is caught by the next look: its children are
    adopted by us as it dies.
    """
    give_up = time.monotonic() + UNKILLABLE_AFTER
    while time.monotonic() < give_up:
        signal_all(table, SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            if not table.list_descendants(os.getpid()):
                return
        time.sleep(SWEEP_INTERVAL)


def signal_all(table: ProcessTable, number: int, spared_group: int = 0) -> None:
    """Send a signal to everything below this process, but for one group."""
    for pid in table.list_descendants(os.getpid()):
        try:
            if not spared_group or os.getpgid(pid) != spared_group:
                os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # it ended just now, or is another user's
