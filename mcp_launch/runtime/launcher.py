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
    LeaseWriter,
    describe_facts,
    explain_early_end,
    explain_end,
    find_outer,
    leave,
    write_outcome,
)
from mcp_launch.runtime.loop import Loop, has_input
from mcp_launch.runtime.writer import Writer
from mcp_launch.state import leases
from mcp_launch.system import kernel
from mcp_launch.values import REST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile
    from mcp_launch.launch.running import Running
    from mcp_launch.protocol.json_text import Object
    from mcp_launch.protocol.memory import Remembered
    from mcp_launch.runtime.front import Front
    from mcp_launch.runtime.outer_launch import Outer
    from mcp_launch.runtime.records import Records
    from mcp_launch.runtime.server_process import PipedServer
    from mcp_launch.runtime.stderr import Stderr
    from mcp_launch.state.launch_log import Log
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes
    from mcp_launch.values import Found

# How long to wait for the host to read the rest of our stderr, if nothing else is left to do.
_LAST_LINES_LIMIT = 0.45

# How long to collect records of calls before they are written: some hosts kill their servers as
# soon as they have the last answer.
_RECORDS_DELAY = 0.05


def carry(running: Running, pipes: Pipes | None, wake: int, front: Front | None = None) -> int:
    """Stay until the server and all its processes have ended; return its exit code.

    `front` has answered the host so far, if no server was started yet.
    """
    outer, log = find_outer(running), running.open_log()
    core = Core(_make_settings(running, outer))
    lease = LeaseWriter(running, outer)
    lease.core = core
    loop = front.loop if front is not None else Loop()
    wire = ClientWire(HOST, 0, front.out if front is not None else Writer(loop, 1))
    if front is not None:
        wire.lines = front.lines
    launcher = Launcher(core, loop, log, wire)
    notes = ServerNotes(launcher, running, lease)
    served = Served(running.found, bind_at_start(running.found.identity), running.decided)
    server = core.open_server(served)
    edge = launcher.edge
    try:
        loop.watch(wake, lambda: launcher.handle_signals(wake))
        if pipes is not None and running.guardian is not None:
            pipes.close_servers()
            succession.begin(server)
            edge.attach(SERVER, running.guardian, pipes, running.decided)
            if running.decided.install is not None:
                from mcp_launch.runtime import patience

                patience.watch(running, launcher)
        else:
            state.note("not started: the first call starts it", REST)
            lease.write()
        if front is not None:
            launcher.repeat(front)
        hosts = front.hosts if front is not None else running.watch_hosts()
        loop.watch_hosts(hosts, launcher.lose_host)
        try:
            code = launcher.run()
            log.finish_line()
            lease.note_end()
            return code
        finally:
            core.finish_calls("the host did not wait for an answer")
            notes.finish_records()
            _write_outcome(launcher, notes.left_behind)
    finally:
        log.finish_line()
        leave(running, lease)
        for piped in edge.servers.values():
            piped.process.guardian.leave()  # without waiting: it finishes its work without us


class Launcher:
    """Serves one host on our own stdin and stdout."""

    def __init__(self, core: Core, loop: Loop, log: Log, wire: ClientWire) -> None:
        self.core = core
        self.edge = Edge(core, loop)
        self.edge.handlers |= {
            "errors": lambda name, data: self.find_stderr().add(self.edge.servers[name], data),
            "noise": lambda _, line: self.find_stderr().add_noise(line),
            "tell": lambda _, text: self.find_stderr().tell(text),
            "leave": self._finish,
            "moved": lambda *_: self._try_to_leave(),
        }
        self.stderr: Stderr | None = None  # imported with the first line
        self._log = log
        self._wire = wire
        self._exit_code: int | None = None  # known when only the last bytes are to be written
        self.edge.add_client(wire)

    def run(self) -> int:
        """Run until the core finishes; return the exit code."""
        gc.freeze()
        gc.set_threshold(10_000)  # calls leave no garbage
        gc.enable()
        self.edge.loop.run()
        return self._exit_code or 0

    def repeat(self, front: Front) -> None:
        """Have the core know what the host has said; some of it was answered already."""
        core = self.core
        if front.out.is_closed:
            front.out.on_broken()
        core.recall.memories.update(front.memories)
        for line in front.answered:
            core.client_said(HOST, line)
        core.out = [one for one in core.out if one[:2] != ("send", HOST)]
        for line in front.unanswered:
            core.client_said(HOST, line)
        self.edge.obey()

    def lose_host(self) -> None:
        """Note that one of the host's processes has ended."""
        self._close_input()
        self._wire.out.close_when_empty()
        self.edge.notify(self.core.host_lost)

    def fail_first(self, error: LaunchError, unread: bytes = b"") -> None:
        """Answer everything the host asks with an error, first what was already read."""
        self.edge.notify(lambda: succession.fail(self.core, error))
        for line in self._wire.lines.feed(unread) if unread else ():
            self.edge.notify(lambda line=line: self.core.client_said(HOST, line))  # type: ignore[misc]

    def handle_signals(self, wake: int) -> None:
        """Act on the signals that have come."""
        for number in os.read(wake, 64):
            if number == kernel.RESTART:
                self.edge.notify(self.core.restart_requested)
            else:
                self.edge.notify(lambda number=number: self.core.signal_received(number))  # type: ignore[misc]

    def find_stderr(self) -> Stderr:
        """Return our stderr."""
        if self.stderr is None:
            from mcp_launch.runtime.stderr import Stderr

            name = self.core.settings.server
            self.stderr = Stderr(self.edge.loop, name, self._log, self._try_to_leave)
        return self.stderr

    def _close_input(self) -> None:
        self._wire.source = self.edge.loop.close(self._wire.source)

    def _finish(self, _: str, code: int) -> None:
        self._exit_code = code
        self._close_input()
        self._try_to_leave()

    def _try_to_leave(self) -> None:
        leaving, loop = self.core.leaving, self.edge.loop
        is_read = not self._wire.out.pending or leaving.host_is_lost or leaving.signalled
        if self._exit_code is None or not is_read:
            return
        if self.stderr is None or not self.stderr.is_pending:
            loop.stop()
        elif not loop.has_timer("last lines"):
            loop.set_timer("last lines", _LAST_LINES_LIMIT, loop.stop)


class ServerNotes:
    """Notes what happens to the servers of a launch: in its lease, in records, and to remember."""

    def __init__(self, launcher: Launcher, running: Running, lease: LeaseWriter) -> None:
        self.left_behind = 0  # processes, by all servers that have ended
        self._launcher = launcher
        self._core, self._loop = launcher.core, launcher.edge.loop
        self._servers = launcher.edge.servers
        self._running = running
        self._lease = lease
        self._variables: set[tuple[str, str]] = set()  # of all servers that were started
        self._records: Records | None = None  # imported with the first call
        launcher.edge.handlers |= {
            "begin": self._begin,
            "started": self._note_started,
            "resting": self._note_rest,
            "gone": self._note_gone,
            "lease": lambda _, is_urgent: lease.expect(self._loop, is_urgent=is_urgent),
            "records": self._expect_records,
            "keep": self._keep,
            "forget": lambda _, client: running.open_handshakes().forget(client),
            "fail": lambda _, error: running.report(error),
        }
        settings = launcher.core.settings
        settings.find_state = self._find_state
        settings.is_used_by_others = self._is_used_by_others

    def _begin(self, name: str, plan: Plan) -> tuple[Guardian, Pipes]:
        return self._running.find_starter().begin_piped(plan, is_first=name == SERVER)

    def _note_started(self, name: str, guardian: Guardian) -> None:
        # Now: when it is needed, mcp-launch may have been replaced, or too many files may be open.
        from mcp_launch.runtime import absent  # noqa: F401

        self._lease.note_server(name, guardian)
        self._variables.update(self._servers[name].process.plan.environ.items())

    def _note_rest(self, name: str, _: object) -> None:
        self._measure(self._find_pid(name))
        state.note(f"it used {self._lease.size / 1e6:.0f} MB")

    def _measure(self, server: int) -> None:
        from mcp_launch.runtime.absent import measure

        self._lease.size = measure(self._running.table, server) or self._lease.size

    def _note_gone(self, _: str, server: PipedServer) -> None:
        guardian = server.process.guardian
        self.left_behind += guardian.left_behind
        if guardian.goes_on:
            self._launcher.find_stderr().print(str(server.process.plan.install))

    def _expect_records(self, _: str, is_urgent: bool) -> None:  # noqa: FBT001  # what is reported
        """Record the calls that have finished soon, several at once."""
        self._lease.expect(self._loop, is_urgent=False)
        if not self._loop.has_timer("records"):
            self._loop.set_timer("records", _RECORDS_DELAY, self.finish_records)
        if is_urgent:
            self.finish_records()

    def finish_records(self) -> None:
        """Write the records of all calls so far."""
        calls, self._core.finished = self._core.finished, []
        if not calls or not self._core.settings.records_calls:
            return
        if self._records is None:
            try:
                from mcp_launch.runtime.records import Records
            except (ImportError, OSError):
                return  # mcp-launch was removed or replaced meanwhile, or too many files are open
            keeps = self._running.wanted.record_arguments
            self._records = Records(self._core, keeps_arguments=keeps)
        self._records.write(calls)

    def _keep(self, _: str, memory: Remembered) -> None:
        """Write what servers answer to disk, with their size; not if others must not know it."""
        if not self._variables:
            return  # no server was started
        from mcp_launch.runtime import private_values

        running, server = self._running, self._find_pid(SERVER)
        self._measure(server)
        memory.size_of_server = self._lease.size or memory.size_of_server
        if server:
            # A shared one has been started for another session.
            self._variables.update(running.table.read_environ(server).items())
        plan, kept = running.decided, running.open_handshakes()
        # Ours say the same in words that any server uses, such as the host's name.
        asked = {one for one in plan.set_variables if not one.startswith("MCP_LAUNCH_")}
        asked -= kept.variables.keys()
        told = private_values.Told(plan.argv, plan.cwd.value, kept.variables, asked)
        if found := private_values.find(memory.answers.values(), self._variables, told):
            state.note(f"the handshake is not kept: it contains {found}")
            kept.forget(memory.client)  # what was kept before is not what the server answers
        else:
            kept.write(memory, self._core.now)

    def _find_pid(self, name: str) -> int:
        server = self._servers.get(name)
        return (server.process.guardian.server or 0) if server is not None else 0

    def _find_state(self, name: str) -> str:
        """Return a sign that a server keeps state in its processes; empty if there is none."""
        pid = self._find_pid(name)
        if not pid:
            return ""
        from mcp_launch.runtime.absent import find_sign

        return find_sign(self._running.table, pid)

    def _is_used_by_others(self, name: str) -> bool:
        """Return whether another launch has called a server that it shares."""
        server = self._servers.get(name)
        if server is None or not server.process.guardian.shared:
            return False
        guardian = server.process.guardian
        # A report that was not read yet may say so.
        return guardian.is_used or has_input(guardian.report)


def _write_outcome(launcher: Launcher, left_behind: int) -> None:
    leaving, stderr = launcher.core.leaving, launcher.stderr
    write_outcome(
        left_behind=left_behind,
        outlasted_input=leaving.is_out_of_time,
        noise=launcher.core.counts.noise,
        first_noise=stderr.first_noise if stderr is not None else [],
        unanswered=sorted(leaving.unanswered),
    )


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


def _make_settings(running: Running, outer: Outer | None) -> Settings:
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
        describe=_describe_context,
        explain_end=explain_end,
        explain_early_end=lambda code, words: explain_early_end(wanted.server, code, words),
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
        handshakes=running.open_handshakes(),
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


def _mask(text: str) -> str:
    from mcp_launch import masking

    return masking.mask_text(text)


def _describe_context(served: Served, place: Found | None) -> Object:
    """Return the context that is written into a call; `place` is its directory, if elsewhere."""
    bound = served.bound
    found = served.context.at(place) if place else served.context
    facts = describe_facts(found, place or served.plan.cwd)
    context = leases.name_context(facts, found.launch.value, bound.state, bound.evidence)
    if found.is_host_directory:
        context["placeOf"] = "agent"
    return context
