"""End an unreachable server and its descendants: prove it again, SIGTERM first, then SIGKILL."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from mcp_launch.errors import LaunchError
from mcp_launch.machine import server_pools
from mcp_launch.values import compare

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Survey
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import ProcessIdentity

# How long a server may take to finish after SIGTERM; the SDKs wait just as long.
TERMINATED_GRACE = 2.0

# How long a process may take to disappear after SIGKILL: a busy disk delays it.
KILLED_GRACE = 2.0

# How often to check which processes are left.
_INTERVAL = 0.05


def reap(survey: Survey, server: Server) -> None:
    """End a server and its descendants, if it is still provably orphaned.

    Raises:
        LaunchError: It is no longer provably orphaned, or a process could not be ended.

    """
    now = survey.take_census().ownerless
    again = next((one for one in now if _is_same(server, one)), None)
    if again is None:
        if any(_is_alive(survey.table, root) for root in server.roots):
            raise LaunchError(
                f"{server} is no longer provably orphaned, and was not ended",
                fix="run mcp-launch ps to see its host",
            )
        return  # it has exited
    left = end(survey.table, again, server_pools.list_spared(survey.table, survey.state))
    if left:
        pids = ", ".join(map(str, left))
        raise LaunchError(
            f"{server}: could not end process {pids}",
            fix="check what it is waiting for, or end it as the user who owns it",
        )


def _is_same(seen: Server, now: Server) -> bool:
    return any(compare(before, after) == "same" for before in seen.roots for after in now.roots)


def end(table: ProcessTable, server: Server, spared: Collection[int] = ()) -> list[int]:
    """End a process tree with SIGTERM, then SIGKILL; return the pids that are left.

    A process once seen in the tree stays part of it, even after its parent is gone. What is
    spared never becomes part of it: a pool that other launches use.
    """
    tree = _Tree(table, server.roots, spared)
    tree.follow()
    _signal(tree, signal.SIGTERM, TERMINATED_GRACE)
    _freeze(tree)
    _signal(tree, signal.SIGKILL, KILLED_GRACE)
    return [one.pid for one in tree.list_alive()]


class _Tree:
    """Processes and their descendants, as far as they have been seen."""

    def __init__(
        self, table: ProcessTable, roots: Iterable[ProcessIdentity], spared: Collection[int]
    ) -> None:
        self.table = table
        self.seen = {root.pid: root for root in roots}
        self._spared = {os.getpid(), *spared}

    def follow(self) -> None:
        """Add the current descendants.

        Found by their parents only: where orphans are not adopted, the table's own list of
        descendants includes processes that we must not end.
        """
        parents = {one.pid for one in self.list_alive()}
        processes = [one for pid in self.table.list_pids() if (one := self.table.look(pid))]
        size = -1
        while size != len(self.seen):
            size = len(self.seen)
            for process in processes:
                pid = process.identity.pid
                is_known = pid in self.seen or pid in self._spared
                if process.parent in parents and not is_known:
                    self.seen[pid] = process.identity
                    parents.add(pid)

    def list_alive(self) -> list[ProcessIdentity]:
        """Return those that still run."""
        return [one for one in self.seen.values() if _is_alive(self.table, one)]


def _signal(tree: _Tree, number: signal.Signals, grace: float) -> None:
    """Signal each process once, new ones too, until all are gone or the time is up."""
    signalled: set[int] = set()
    deadline = time.monotonic() + grace
    while alive := tree.list_alive():
        for one in alive:
            if one.pid not in signalled:
                signalled.add(one.pid)
                send(tree.table, one, number)
        if time.monotonic() > deadline:
            return
        time.sleep(_INTERVAL)
        tree.follow()


def _freeze(tree: _Tree) -> None:
    """Stop every process, so that none can fork unseen while others are killed."""
    stopped: set[int] = set()
    while fresh := [one for one in tree.list_alive() if one.pid not in stopped]:
        for one in fresh:
            stopped.add(one.pid)
            send(tree.table, one, signal.SIGSTOP)
        # One that is in the middle of a fork stops only after it, and its child has no parent as
        # soon as it is killed.
        time.sleep(_INTERVAL)
        tree.follow()


def _is_alive(table: ProcessTable, seen: ProcessIdentity) -> bool:
    now = table.look(seen.pid)
    if now is None or compare(seen, now.identity) != "same":
        return False
    return table.is_running(seen.pid)


def send(table: ProcessTable, seen: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal a process if it is still the one that was seen; return whether it was signalled."""
    try:
        if not hasattr(os, "pidfd_open"):
            is_same = _is_alive(table, seen)
            if is_same:
                os.kill(seen.pid, number)
            return is_same
        # A pidfd stays with its process: the signal cannot reach another one that got
        # the same pid between our check and the signal.
        handle = os.pidfd_open(seen.pid)
        try:
            is_same = _is_alive(table, seen)
            if is_same:
                signal.pidfd_send_signal(handle, number)
            return is_same
        finally:
            os.close(handle)
    except (OSError, OverflowError):
        return False  # it exited, we may not signal it, or no process can have such a pid
