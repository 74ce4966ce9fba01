"""The rest of a launch once the server is starting: its lease, its wire and its end.

This module and what only it needs are imported while the server boots.
"""

from __future__ import annotations

import os

from mcp_launch import state
from mcp_launch.broker import Broker
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.routing import Served, bind_at_start
from mcp_launch.launch.context import is_inside
from mcp_launch.launch.plan import drop_session_variables
from mcp_launch.runtime.absent import AbsentServers
from mcp_launch.runtime.lease import LeaseWriter, describe_facts, find_host
from mcp_launch.runtime.loop import Loop
from mcp_launch.runtime.streams import explain_early_end, explain_end
from mcp_launch.runtime.supervisor import HOST, SERVER, Supervisor
from mcp_launch.state import launch_log, leases
from mcp_launch.state.handshakes import open_for
from mcp_launch.system import is_of_process, kernel
from mcp_launch.system.kernel import HostWatch
from mcp_launch.values import REST, compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcp_launch.launch.profile import Profile
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.runtime.direct import DirectWatch
    from mcp_launch.runtime.outer_launch import Outer
    from mcp_launch.runtime.running import Running
    from mcp_launch.state.handshakes import Handshakes
    from mcp_launch.state.launch_log import Log
    from mcp_launch.system.spawn import Pipes
    from mcp_launch.values import Found


def carry(running: Running, pipes: Pipes | None, wake: int) -> int:
    """Stay until the server and all its processes have ended; return its exit code."""
    outer = _find_outer(running)
    log = _open_log(running)
    served = Served(running.found, bind_at_start(running.found.identity), running.decided)
    handshakes = None if running.wanted.direct else _open_handshakes(running)
    settings = _make_settings(running, outer, handshakes)
    broker = Broker(settings)
    lease = LeaseWriter(running, broker, outer)
    loop = Loop()
    hosts = watch_hosts(running, running.starter.hosts)
    supervisor = None
    try:
        if pipes is None and running.guardian is not None:
            from mcp_launch.runtime import direct

            broker.connect(HOST)
            broker.open_backend(SERVER, served).state = "ready"
            watch = direct.DirectWatch(
                loop,
                server=running.wanted.server,
                guardian=running.guardian,
                plan=running.decided,
                wake=wake,
                note_server=lease.note_server,
            )
            watch.watch_hosts(hosts)
            return _run_directly(running, watch, lease)
        supervisor = Supervisor(
            broker,
            loop,
            wake=wake,
            log=log,
            report=running.report,
            write_lease=lease.write,
            note_server=lease.note_server,
            starter=running.starter,
            absent=AbsentServers(running.table, handshakes, running.decided)
            if handshakes
            else None,
            keeps_arguments=running.wanted.record_arguments,
        )
        settings.find_state = supervisor.find_state
        settings.is_used_by_others = supervisor.is_used_by_others
        lease.absent = supervisor.absent
        backend = broker.open_backend(SERVER, served)
        if pipes is not None and running.guardian is not None:
            pipes.close_servers()
            backend.note_begin()
            supervisor.attach(SERVER, running.guardian, pipes, running.decided)
        else:
            state.note("not started: the first call starts it", REST)
            lease.write()
        supervisor.watch_hosts(hosts)
        try:
            return _run(running, loop, supervisor, lease, log)
        finally:
            broker.finish_calls("the host did not wait for an answer")
            supervisor.writes.finish()
    finally:
        log.finish_line()
        _leave(running, supervisor, lease)


def _run_directly(running: Running, watch: DirectWatch, lease: LeaseWriter) -> int:
    watch.run()
    lease.note_end(*watch.explain_end())
    _write_outcome(watch.describe_outcome())
    if watch.failure is not None:
        from mcp_launch.runtime import direct
        from mcp_launch.runtime.answer_failure import answer_failure

        running.report(watch.failure)
        # Mid-session, its host would not ask for another list of tools.
        may_stay = not watch.unread or direct.begins_handshake(watch.unread)
        found = direct.describe_failed(running) if may_stay else None
        answer_failure(watch.failure, watch.unread, found)
    return watch.exit_code


def _leave(running: Running, supervisor: Supervisor | None, lease: LeaseWriter) -> None:
    kernel.ignore_restart()
    lease.remove()
    if running.guardian is not None:
        running.guardian.leave()
    if supervisor is not None:
        supervisor.leave()
    if running.guardian is None:
        running.starter.tidy(running.table, os.path.dirname(running.starter.lease))


def _run(running: Running, loop: Loop, supervisor: Supervisor, lease: LeaseWriter, log: Log) -> int:
    if running.decided.install is not None:
        from mcp_launch.runtime import patience

        patience.watch(running, loop, supervisor)
    try:
        code = supervisor.run()
        log.finish_line()
        lease.note_end()
        return code
    finally:
        _write_outcome(_describe_outcome(supervisor))


def _make_policies(wanted: Profile, home: str) -> dict[str, Any]:
    """Return the settings for what a profile demands of calls; most demand nothing."""
    made: dict[str, Any] = {}
    if wanted.policies:
        from mcp_launch.broker.policies import make_policies

        made["tools"], made["policies"] = make_policies(
            wanted.policies, wanted.server, home, resolve_path
        )
    if wanted.call_timeout or wanted.max_concurrent:
        from mcp_launch.broker.limits import CallLimiter

        made["limits"] = CallLimiter(
            call_timeout=wanted.call_timeout, max_concurrent=wanted.max_concurrent
        )
    return made


def resolve_path(path: str, directory: str) -> str:
    """Return the real path of one seen from a directory; empty if each process has its own."""
    joined = os.path.join(directory, path)
    return "" if is_of_process(joined) else os.path.realpath(joined)


def _open_handshakes(running: Running) -> Handshakes:
    seen = drop_session_variables(running.wanted, running.found, running.decided)
    return open_for(running.decided, seen, os.environ, running.wanted.profile_name)


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


def _make_settings(
    running: Running, outer: Outer | None, handshakes: Handshakes | None
) -> Settings:
    wanted, found = running.wanted, running.found
    is_free = wanted.start != "now" and not found.only_looks()
    return Settings(
        server=wanted.server,
        launch=found.launch.value,
        carries=found.facts.carries,
        callers=found.follow_callers(),
        plan_for=running.plan_for,
        is_inside=is_inside,
        is_directory=os.path.isdir,
        describe=describe_context,
        explain_end=explain_end,
        explain_early_end=lambda code, words: explain_early_end(wanted.server, code, words),
        read_outer=outer.read if outer else None,
        on_change=wanted.on_change,
        server_limit=wanted.max_servers,
        on_failure=running.on_failure,
        mask=_mask,
        restart=wanted.restart,
        is_shared=wanted.share != "off",
        cwd=wanted.cwd,
        moves_unannounced=found.facts.moves_unannounced,
        is_host_directory=found.is_host_directory,
        no_meta=wanted.no_meta,
        handshakes=handshakes,
        answers_from_memory=is_free,
        ignores_changes=found.facts.ignores_changed_lists,
        starts_when_called=is_free and wanted.start == "called",
        rests_after=wanted.rest,
        rest_anyway=wanted.rest_anyway,
        records_calls=not (wanted.no_record or wanted.direct),
        **_make_policies(wanted, found.home),
    )


def _mask(text: str) -> str:
    from mcp_launch import masking

    return masking.mask_text(text)


def describe_context(served: Served, place: Found | None) -> dict[str, Json]:
    """Return the context that is written into a call; `place` is its directory, if elsewhere."""
    bound = served.bound
    found = served.context.at(place) if place else served.context
    facts = describe_facts(found, place or served.plan.cwd)
    context = leases.name_context(facts, found.launch.value, bound.state, bound.evidence)
    if found.is_host_directory:
        context["placeOf"] = "agent"
    return context


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
    host = find_host(running)
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
