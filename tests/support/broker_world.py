"""A simulated world around a broker: one host, its servers with their pipes, a virtual clock.

It carries out the broker's commands as `runtime.supervisor` does, in the same order: an event
that a command causes is reported before the next command is carried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from broker_absence import Store
from broker_setup import CARRIES, InRecord, InRequest
from fakes import make_context

from mcp_launch import protocol
from mcp_launch.broker import Broker, commands
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.routing import Binding, Served
from mcp_launch.errors import LaunchError, ServerFailed
from mcp_launch.hosts import Callers
from mcp_launch.launch.plan import IdentityInEnvironment, Plan
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from broker_setup import Setup

    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.routing import FollowedCall
    from mcp_launch.launch.context import Context

HOST = "host"
SERVER = "server"

_PHASES = ("serving", "ending", "failed", "finished")

# How long a server may live after its guardian was asked to end it.
_GUARDIAN_LIMIT = 2.0


class Server:
    """One server's process, its pipes, and its guardian."""

    def __init__(self, generation: int, capacity: int) -> None:
        self.generation = generation
        self.stage = "starting"  # starting, running, dead, gone
        self.received = b""  # everything written to its stdin
        self.read = 0  # how much of it the server has read
        self.pending = b""  # kept by us, because the pipe was full
        self.unread = b""  # recovered when the pipe broke
        self.input = "open"  # our end: open, closing, closed, broken
        self.reads = True  # its stdin is open
        self.output = b""  # written, but not read by us yet
        self.output_is_open = True  # its end
        self.output_was_closed = False  # as reported to the broker
        self.code: int | None = None
        self.exit_was_reported = False
        self.doomed_at: float | None = None
        self.held = IdentityInEnvironment()
        self._capacity = capacity

    @property
    def is_running(self) -> bool:
        return self.stage == "running"

    @property
    def room(self) -> int:
        return max(0, self._capacity - (len(self.received) - self.read))

    def recover(self) -> bytes:
        if self.input in {"closed", "broken"}:
            return self.unread
        return self.received[self.read :] + self.pending


class World:
    """Drives a broker."""

    def __init__(self, setup: Setup, random: Random) -> None:
        self.setup = setup
        self.random = random
        self._finished: list[FollowedCall] = []
        self.clock = 1000.0
        self.timers: dict[str, float] = {}
        self.record = "s-a"  # the session in the host's record
        self.to_us = b""  # written by the host, but not read by us yet
        self.matched = 0  # how many calls were like the ones before
        self.delivered = 0  # how many of its bytes the broker had before this event
        self.from_us = b""  # everything that the host got
        self.host_reads = True
        self.host_is_there = True
        self.input_was_closed = False  # by the host
        self.input_end_was_heard = False
        self.is_paused = False
        self.finished: list[int] = []
        self.failures: list[LaunchError] = []
        self.servers: list[Server] = []
        self.log: list[str] = []
        self.event = ""
        self.on_sent: Callable[[Server, bytes], None] = lambda _server, _data: None
        self.on_command: Callable[[Any], None] = lambda _command: None
        self.on_event: Callable[[], None] = lambda: None
        self.signalled = 0
        self.sign = ""  # that its server was found to show in this event
        self.restarts = 0  # how often a user has asked for one
        self.broker = self._make_broker()
        backend = self._open(self.broker)
        backend.state = "absent" if setup.is_deferred else "starting"
        self.servers.append(Server(0, setup.capacity))
        self.server.held = self._first.plan.held
        if setup.is_deferred:
            self.server.stage = "gone"  # it stands for the server that was not started

    def _make_broker(self) -> Broker:
        setup = self.setup
        context = CONTEXT
        session, thread = (None, None) if setup.state == "unbound" else ("s-a", "a")
        if setup.style == "vscode" and session:
            session, thread = "a", None
        if setup.style in {"claude", "other"}:
            thread = None
        bound = Binding(setup.state, session, thread, "the start")
        if session:
            context = context.for_session(
                Found(session, "the start"),
                Found(thread, "the start") if thread else context.thread,
            )
        _, plan = self._plan_for(context, None)
        self._first = Served(context, bound, plan)
        callers: Callers = Callers()
        if setup.style in {"codex", "vscode"}:
            callers = InRequest(setup.style)
        elif setup.style == "claude":
            callers = InRecord(lambda: self.record)
        settings = Settings(
            server="docs",
            launch="L",
            carries=CARRIES[setup.style],
            callers=callers,
            plan_for=self._plan_for,
            is_inside=lambda place, roots: place in roots,
            describe=lambda served, _place: {
                "session": served.bound.session,
                "plan": served.plan.environ["n"],
            },
            explain_end=lambda code, when, _words: f"ended with exit code {code} {when}",
            explain_early_end=lambda code, _words: ServerFailed(
                "it ended early", fix="none", exit_code=code
            ),
            read_outer=(lambda: None) if setup.has_outer else None,
            on_change=setup.on_change,
            server_limit=1,
            on_failure=setup.on_failure,
            restart=setup.restart,
            moves_unannounced=setup.moves_unannounced,
            is_host_directory=setup.is_host_directory,
            no_meta=setup.no_meta,
            handshakes=Store(setup) if setup.remembers else None,
            answers_from_memory=setup.answers_from_memory,
            ignores_changes=setup.ignores_changes,
            starts_when_called=setup.starts_when_called,
            rests_after=setup.rests_after,
            rest_anyway=setup.rest_anyway,
            find_state=self._find_sign,
            records_calls=True,
        )
        return Broker(settings)

    def _open(self, broker: Broker) -> Backend:
        broker.now = self.clock
        broker.connect(HOST)
        return broker.open_backend(SERVER, self._first)

    def take_finished(self) -> list[FollowedCall]:
        """Return all calls that have finished so far, as the runtime would record them."""
        self._finished += self.broker.finished_calls
        self.broker.finished_calls.clear()
        return self._finished

    def _plan_for(self, context: Context, place: Found | None) -> tuple[Context, Plan]:
        if place is not None:
            context = context._change(place=place)  # noqa: SLF001  # without looking at the disk
        is_first = not hasattr(self, "broker")
        if not is_first and self.random.random() < self.setup.danger:
            raise LaunchError("no plan", fix="none")
        session = getattr(context.session, "value", None)
        thread = getattr(context.thread, "value", None)
        plan = Plan(
            ["srv"], context.place, {"n": str(len(self.servers) if hasattr(self, "servers") else 0)}
        )
        for source, value in (("session", session), ("thread", thread)):
            if self.setup.holds == "requested":
                plan.held.add(source, value or "the launch's own", is_requested=True)
            elif value and self.setup.holds == "default":
                plan.held.add(source, value, is_requested=False)
        return context, plan

    def _find_sign(self, _name: str) -> str:
        self.sign = "it has a child" if self.random.random() < self.setup.signs else ""
        return self.sign

    # Events

    @property
    def server(self) -> Server:
        return self.servers[-1]

    @property
    def can_read_host(self) -> bool:
        is_held = self.is_paused or bool(self.server.pending)
        return not (self.input_end_was_heard or is_held or self.finished or not self.host_is_there)

    def report(self, what: str, event: Callable[[], None]) -> None:
        self.event = what
        self.log.append(f"{self.clock:8.2f} > {what}")
        self.broker.now = self.clock
        phase = _PHASES.index(self.broker.phase)
        self.sign = ""
        event()
        self._do()
        self.on_event()
        assert _PHASES.index(self.broker.phase) >= phase, "there is no way back"

    def read_host(self, size: int) -> None:
        size = min(size, protocol.LONG_LINE)  # as much as the runtime reads at once
        data, self.to_us = self.to_us[:size], self.to_us[size:]
        if data:
            connection = self.broker.connections[HOST]
            if not connection.lines.is_midway and connection.pattern.match(data):
                self.matched += 1
            self.report(f"host said {data!r}", lambda: self.broker.host_said(HOST, data))
            self.delivered += len(data)
        elif self.input_was_closed:
            self.input_end_was_heard = True
            self.report("host closed", lambda: self.broker.host_closed(HOST))

    def lose_host(self) -> None:
        self.host_is_there = False
        self.input_end_was_heard = True
        self.report("host lost", self.broker.host_lost)

    def lose_reader(self) -> None:
        self.host_reads = False
        self.report("reader lost", lambda: self.broker.reader_lost(HOST))

    def signal(self, number: int) -> None:
        self.signalled = self.signalled or number
        self.report(f"signal {number}", lambda: self.broker.signal_received(number))

    def restart(self) -> None:
        self.restarts += 1
        self.report("restart requested", self.broker.restart_requested)

    def start(self, *, fails: bool) -> None:
        server = self.server
        if fails:
            server.stage = "gone"
            error = LaunchError("cannot be started", fix="none")
            self.report("start failed", lambda: self.broker.server_start_failed(SERVER, error))
        else:
            server.stage = "running"
            self.report("started", lambda: self.broker.server_started(SERVER))

    def read_server(self, size: int) -> None:
        server = self.server
        data, server.output = server.output[:size], server.output[size:]
        if data:
            self.report(f"server said {data!r}", lambda: self.broker.server_said(SERVER, data))
        elif not (server.output_was_closed or (server.output_is_open and server.is_running)):
            server.output_was_closed = True
            self.report("output closed", lambda: self.broker.server_closed_output(SERVER))

    def report_exit(self) -> None:
        server = self.server
        server.exit_was_reported = True
        code = server.code or 0
        self.report(f"exited {code}", lambda: self.broker.server_exited(SERVER, code))

    def report_gone(self) -> None:
        server = self.server
        if not server.output_was_closed:
            server.output_was_closed = True
            self.report("output closed", lambda: self.broker.server_closed_output(SERVER))
        server.stage = "gone"
        unread = server.recover()
        self.report(
            f"gone, unread {unread!r}", lambda: self.broker.server_gone(SERVER, unread, b"")
        )

    def read_input(self, size: int) -> bytes:
        """Let the server read; return the data."""
        server = self.server
        data = server.received[server.read : server.read + size]
        server.read += len(data)
        moved, server.pending = server.pending[: server.room], server.pending[server.room :]
        if moved:
            server.received += moved
            self.report("bytes moved", self.broker.bytes_moved)
            if not server.pending and server.input == "closing":
                server.input = "closed"
        return data

    def kill(self, code: int) -> None:
        server = self.server
        server.stage, server.code = "dead", code
        server.reads = False
        self.log.append(
            f"{self.clock:8.2f}   the server dies, {server.read} of {len(server.received)} read"
        )
        if server.pending:
            self._break(server, b"")  # the loop watches a pipe that was full

    def stop_reading(self) -> None:
        """Let the server close its stdin."""
        self.server.reads = False
        if self.server.pending:
            self._break(self.server, b"")

    def pass_time(self, *, without: str = "-") -> bool:
        """Advance the clock to the next timer; False if there is none."""
        server = self.server
        timers = {one: at for one, at in self.timers.items() if not one.startswith(without)}
        due = min(timers.values(), default=None)
        if server.doomed_at is not None and server.is_running:
            limit = server.doomed_at + _GUARDIAN_LIMIT
            if due is None or limit <= due:
                self.clock = max(self.clock, limit)
                self.kill(137)
                return True
        if due is None:
            return False
        self.clock = max(self.clock, due)
        name = self.random.choice([one for one, at in timers.items() if at <= self.clock])
        del self.timers[name]
        self.report(f"timer {name}", lambda: self.broker.timer(name))
        return True

    # Commands

    def _do(self) -> None:
        while self.broker.out:
            for command in self.broker.take_commands():
                if not isinstance(command, (commands.Note, commands.WriteLease)):
                    self.log.append(f"{'':8}   {command!r}")
                self.on_command(command)
                act = self._ACTS.get(type(command))
                if act is not None:
                    act(self, command)

    def _send_to_host(self, command: Any) -> None:
        assert command.data
        if self.host_reads:
            self.from_us += command.data

    def _send_to_server(self, command: Any) -> None:
        server, data = self.server, command.data
        self.on_sent(server, data)
        assert server.stage != "starting", "nothing can be sent to a server that does not run"
        if server.input == "broken":
            server.unread += data
        elif server.input == "closing" or server.pending:
            server.pending += data
        elif server.input == "open":
            if not server.reads:
                self._break(server, data)
                return
            room = server.room
            server.received += data[:room]
            server.pending = data[room:]

    def _break(self, server: Server, data: bytes) -> None:
        server.unread = server.received[server.read :] + server.pending + data
        server.pending = b""
        server.input = "broken"
        self.report("input broken", lambda: self.broker.server_closed_input(SERVER))

    def _close_input(self, _command: Any) -> None:
        if self.server.input == "open":
            self.server.input = "closing" if self.server.pending else "closed"

    def _cut_input(self, _command: Any) -> None:
        if self.server.input in {"open", "closing"}:
            self.server.input, self.server.pending = "closed", b""

    def _close_output(self, _command: Any) -> None:
        self.host_reads = False
        self.server.output, self.server.output_was_closed = b"", True

    def _close_host_output(self, _command: Any) -> None:
        self.host_reads = False

    def _close_host_input(self, _command: Any) -> None:
        self.input_end_was_heard = True

    def _start_server(self, command: Any) -> None:
        assert self.server.stage == "gone", "the last server is still there"
        self.servers.append(Server(len(self.servers), self.setup.capacity))
        self.server.held = command.plan.held

    def _end_server(self, _command: Any) -> None:
        if self.server.doomed_at is None and self.server.stage != "gone":
            self.server.doomed_at = self.clock

    def _set_timer(self, command: Any) -> None:
        self.timers[command.name] = self.clock + command.seconds

    def _cancel_timer(self, command: Any) -> None:
        self.timers.pop(command.name, None)

    def _pause(self, _command: Any) -> None:
        self.is_paused = True

    def _resume(self, _command: Any) -> None:
        self.is_paused = False

    def _finish(self, command: Any) -> None:
        self.finished.append(command.exit_code)

    def _fail(self, command: Any) -> None:
        self.failures.append(command.error)

    _ACTS: ClassVar[dict[type, Callable[[World, Any], None]]] = {
        commands.SendToHost: _send_to_host,
        commands.SendToServer: _send_to_server,
        commands.CloseInput: _close_input,
        commands.CutInput: _cut_input,
        commands.CloseOutput: _close_output,
        commands.CloseHostOutput: _close_host_output,
        commands.CloseHostInput: _close_host_input,
        commands.StartServer: _start_server,
        commands.EndServer: _end_server,
        commands.SignalServer: _end_server,
        commands.SetTimer: _set_timer,
        commands.CancelTimer: _cancel_timer,
        commands.PauseHost: _pause,
        commands.ResumeHost: _resume,
        commands.Finish: _finish,
        commands.Fail: _fail,
    }


CONTEXT = make_context()
