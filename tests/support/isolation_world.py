"""A simulated world around a broker with several servers: one host, their pipes, a virtual clock.

It carries out the broker's commands as `runtime.supervisor` does: one after the other, and those
of an event that a command causes come last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from broker_playbooks import NamedCallers
from broker_world import Server
from fakes import make_context

from mcp_launch import protocol
from mcp_launch.broker import Broker, commands
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.routing import Served, bind_at_start
from mcp_launch.errors import LaunchError, ServerFailed
from mcp_launch.launch.context import is_inside
from mcp_launch.launch.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from mcp_launch.launch.context import Context
    from mcp_launch.values import Found

HOST = "host"

# How long a server may live after its guardian was asked to end it.
_GUARDIAN_LIMIT = 2.0


class Setup:
    """The settings of one schedule."""

    def __init__(self, random: Random) -> None:
        choose = random.choice
        # By default, a variable that holds the session makes each session get its own server.
        self.on_change = choose(["isolate", "isolate", "auto"])
        self.server_limit = choose([1, 2, 2, 3, 4])
        self.rests_after = choose([0.0, 0.0, 0.3, 30.0])
        self.moves_unannounced = choose([False, False, False, True])
        self.capacity = choose([1 << 30, 1 << 30, 64, 300])  # of the pipe to a server's stdin
        self.danger = choose([0.0, 0.01, 0.03])  # how often something ends that should not
        self.deaths = choose([0.0, 0.02, 0.1])  # how often a server dies
        self.restarts = choose([0.0, 0.0, 0.05])  # how often a user asks for one
        self.failing_starts = choose([0.0, 0.0, 0.3])
        self.failing_plans = choose([0.0, 0.0, 0.1])
        self.refusals = choose([0.0, 0.0, 0.2])  # of the greeting

    def __repr__(self) -> str:
        return repr(vars(self))


class Process(Server):
    """One server's process, and what it was asked and said."""

    def __init__(self, name: str, number: int, capacity: int, plan: Plan) -> None:
        super().__init__(number, capacity)
        self.name = name
        self.plan = plan
        self.sessions: set[str] = set()  # whose calls it got
        self.level = ""  # the last one it got
        self.todo: list[Any] = []  # requests that it has read, but not answered
        self.outbox = b""  # said, but not written yet
        self.parsed = 0  # how much of what it has read was looked at
        self.questions = 0  # how many requests it has made

    @property
    def is_crippled(self) -> bool:
        return not (self.reads and self.output_is_open) or self.output_was_closed


class World:
    """Drives a broker."""

    def __init__(self, setup: Setup, random: Random) -> None:
        self.setup = setup
        self.random = random
        self.clock = 1000.0
        self.timers: dict[str, float] = {}
        self.to_us = b""  # written by the host, but not read by us yet
        self.from_us = b""  # everything that the host got
        self.host_reads = self.host_is_there = True
        self.input_was_closed = False  # by the host
        self.input_end_was_heard = self.is_paused = False
        self.finished: list[int] = []
        self.failures: list[LaunchError] = []
        self.processes: dict[str, Process] = {}  # the last one of each backend
        self.started: list[Process] = []
        self.log: list[str] = []
        self.on_sent: Callable[[Process, bytes], None] = lambda _process, _data: None
        self.on_end: Callable[[Process], None] = lambda _process: None
        self.on_level: Callable[[], None] = lambda: None
        self.broker = self._make_broker()

    def _make_broker(self) -> Broker:
        setup, context = self.setup, make_context()
        broker = Broker(
            Settings(
                server="docs",
                launch="L",
                carries="many sessions",
                callers=NamedCallers(),
                plan_for=self._plan_for,
                is_inside=is_inside,
                describe=lambda served, _place: {"session": served.bound.session},
                explain_end=lambda code, when, _words: f"ended with exit code {code} {when}",
                explain_early_end=lambda code, _words: ServerFailed(
                    "it ended early", fix="none", exit_code=code
                ),
                on_change=setup.on_change,
                server_limit=setup.server_limit,
                moves_unannounced=setup.moves_unannounced,
                rests_after=setup.rests_after,
            )
        )
        plan = Plan(["srv"], context.place, {})
        if setup.on_change == "auto":
            plan.held.add("session", "", is_requested=True)
        broker.now = self.clock
        broker.connect(HOST)
        backend = broker.open_backend(
            "server", Served(context, bind_at_start(context.identity), plan)
        )
        backend.state = "starting"
        self._add("server", plan)
        return broker

    def _plan_for(self, context: Context, place: Found | None) -> tuple[Context, Plan]:
        if self.random.random() < self.setup.failing_plans:
            raise LaunchError("no plan", fix="none")
        if place is not None:
            context = context._change(place=place)  # noqa: SLF001  # without looking at the disk
        plan = Plan(["srv"], context.place, {})
        if self.setup.on_change == "auto":
            session = getattr(context.session, "value", "")
            plan.held.add("session", session, is_requested=True)
        return context, plan

    def _add(self, name: str, plan: Plan) -> None:
        process = Process(name, len(self.started), self.setup.capacity, plan)
        self.processes[name] = process
        self.started.append(process)

    # Events

    @property
    def running(self) -> list[Process]:
        return [one for one in self.processes.values() if one.is_running]

    @property
    def can_read_host(self) -> bool:
        is_held = self.is_paused or any(one.pending for one in self.processes.values())
        return not (self.input_end_was_heard or is_held or self.finished or not self.host_is_there)

    def report(self, what: str, event: Callable[[], None]) -> None:
        self.log.append(f"{self.clock:8.2f} > {what}")
        self.broker.now = self.clock
        event()
        self._do()

    def read_host(self, size: int) -> None:
        data, self.to_us = self.to_us[:size], self.to_us[size:]
        if data:
            self.report(f"host said {data!r}", lambda: self.broker.host_said(HOST, data))
        elif self.input_was_closed:
            self.input_end_was_heard = True
            self.report("host closed", lambda: self.broker.host_closed(HOST))

    def lose_host(self) -> None:
        self.host_is_there, self.input_end_was_heard = False, True
        self.report("host lost", self.broker.host_lost)

    def lose_reader(self) -> None:
        self.host_reads = False
        self.report("reader lost", lambda: self.broker.reader_lost(HOST))

    def signal(self) -> None:
        self.report("signal 15", lambda: self.broker.signal_received(15))

    def restart(self) -> None:
        self.report("restart requested", self.broker.restart_requested)

    def start(self, process: Process, *, fails: bool) -> None:
        name = process.name
        if fails:
            process.stage = "gone"
            error = LaunchError("cannot be started", fix="none")
            event = f"start of {name} failed"
            self.report(event, lambda: self.broker.server_start_failed(name, error))
        else:
            process.stage = "running"
            self.report(f"started {name}", lambda: self.broker.server_started(name))

    def read_server(self, process: Process, size: int) -> None:
        name = process.name
        data, process.output = process.output[:size], process.output[size:]
        if data:
            self.report(f"{name} said {data!r}", lambda: self.broker.server_said(name, data))
        elif not (process.output_was_closed or (process.output_is_open and process.is_running)):
            self._close_output_of(process)

    def _close_output_of(self, process: Process) -> None:
        process.output_was_closed = True
        name = process.name
        self.report(f"output of {name} closed", lambda: self.broker.server_closed_output(name))

    def report_exit(self, process: Process) -> None:
        process.exit_was_reported = True
        name, code = process.name, process.code or 0
        self.report(f"{name} exited {code}", lambda: self.broker.server_exited(name, code))

    def report_gone(self, process: Process) -> None:
        if not process.output_was_closed:
            self._close_output_of(process)
        process.stage = "gone"
        name, unread = process.name, process.recover()
        self.report(
            f"{name} gone, unread {unread!r}", lambda: self.broker.server_gone(name, unread, b"")
        )

    def let_read(self, process: Process, size: int) -> None:
        """Let a server read from its stdin."""
        process.read += len(process.received[process.read : process.read + size])
        room = process.room
        moved, process.pending = process.pending[:room], process.pending[room:]
        if moved:
            process.received += moved
            self.report("bytes moved", self.broker.bytes_moved)
            if not process.pending and process.input == "closing":
                process.input = "closed"

    def kill(self, process: Process, code: int) -> None:
        process.stage, process.code, process.reads = "dead", code, False
        read = f"{process.read} of {len(process.received)} read"
        self.log.append(f"{self.clock:8.2f}   {process.name} dies, {read}")
        if process.pending:
            self._break(process, b"")  # the loop watches a pipe that was full

    def stop_reading(self, process: Process) -> None:
        """Let a server close its stdin."""
        process.reads = False
        if process.pending:
            self._break(process, b"")

    def pass_time(self, *, without: str = "-") -> bool:
        """Advance the clock to the next timer; False if there is none."""
        timers = {one: at for one, at in self.timers.items() if not one.startswith(without)}
        due = min(timers.values(), default=None)
        doomed = [one for one in self.running if one.doomed_at is not None]
        for process in doomed:
            limit = (process.doomed_at or 0.0) + _GUARDIAN_LIMIT
            if due is None or limit <= due:
                self.clock = max(self.clock, limit)
                self.kill(process, 137)
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
        out = self.broker.out
        while out:
            command = out.pop(0)
            if not isinstance(command, (commands.WriteLease)):
                self.log.append(f"{'':8}   {command!r}")
            act = self._ACTS.get(type(command))
            if act is not None:
                act(self, command)

    def _send_to_host(self, command: Any) -> None:
        assert command.data
        if self.host_reads:
            self.from_us += command.data

    def _send_to_server(self, command: Any) -> None:
        process, data = self.processes[command.backend], command.data
        self.on_sent(process, data)
        assert process.stage != "starting", "nothing can be sent to a server that does not run"
        if process.input == "broken":
            process.unread += data
        elif process.input == "closing" or process.pending:
            process.pending += data
        elif process.input == "open" and not process.reads:
            self._break(process, data)
        elif process.input == "open":
            room = process.room
            process.received += data[:room]
            process.pending = data[room:]

    def _break(self, process: Process, data: bytes) -> None:
        process.unread = process.received[process.read :] + process.pending + data
        process.pending = b""
        process.input = "broken"
        name = process.name
        self.report(f"input of {name} broken", lambda: self.broker.server_closed_input(name))

    def _close_input(self, command: Any) -> None:
        process = self.processes.get(command.backend)
        if process is not None and process.input == "open":
            process.input = "closing" if process.pending else "closed"

    def _cut_input(self, command: Any) -> None:
        process = self.processes.get(command.backend)
        if process is not None and process.input in {"open", "closing"}:
            process.input, process.pending = "closed", b""

    def _close_output(self, command: Any) -> None:
        self.host_reads = False
        if process := self.processes.get(command.backend):
            process.output, process.output_was_closed = b"", True

    def _close_host_output(self, _command: Any) -> None:
        self.host_reads = False

    def _close_host_input(self, _command: Any) -> None:
        self.input_end_was_heard = True

    def _start_server(self, command: Any) -> None:
        assert not self.finished, "a server is started after the end"
        last = self.processes.get(command.backend)
        assert last is None or last.stage == "gone", "the last server is still there"
        self._add(command.backend, command.plan)
        alive = [one for one in self.processes.values() if one.stage != "gone"]
        assert len(alive) <= self.setup.server_limit, "there are too many servers"

    def _end_server(self, command: Any) -> None:
        process = self.processes[command.backend]  # as in the supervisor: it must exist
        if command.reason == "replaced":
            self.on_end(process)
        self._doom(process)

    def _signal_server(self, command: Any) -> None:
        if process := self.processes.get(command.backend):
            self._doom(process)

    def _doom(self, process: Process) -> None:
        if process.doomed_at is None and process.stage != "gone":
            process.doomed_at = self.clock

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
        commands.SignalServer: _signal_server,
        commands.SetTimer: _set_timer,
        commands.CancelTimer: _cancel_timer,
        commands.PauseHost: _pause,
        commands.ResumeHost: _resume,
        commands.Finish: _finish,
        commands.Fail: _fail,
    }


def read_json(line: bytes) -> Any:
    """Return what a line says; None if it is not JSON."""
    return protocol.look(line)
