"""The rest of a launch once the server is starting: its lease, its wire and its end.

This module and what only it needs are imported while the server boots.
"""

from __future__ import annotations

import os
import time

from mcp_launch import state
from mcp_launch.broker import Broker
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.routing import Binding, Served, bind_at_start
from mcp_launch.hosts import Callers
from mcp_launch.launch.context import is_inside
from mcp_launch.runtime.loop import Loop
from mcp_launch.runtime.streams import explain_early_end, explain_end
from mcp_launch.runtime.supervisor import HOST, SERVER, Supervisor
from mcp_launch.state import launch_log, leases
from mcp_launch.system import kernel
from mcp_launch.system.kernel import HostWatch
from mcp_launch.system.spawn import check_environment
from mcp_launch.values import compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.context import Context, Lineage
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.runtime.outer_launch import Outer
    from mcp_launch.state.launch_log import Log
    from mcp_launch.system.guardian import Guardian, Starter
    from mcp_launch.system.spawn import Pipes
    from mcp_launch.values import Found


class Running:
    """A server that was started: its context, its guardian, and how to start another."""

    __slots__ = (
        "decide",
        "decided",
        "found",
        "guardian",
        "line",
        "report",
        "starter",
        "table",
        "wanted",
    )

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
        report: Callable[[LaunchError], None],
    ) -> None:
        self.wanted = wanted
        self.starter = starter
        self.table = starter.table
        self.decide = decide
        self.report = report  # reports on stderr and in the log why there is no server
        self.line = line
        self.found = found
        self.decided = decided
        self.guardian = guardian

    def plan_for(self, context: Context, place: Found | None) -> tuple[Context, Plan]:
        """Return the plan of a server, and its context: in another directory, if one is given.

        Raises:
            LaunchError: It cannot be started.

        """
        changed = context.at(place) if place else context
        plan = self.decide(changed)
        check_environment(plan)
        return changed, plan


def carry(running: Running, pipes: Pipes | None, wake: int) -> int:
    """Stay until the server and all its processes have ended; return its exit code."""
    outer = _find_outer(running)
    log = _open_log(running)
    served = Served(running.found, bind_at_start(running.found.identity), running.decided)
    broker = Broker(_make_settings(running, outer), served)
    lease = _LeaseWriter(running, broker, outer)
    loop = Loop()
    hosts = watch_hosts(running, running.starter.hosts)
    supervisor = None
    try:
        if pipes is None:
            from mcp_launch.runtime import direct

            broker.connect(HOST)
            broker.open_backend(SERVER, served)
            watch = direct.DirectWatch(
                loop,
                server=running.wanted.server,
                guardian=running.guardian,
                plan=running.decided,
                wake=wake,
                note_server=lease.note_server,
            )
            watch.watch_hosts(hosts)
            watch.run()
            _write_outcome(watch.describe_outcome())
            if watch.failure is not None:
                running.report(watch.failure)
                answer_failure(watch.failure, watch.unread)
            return watch.exit_code
        supervisor = Supervisor(
            broker,
            loop,
            wake=wake,
            log=log,
            report=running.report,
            write_lease=lease.write,
            note_server=lease.note_server,
            starter=running.starter,
        )
        pipes.close_servers()
        broker.open_backend(SERVER, served).state = "starting"
        supervisor.attach(SERVER, running.guardian, pipes, running.decided)
        supervisor.watch_hosts(hosts)
        try:
            return supervisor.run()
        finally:
            _write_outcome(_describe_outcome(supervisor))
    finally:
        log.finish_line()
        kernel.wake_after(0)  # Python removes its signal handlers before it exits
        running.guardian.leave()
        if supervisor is not None:
            supervisor.leave()
        lease.remove()


def _write_outcome(outcome: dict[str, object]) -> None:
    """Append the outcome of the launch to a file, if one is named."""
    if path := os.environ.get(state.OUTCOME):
        from mcp_launch.state import outcome as outcomes

        outcomes.append(path, outcome)


def _describe_outcome(supervisor: Supervisor) -> dict[str, object]:
    broker = supervisor.broker
    return {
        "left_behind": supervisor.left_behind,
        "outlasted_input": broker.is_out_of_time,
        "noise": broker.noise,
        "first_noise": supervisor.errors.first_noise,
        "unanswered": sorted(broker.unanswered),
    }


def answer_failure(error: LaunchError, unread: bytes = b"") -> None:
    """Answer the host's first request with the reason why there is no server.

    Hosts do not show a launcher's stderr, but Codex and Claude Code show an error answer to
    `initialize` word for word.
    """
    try:
        os.fstat(0)
        if os.isatty(0):
            return
    except OSError:
        return  # our stdin is closed: there is no request to answer
    absent: Any = None
    broker = Broker(
        Settings(
            server="",
            launch="",
            carries="one session at a time",
            callers=Callers(),
            plan_for=_refuse,
            is_inside=is_inside,
            describe=describe_context,
            explain_end=explain_end,
            explain_early_end=lambda code, words: explain_early_end("", code, words),
        ),
        Served(absent, Binding("unbound", None, None, ""), absent),
    )
    supervisor = Supervisor(
        broker,
        Loop(is_frugal=True),
        wake=-1,
        log=launch_log.open_log("", {}),
        report=_do_nothing,
        write_lease=_do_nothing,
        note_server=_do_nothing,
        starter=None,
    )
    supervisor.fail(error, unread)
    supervisor.run()


def _make_settings(running: Running, outer: Outer | None) -> Settings:
    wanted, found = running.wanted, running.found
    return Settings(
        server=wanted.server,
        launch=found.launch.value,
        carries=found.facts.carries,
        callers=found.follow_callers(),
        plan_for=running.plan_for,
        is_inside=is_inside,
        describe=describe_context,
        explain_end=explain_end,
        explain_early_end=lambda code, words: explain_early_end(wanted.server, code, words),
        read_outer=outer.read if outer else None,
        on_change=wanted.on_change,
        restart=wanted.restart,
        stdout=wanted.stdout,
        cwd=wanted.cwd,
        moves_unannounced=found.facts.moves_unannounced,
        no_meta=wanted.no_meta,
    )


def describe_context(served: Served, place: Found | None) -> dict[str, Json]:
    """Return the context that is written into a call; `place` is its directory, if elsewhere."""
    found, bound = served.context, served.bound
    facts = _describe_facts(found, place or served.plan.cwd)
    return leases.name_context(facts, found.launch.value, bound.state, bound.evidence)


def watch_hosts(running: Running, pids: list[int]) -> HostWatch:
    """Watch the host's processes; one of them may have ended already."""
    hosts = HostWatch(running.table, pids, parent=pids[0])
    process = running.line.process
    if process is not None and not hosts.is_lost:
        # After opening the watch: check that the pid still belongs to the same process.
        seen = running.table.look(process.identity.pid)
        hosts.is_lost = seen is None or compare(process.identity, seen.identity) == "different"
    if hosts.is_lost:
        state.note("the host ended while the server was started")
    return hosts


def _find_outer(running: Running) -> Outer | None:
    host = _host_of(running)
    # An outer launch is rare and one read detects it, so the module is imported only then.
    if not host or not running.table.read_variable(host, "MCP_LAUNCH_ID"):
        return None
    from mcp_launch.runtime import outer_launch

    return outer_launch.find(running.table, host)


def _open_log(running: Running) -> Log:
    found = running.found
    facts: dict[str, object] = {
        "server": running.wanted.server,
        "mark": leases.mark_command(running.wanted.command),
        "cwd": running.decided.cwd.value,
    }
    for name in ("host", "session", "thread"):
        facts[name] = getattr(getattr(found, name), "value", None)
    log = launch_log.open_log("" if running.wanted.no_log else found.launch.value, facts)
    state.keep_trace_in(log)
    return log


def _describe_runner(plan: Plan) -> dict[str, object] | None:
    if plan.runner is None:
        return None
    return {
        "left_out": plan.runner.is_left_out,
        "program": plan.program,
        "why": plan.runner.why,
    }


class _LeaseWriter:
    """Writes the lease of a launch, once its server runs."""

    def __init__(self, running: Running, broker: Broker, outer: Outer | None) -> None:
        record = leases.open_record(running.found.launch.value, running.wanted.command)
        self._lease = leases.Lease(running.starter.lease, record)
        self._running = running
        self._broker = broker
        self._offset = time.time() - time.monotonic()
        record.update(
            server=running.wanted.server,
            wire="direct" if running.wanted.direct else "guarded",
            boot=running.table.boot_id(),
            lineage={"verdict": running.line.verdict, "evidence": running.line.evidence},
            outer=outer.path if outer else None,
            restarts=0,
            passed_over=running.wanted.passed_over or None,
        )

    def note_server(self, started: Guardian) -> None:
        """Record the processes of a server that has started."""
        self._running.guardian = started
        self._lease.record["processes"] = _describe_processes(self._running)
        self.write()

    def write(self) -> None:
        """Write the lease with everything known by now."""
        broker = self._broker
        backend, connection = broker.backends[SERVER], broker.connections[HOST]
        # What the server serves or, if it is being replaced, what the next one will.
        served = backend.next_served or backend.served
        bound, last = served.bound, broker.last_call
        self._lease.write(
            context=_describe_facts(served.context, backend.served.plan.cwd),
            place_note=backend.served.plan.place_note,
            runner=_describe_runner(backend.served.plan),
            binding={
                "state": bound.state,
                "session": bound.session,
                "thread": bound.thread,
                "evidence": bound.evidence,
            },
            calls=backend.calls,
            refusals=broker.refusals,
            last_call=last and last + self._offset,
            opened_with=connection.handshake.era,
            noise=broker.noise,
            restarts=backend.generation,
            roots=connection.roots,
        )

    def remove(self) -> None:
        """Remove the lease."""
        self._lease.remove()


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


def _describe_facts(found: Context, cwd: Found) -> dict[str, Json]:
    return leases.describe_facts(
        host=found.host,
        session=found.session,
        thread=found.thread,
        project_root=found.project_root,
        cwd=cwd,
    )


def _do_nothing(*_: object) -> None:
    """Ignore an event of a launch without a server."""


def _refuse(context: Context, place: Found | None) -> tuple[Context, Plan]:
    raise NotImplementedError
