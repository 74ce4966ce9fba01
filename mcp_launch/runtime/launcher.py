"""A launch once its plan is decided: its lease, its wire and its end.

While memory answers the host, only this, the core and the loop are loaded. What a server needs is
imported when one is started; for a launch that starts its server at once, that is before this
module: the server boots meanwhile.
"""

from __future__ import annotations

import gc
import os

from mcp_launch import state
from mcp_launch.broker import succession
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.core import Core
from mcp_launch.broker.routing import Served, bind_at_start
from mcp_launch.launch.context import is_inside
from mcp_launch.runtime.edge import ClientWire, Edge
from mcp_launch.runtime.lease import (
    HOST,
    SERVER,
    LeaseTimer,
    LeaseWriter,
    describe_facts,
    find_outer,
)
from mcp_launch.runtime.loop import Loop
from mcp_launch.runtime.writer import Writer
from mcp_launch.state import leases
from mcp_launch.system import kernel
from mcp_launch.values import REST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile
    from mcp_launch.launch.running import Running
    from mcp_launch.protocol.json_text import Object
    from mcp_launch.protocol.memory import Remembered
    from mcp_launch.runtime.absent import AbsentServers
    from mcp_launch.runtime.front import Front
    from mcp_launch.runtime.outer_launch import Outer
    from mcp_launch.runtime.records import Records
    from mcp_launch.runtime.server_process import PipedServer
    from mcp_launch.runtime.stderr import Stderr
    from mcp_launch.state.handshakes import Handshakes
    from mcp_launch.state.launch_log import Log
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes
    from mcp_launch.values import Found

# How long to wait for the host to read the rest of our stderr, if nothing else is left to do.
_LAST_LINES_LIMIT = 0.45

# How long to collect records of calls before they are written, and how many at most. Some hosts
# kill their servers as soon as they have the last answer.
_RECORDS_DELAY = 0.05
_RECORDS_LIMIT = 256


def carry(running: Running, pipes: Pipes | None, wake: int, front: Front | None = None) -> int:
    """Stay until the server and all its processes have ended; return its exit code.

    `front` has answered the host so far, if no server was started yet.
    """
    outer, log = find_outer(running), running.open_log()
    handshakes = running.open_handshakes()
    core = Core(make_settings(running, outer, handshakes))
    loop = front.loop if front is not None else Loop()
    launcher = Launcher(core, loop, running.wanted.server, log, report=running.report)
    lease = LeaseWriter(running, outer)
    lease.core = core
    launcher.serve(running, lease, handshakes)
    served = Served(running.found, bind_at_start(running.found.identity), running.decided)
    server = core.open_server(served)
    edge = launcher.edge
    try:
        launcher.listen(wake, front)
        if pipes is not None and running.guardian is not None:
            pipes.close_servers()
            succession.begin(server)
            edge.attach(SERVER, running.guardian, pipes, running.decided)
            _watch_install(running, launcher)
        else:
            state.note("not started: the first call starts it", REST)
            lease.write()
        if front is not None:
            launcher.repeat(front)
        hosts = front.hosts if front is not None else running.watch_hosts()
        edge.loop.watch_hosts(hosts, launcher.lose_host)
        try:
            code = launcher.run()
            log.finish_line()
            lease.note_end()
            return code
        finally:
            core.finish_calls("the host did not wait for an answer")
            launcher.finish_records()
            _write_outcome(launcher)
    finally:
        log.finish_line()
        leave(running, lease)
        edge.leave_servers()


class Launcher:
    """Serves one host on our own stdin and stdout."""

    def __init__(
        self,
        core: Core,
        loop: Loop,
        server: str,
        log: Log,
        *,
        report: Callable[[LaunchError], None],
    ) -> None:
        self.core = core
        self.edge = Edge(core, loop, self)
        self.exit_code = 0
        self.left_behind = 0  # processes, by all servers that have ended
        self._server = server
        self._log = log
        self._report = report
        self._is_finishing = False
        self._running: Running | None = None
        self._lease: LeaseTimer | None = None
        self._note_guardian: Callable[[str, Guardian], None] = lambda *_: None
        self._absent: AbsentServers | None = None
        self._handshakes: Handshakes | None = None
        self._stderr: Stderr | None = None  # imported with the first line
        self._records: Records | None = None  # imported with the first call

    def serve(self, running: Running, lease: LeaseWriter, handshakes: Handshakes | None) -> None:
        """Note what a launch has that may start a server."""
        self._running, self._handshakes = running, handshakes
        self._lease = LeaseTimer(self.core, self.edge.loop, lease.write)
        self._note_guardian = lease.note_server
        settings = self.core.settings
        settings.find_state = self._find_state
        settings.is_used_by_others = self._is_used_by_others
        lease.find_size = lambda: self._absent.size if self._absent is not None else 0

    def keep_lease(self, write: Callable[[], None]) -> None:
        """Have a lease written that somebody else describes."""
        self._lease = LeaseTimer(self.core, self.edge.loop, write)

    def listen(self, wake: int, front: Front | None = None) -> None:
        """Read from the host, and hear signals."""
        loop = self.edge.loop
        out = front.out if front is not None else Writer(loop, 1)
        out.on_moved, out.on_broken = self._move, lambda: self.edge.lose_reader(HOST)
        wire = ClientWire(HOST, 0, out, leave=self._finish)
        if front is not None:
            wire.lines = front.lines
        self.edge.add_client(wire)
        if out.is_closed:
            out.on_broken()
        if wake >= 0:
            loop.watch(wake, lambda: self._handle_signals(wake))

    def repeat(self, front: Front) -> None:
        """Have the core know what the host has said; some of it was answered already."""
        core = self.core
        core.recall.memories.update(front.memories)
        for line in front.answered:
            core.client_said(HOST, line)
        core.out = [one for one in core.out if one[:2] != ("send", HOST)]
        for line in front.unanswered:
            core.client_said(HOST, line)
        self.edge.obey()

    def run(self) -> int:
        """Run until the core finishes; return the exit code."""
        gc.freeze()
        gc.enable()
        self.edge.loop.run()
        return self.exit_code

    def lose_host(self) -> None:
        """Note that one of the host's processes has ended."""
        wire = self.edge.clients[HOST]
        self.edge.close_source(wire)
        wire.out.close_when_empty()
        self.edge.notify(self.core.host_lost)

    def fail_first(self, error: LaunchError, unread: bytes = b"") -> None:
        """Answer everything the host asks with an error, first what was already read."""
        self.edge.notify(lambda: succession.fail(self.core, error))
        lines = self.edge.clients[HOST].lines
        for line in lines.feed(unread) if unread else ():
            self.edge.notify(lambda line=line: self.core.client_said(HOST, line))  # type: ignore[misc]

    def _handle_signals(self, wake: int) -> None:
        for number in os.read(wake, 64):
            if number == kernel.RESTART:
                self.edge.notify(self.core.restart_requested)
            else:
                self.edge.notify(lambda number=number: self.core.signal_received(number))  # type: ignore[misc]

    # The end

    def _finish(self, code: int) -> None:
        self.exit_code = code
        self._is_finishing = True
        self.edge.close_source(self.edge.clients[HOST])
        self._try_to_leave()

    def _move(self) -> None:
        self.edge.note_moved()
        self._try_to_leave()

    def _try_to_leave(self) -> None:
        if not self._is_finishing:
            return
        leaving, out = self.core.leaving, self.edge.clients[HOST].out
        if out.pending and not leaving.host_is_lost and not leaving.signalled:
            return
        loop = self.edge.loop
        if self._stderr is None or not self._stderr.is_pending:
            loop.stop()
        elif not loop.has_timer("last lines"):
            loop.set_timer("last lines", _LAST_LINES_LIMIT, loop.stop)

    # What the edge asks of its owner

    def begin(self, plan: Plan, *, is_first: bool) -> tuple[Guardian, Pipes]:
        """Start a server."""
        assert self._running is not None  # noqa: S101  # a launch that failed starts none
        return self._running.find_starter().begin_piped(plan, is_first=is_first)

    def note_started(self, name: str, guardian: Guardian) -> None:
        """Note that a server runs, and what it knows."""
        self._note_guardian(name, guardian)
        if self._handshakes is not None and self._running is not None:
            from mcp_launch.runtime.absent import AbsentServers

            if self._absent is None:
                running = self._running
                self._absent = AbsentServers(running.table, self._handshakes, running.decided)
            self._absent.note_variables(self.edge.servers[name].process.plan.environ)

    def note_failed(self, name: str, guardian: Guardian | None) -> None:
        """Note that a server could not be started."""

    def note_ending(self, name: str, reason: str) -> None:
        """Note how much memory is free while a server rests."""
        if reason == "rest" and self._absent is not None:
            self._absent.note_rest(self._find_pid(name))

    def note_gone(self, server: PipedServer) -> None:
        """Note what a server has left behind."""
        guardian = server.process.guardian
        self.left_behind += guardian.left_behind
        if guardian.goes_on:
            self._find_stderr().print(str(server.process.plan.install))

    def read_errors(self, server: PipedServer, data: bytes) -> None:
        """Pass on what a server has written to its stderr."""
        self._find_stderr().add(server.process, data)

    def take_noise(self, name: str, line: bytes) -> None:
        """Show a line of a server's stdout that is not a message."""
        del name
        self._find_stderr().add_noise(line)

    def tell(self, client: str, text: str) -> None:
        """Print a message on our stderr."""
        del client
        self._find_stderr().tell(text)

    def _find_stderr(self) -> Stderr:
        if self._stderr is None:
            from mcp_launch.runtime.stderr import Stderr

            self._stderr = Stderr(self.edge.loop, self._server, self._log, self._try_to_leave)
        return self._stderr

    def write_lease(self, *, is_urgent: bool) -> None:
        """Write the lease soon; at once if that is urgent."""
        if self._lease is not None:
            self._lease.expect(is_urgent=is_urgent)

    def expect_records(self, *, is_urgent: bool) -> None:
        """Record the calls that have finished soon, several at once."""
        self.write_lease(is_urgent=False)
        loop = self.edge.loop
        if not loop.has_timer("records"):
            loop.set_timer("records", _RECORDS_DELAY, self.finish_records)
        if is_urgent and self._make_records() >= _RECORDS_LIMIT:
            self.finish_records()

    def _make_records(self) -> int:
        """Make records of the calls that have finished; return how many wait to be written."""
        calls, self.core.finished = self.core.finished, []
        if not self.core.settings.records_calls:
            return 0
        if self._records is None:
            try:
                from mcp_launch.runtime.records import Records
            except (ImportError, OSError):
                return 0  # mcp-launch was removed or replaced meanwhile, or too many files are open
            keeps = self._running is not None and self._running.wanted.record_arguments
            self._records = Records(self.core, keeps_arguments=keeps)
        return self._records.add(calls)

    def finish_records(self) -> None:
        """Write the records of all calls so far."""
        if self.core.finished:
            self._make_records()
        if self._records is not None:
            self._records.write()

    def keep(self, memory: Remembered) -> None:
        """Write what servers answer to disk."""
        if self._absent is not None:
            self._absent.remember(memory, self._find_pid(SERVER), self.core.now)

    def forget(self, client: str) -> None:
        """Remove from disk what servers answer to a kind of client."""
        if self._handshakes is not None:
            self._handshakes.forget(client)

    def fail(self, error: LaunchError) -> None:
        """Report why there is no server."""
        self._report(error)

    def _find_pid(self, name: str) -> int:
        """Return the pid of a server, or 0."""
        server = self.edge.servers.get(name)
        return (server.process.guardian.server or 0) if server is not None else 0

    def _find_state(self, name: str) -> str:
        """Return a sign that a server keeps state in its processes; empty if there is none."""
        return self._absent.find_sign(self._find_pid(name)) if self._absent is not None else ""

    def _is_used_by_others(self, name: str) -> bool:
        """Return whether another launch has called a server that it shares."""
        server = self.edge.servers.get(name)
        if server is None or not server.process.guardian.shared:
            return False
        from mcp_launch.runtime.loop import has_input

        guardian = server.process.guardian
        # A report that was not read yet may say so.
        return guardian.is_used or has_input(guardian.report)

    def describe_outcome(self) -> dict[str, object]:
        """Return what is known of the launch when it is over; see `state.outcome`."""
        leaving = self.core.leaving
        return {
            "left_behind": self.left_behind,
            "outlasted_input": leaving.is_out_of_time,
            "noise": self.core.counts.noise,
            "first_noise": self._stderr.first_noise if self._stderr is not None else [],
            "unanswered": sorted(leaving.unanswered),
        }


def leave(running: Running, lease: LeaseWriter) -> None:
    """Release what a launch holds; its guardian finishes its work alone."""
    kernel.ignore_restart()
    lease.remove()
    if running.guardian is not None:
        running.guardian.leave()
    else:
        running.tidy()


def _watch_install(running: Running, launcher: Launcher) -> None:
    if running.decided.install is not None:
        from mcp_launch.runtime import patience

        patience.watch(running, launcher)


def _make_policies(wanted: Profile, home: str) -> dict[str, Any]:
    """Return the settings for what a profile demands of calls; most demand nothing."""
    if not wanted.policies:
        return {}
    from mcp_launch.broker.policies import make_policies

    tools, arguments = make_policies(wanted.policies, wanted.server, home, resolve_path)
    return {"tools": tools, "arguments": arguments}


def resolve_path(path: str, directory: str) -> str:
    """Return the real path of one seen from a directory; empty if each process has its own."""
    from mcp_launch.system import is_of_process

    joined = os.path.join(directory, path)
    return "" if is_of_process(joined) else os.path.realpath(joined)


def _write_outcome(launcher: Launcher) -> None:
    """Append the outcome of the launch to a file, if one is named."""
    if path := os.environ.get(state.OUTCOME):
        from mcp_launch.state import outcome as outcomes

        outcomes.append(path, launcher.describe_outcome())


def make_settings(running: Running, outer: Outer | None, handshakes: Handshakes | None) -> Settings:
    """Return what the profile and the host decide for the core."""
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
        explain_end=_explain_end,
        explain_early_end=lambda code, words: _explain_early_end(wanted.server, code, words),
        read_outer=outer.read if outer else None,
        on_change=wanted.on_change,
        server_limit=wanted.max_servers,
        on_failure=running.on_failure,
        mask=_mask,
        restarts=wanted.restart == "on",
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
        records_calls=not wanted.no_record,
        call_timeout=wanted.call_timeout,
        max_concurrent=wanted.max_concurrent,
        **_make_policies(wanted, found.home),
    )


def _explain_end(code: int, when: str, words: bytes) -> str:
    from mcp_launch.runtime import stderr

    return stderr.explain_end(code, when, words)


def _explain_early_end(server: str, code: int, words: bytes) -> LaunchError:
    from mcp_launch.runtime import stderr

    return stderr.explain_early_end(server, code, words)


def _mask(text: str) -> str:
    from mcp_launch import masking

    return masking.mask_text(text)


def describe_context(served: Served, place: Found | None) -> Object:
    """Return the context that is written into a call; `place` is its directory, if elsewhere."""
    bound = served.bound
    found = served.context.at(place) if place else served.context
    facts = describe_facts(found, place or served.plan.cwd)
    context = leases.name_context(facts, found.launch.value, bound.state, bound.evidence)
    if found.is_host_directory:
        context["placeOf"] = "agent"
    return context
