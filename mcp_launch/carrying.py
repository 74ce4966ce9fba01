"""The rest of a launch, once the server is on its way: its lease, its wire, its end.

Imported while the server boots, as is everything that only this needs.
"""

from __future__ import annotations

import os

from mcp_launch import binding, kernel, leases, state, trace
from mcp_launch.identity import compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.context import Context
    from mcp_launch.guardian import Guardian
    from mcp_launch.leases import Lease
    from mcp_launch.lineage import Lineage
    from mcp_launch.plan import Plan
    from mcp_launch.processes import ProcessTable
    from mcp_launch.profile import Profile
    from mcp_launch.spawning import Pipes


class Running:
    """A server that was started: for whom, by whom, and below which guardian."""

    __slots__ = ("decided", "found", "guardian", "line", "table", "wanted")

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        *,
        wanted: Profile,
        table: ProcessTable,
        line: Lineage,
        found: Context,
        decided: Plan,
        guardian: Guardian,
    ) -> None:
        self.wanted = wanted
        self.table = table
        self.line = line
        self.found = found
        self.decided = decided
        self.guardian = guardian


def carry(running: Running, pipes: Pipes | None, wake: int, hosts: list[int], said: bytes) -> int:
    """Stay with the server until nothing of it is left; return its exit code.

    `said`: what was read of the host's words already.
    """
    lease = _take_lease(running)
    watches, is_lost = watch_hosts(running, hosts)
    try:
        if pipes is None:
            from mcp_launch.direct import Watch

            watch = Watch(running.guardian, watches, wake, server=running.wanted.server)
            if is_lost:
                watch.lose_host()
            return watch.carry()
        from mcp_launch.relay import Relay

        pipes.close_servers()
        relay = Relay(
            running.guardian,
            watches,
            wake,
            pipes=pipes,
            said=said,
            server=running.wanted.server,
            stdout_mode=running.wanted.stdout,
            learn=lease.write,
        )
        if is_lost:
            relay.lose_host()
        return relay.carry()
    finally:
        running.guardian.leave()
        lease.remove()


def watch_hosts(running: Running, hosts: list[int]) -> tuple[list[int], bool]:
    """Return descriptors that tell of the hosts' ends, and whether one has ended already."""
    watches = []
    is_lost = os.getppid() != hosts[0]  # adopted: our parent ended while we started
    for pid in hosts:
        try:
            fd = kernel.open_watch(pid)
        except ProcessLookupError:
            is_lost = True
            continue
        watches += [fd] if fd is not None else []
    process = running.line.process
    if process is not None:
        # Looked at after the watch was opened: is it still the process we know?
        seen = running.table.look(process.identity.pid)
        is_lost = is_lost or seen is None or compare(process.identity, seen.identity) == "different"
    if is_lost:
        trace.note("the host ended while the server was started")
    return watches, is_lost


def _take_lease(running: Running) -> Lease:
    found, guardian = running.found, running.guardian
    bound = binding.bind_at_start(found.identity)
    lease = leases.Lease(
        state.name_lease(os.environ, found.launch.value),
        leases.describe(found, running.decided, bound),
    )
    lease.write(
        server=running.wanted.server,
        wire="direct" if running.wanted.direct else "guarded",
        boot=running.table.boot_id(),
        lineage={"verdict": running.line.verdict, "evidence": running.line.evidence},
        processes=leases.describe_processes(
            running.table,
            launcher=os.getpid(),
            guardian=guardian.pid,
            server=guardian.server,
            host=_host_of(running),
        ),
    )
    return lease


def _host_of(running: Running) -> int | None:
    process = running.line.process
    return process.identity.pid if process else None
