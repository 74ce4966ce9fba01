"""The rest of a launch, once the server is on its way: its lease, its wire, its end.

Imported while the server boots, as is everything that only this needs.
"""

from __future__ import annotations

import os

from mcp_launch import binding, leases, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.context import Context
    from mcp_launch.guardian import Guardian
    from mcp_launch.leases import Lease
    from mcp_launch.lineage import Lineage
    from mcp_launch.processes import ProcessTable
    from mcp_launch.profile import Profile
    from mcp_launch.spawning import Pipes


class Running:
    """A server that was started: for whom, by whom, and below which guardian."""

    __slots__ = ("found", "guardian", "line", "table", "wanted")

    def __init__(
        self,
        wanted: Profile,
        table: ProcessTable,
        line: Lineage,
        found: Context,
        guardian: Guardian,
    ) -> None:
        self.wanted = wanted
        self.table = table
        self.line = line
        self.found = found
        self.guardian = guardian


def carry(running: Running, pipes: Pipes | None, wake: int, said: bytes) -> int:
    """Stay with the server until nothing of it is left; return its exit code.

    `said`: what was read of the host's words already.
    """
    lease = _take_lease(running)
    # Of the two, whichever ends first: a wrapper between the host and us (`uvx`, a shell)
    # is what the host takes for the server.
    watched = {pid for pid in (_host_of(running), os.getppid()) if pid}
    try:
        if pipes is None:
            from mcp_launch.direct import Watch

            return Watch(running.guardian, watched, wake, server=running.wanted.server).carry()
        from mcp_launch.relay import Relay

        pipes.close_servers()
        return Relay(
            running.guardian,
            watched,
            wake,
            pipes=pipes,
            said=said,
            server=running.wanted.server,
            stdout_mode=running.wanted.stdout,
            learn=lease.write,
        ).carry()
    finally:
        running.guardian.leave()
        lease.remove()


def _take_lease(running: Running) -> Lease:
    found, guardian = running.found, running.guardian
    bound = binding.bind_at_start(found.identity)
    lease = leases.Lease(
        state.name_lease(os.environ, found.launch.value),
        leases.describe(found, bound, running.wanted.command),
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
