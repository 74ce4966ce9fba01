"""End a server that nobody can reach, and all below it: on fresh proof, politely first."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from mcp_launch.errors import LaunchError
from mcp_launch.values import compare

if TYPE_CHECKING:
    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Survey
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import ProcessIdentity

# How long a server may take to finish after SIGTERM; the SDKs wait as long.
TERMINATED_GRACE = 2.0

# How long the kernel may take to end a process after SIGKILL: a busy disk holds it up.
KILLED_GRACE = 2.0

# How often to look who is left.
_INTERVAL = 0.05


def reap(survey: Survey, server: Server) -> None:
    """End a server and all below it, if it is still proven ownerless.

    Raises:
        LaunchError: It has an owner now, or something of it could not be ended.

    """
    now = survey.take_census().ownerless
    again = next((one for one in now if _is_same(server, one)), None)
    if again is None:
        if any(_is_alive(survey.table, root) for root in server.roots):
            raise LaunchError(
                f"{server} is no longer provably orphaned, and was not ended",
                fix="mcp-launch ps shows whose it is",
            )
        return  # it has ended by itself
    left = end(survey.table, again)
    if left:
        pids = ", ".join(map(str, left))
        raise LaunchError(
            f"{server}: could not end process {pids}",
            fix="look at what it waits for, or end it as the user it belongs to",
        )


def _is_same(seen: Server, now: Server) -> bool:
    return any(compare(before, after) == "same" for before in seen.roots for after in now.roots)


def end(table: ProcessTable, server: Server) -> list[int]:
    """End a tree, politely, then by force; return who is left.

    Whoever was once seen in the tree belongs to it, though its parent is gone by then.
    """
    tree = {root.pid: root for root in server.roots}
    _follow(table, tree)
    _signal(table, tree, signal.SIGTERM, TERMINATED_GRACE)
    _freeze(table, tree)
    _signal(table, tree, signal.SIGKILL, KILLED_GRACE)
    return [pid for pid, one in tree.items() if _is_alive(table, one)]


def _signal(
    table: ProcessTable, tree: dict[int, ProcessIdentity], number: signal.Signals, grace: float
) -> None:
    """Signal everybody once, also who is born meanwhile, until all are gone or time is up."""
    signalled: set[int] = set()
    deadline = time.monotonic() + grace
    while alive := [one for one in tree.values() if _is_alive(table, one)]:
        for one in alive:
            if one.pid not in signalled:
                signalled.add(one.pid)
                _send(table, one, number)
        if time.monotonic() > deadline:
            return
        time.sleep(_INTERVAL)
        _follow(table, tree)


def _freeze(table: ProcessTable, tree: dict[int, ProcessIdentity]) -> None:
    """Stop everybody, so that nobody is born unseen while others are killed."""
    stopped: set[int] = set()
    while fresh := [one for pid, one in tree.items() if pid not in stopped]:
        for one in fresh:
            stopped.add(one.pid)
            _send(table, one, signal.SIGSTOP)
        _follow(table, tree)


def _follow(table: ProcessTable, tree: dict[int, ProcessIdentity]) -> None:
    """Add to a tree whoever is below it now.

    By parents alone: the table's own list has, where orphans are not adopted, more in it
    than is ours to end.
    """
    parents = {pid for pid, one in tree.items() if _is_alive(table, one)}
    seen = [process for pid in table.list_pids() if (process := table.look(pid))]
    size = -1
    while size != len(tree):
        size = len(tree)
        for process in seen:
            pid = process.identity.pid
            if process.parent in parents and pid not in tree and pid != os.getpid():
                tree[pid] = process.identity
                parents.add(pid)


def _is_alive(table: ProcessTable, seen: ProcessIdentity) -> bool:
    now = table.look(seen.pid)
    if now is None or compare(seen, now.identity) != "same":
        return False
    return table.is_running(seen.pid)


def _send(table: ProcessTable, seen: ProcessIdentity, number: signal.Signals) -> None:
    """Signal a process that is still the one that was seen."""
    try:
        if not hasattr(os, "pidfd_open"):
            if _is_alive(table, seen):
                os.kill(seen.pid, number)
            return
        # A descriptor stays with its process, so that nobody else can take the pid
        # between our look and the signal.
        handle = os.pidfd_open(seen.pid)
        try:
            if _is_alive(table, seen):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except OSError:
        pass  # it ended by itself, or is not ours to signal: whoever is left is told
