"""The rest of a launch once the server is starting: its lease, its wire and its end.

This module and what only it needs are imported while the server boots.
"""

from __future__ import annotations

import os

from mcp_launch import state, trace
from mcp_launch.broker.calls import Calls
from mcp_launch.state import launch_log, leases
from mcp_launch.system import kernel
from mcp_launch.system.kernel import HostWatch
from mcp_launch.values import compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.outer_launch import Outer
    from mcp_launch.launch.context import Context, Lineage
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile
    from mcp_launch.runtime.direct import DirectWatch
    from mcp_launch.runtime.relay import Relay
    from mcp_launch.state.launch_log import Log
    from mcp_launch.state.leases import Lease
    from mcp_launch.system.guardian import Guardian, Starter
    from mcp_launch.system.spawn import Pipes


class Running:
    """A server that was started: its context, its guardian, and how to start another."""

    __slots__ = ("decide", "decided", "found", "guardian", "line", "starter", "table", "wanted")

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        *,
        wanted: Profile,
        line: Lineage,
        found: Context,
        decided: Plan,
        guardian: Guardian,
        starter: Starter,
        decide: Callable[[Context], Plan],
    ) -> None:
        self.wanted = wanted
        self.starter = starter
        self.table = starter.table
        self.decide = decide
        self.line = line
        self.found = found
        self.decided = decided
        self.guardian = guardian


def carry(running: Running, pipes: Pipes | None, wake: int) -> int:
    """Stay until the server and all its processes have ended; return its exit code."""
    outer = _find_outer(running)
    calls = Calls(running.wanted, running.found, running.decided, outer)
    log = _open_log(running)
    lease = _take_lease(running, calls, outer)
    hosts = watch_hosts(running, running.starter.hosts)
    try:
        if pipes is None:
            from mcp_launch.runtime import direct

            watch = direct.DirectWatch(
                running.guardian, hosts.descriptors, wake, server=running.wanted.server
            )
            if hosts.is_lost:
                watch.lose_host()
            elif hosts.needs_polling:
                watch.look_at(hosts)
            return _carry_to_the_end(watch)
        from mcp_launch.runtime import relay as guarded

        def start(plan: Plan) -> tuple[Guardian, Pipes]:
            running.guardian, fresh = running.starter.start(plan)
            lease.record["processes"] = _describe_processes(running)
            return running.guardian, fresh

        pipes.close_servers()
        relay = guarded.Relay(
            running.guardian,
            hosts.descriptors,
            wake,
            pipes=pipes,
            calls=calls,
            lease=lease,
            log=log,
            decide=running.decide,
            start=start,
        )
        if hosts.is_lost:
            relay.lose_host()
        elif hosts.needs_polling:
            relay.look_at(hosts)
        return _carry_to_the_end(relay)
    finally:
        log.finish_line()
        kernel.wake_after(0)  # Python removes its signal handlers before it exits
        running.guardian.leave()
        lease.remove()


def _carry_to_the_end(wire: DirectWatch | Relay) -> int:
    """Return the server's exit code, and write the launch's outcome if a file is named."""
    try:
        return wire.carry()
    finally:
        if path := os.environ.get(state.OUTCOME):
            from mcp_launch.state import outcome

            outcome.append(path, wire.describe_outcome())


def watch_hosts(running: Running, pids: list[int]) -> HostWatch:
    """Watch the host's processes; one of them may have ended already."""
    hosts = HostWatch(running.table, pids, parent=pids[0])
    process = running.line.process
    if process is not None and not hosts.is_lost:
        # After opening the watch: check that the pid still belongs to the same process.
        seen = running.table.look(process.identity.pid)
        hosts.is_lost = seen is None or compare(process.identity, seen.identity) == "different"
    if hosts.is_lost:
        trace.note("the host ended while the server was started")
    return hosts


def _find_outer(running: Running) -> Outer | None:
    host = _host_of(running)
    # An outer launch is rare and one read detects it, so the module is imported only then.
    if not host or not running.table.read_variable(host, "MCP_LAUNCH_ID"):
        return None
    from mcp_launch.broker import outer_launch

    return outer_launch.find(running.table, host)


def _open_log(running: Running) -> Log:
    found = running.found
    facts: dict[str, object] = {
        "server": running.wanted.server,
        "mark": leases.mark_command(running.decided.argv),
        "cwd": running.decided.cwd.value,
    }
    for name in ("host", "session", "thread"):
        facts[name] = getattr(getattr(found, name), "value", None)
    log = launch_log.open_log("" if running.wanted.no_log else found.launch.value, facts)
    trace.write_to(log)
    return log


def _take_lease(running: Running, calls: Calls, outer: Outer | None) -> Lease:
    record = leases.open_record(running.found.launch.value, running.decided.argv)
    lease = leases.Lease(running.starter.lease, record)
    lease.write(
        **calls.describe(),
        server=running.wanted.server,
        wire="direct" if running.wanted.direct else "guarded",
        boot=running.table.boot_id(),
        lineage={"verdict": running.line.verdict, "evidence": running.line.evidence},
        outer=outer.path if outer else None,
        restarts=0,
        passed_over=running.wanted.passed_over or None,
        processes=_describe_processes(running),
    )
    return lease


def _describe_processes(running: Running) -> dict[str, object]:
    return leases.describe_processes(
        running.table,
        launcher=os.getpid(),
        keeper=running.guardian.keeper,
        guardian=running.guardian.pid,
        server=running.guardian.server,
        host=_host_of(running),
    )


def _host_of(running: Running) -> int | None:
    process = running.line.process
    return process.identity.pid if process else None
