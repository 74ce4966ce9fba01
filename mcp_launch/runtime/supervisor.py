"""Reports events to the broker and carries out its commands: all I/O of the guarded wire.

The two directions are independent: a slow reader pauses only its own sources, so it neither
blocks the other direction nor fills our memory. We write at once, and wait for room only when
there was none: a message costs one poll, one read and one write, as in the smallest possible
relay.
"""

from __future__ import annotations

import os
import time

from mcp_launch import state
from mcp_launch.broker import commands
from mcp_launch.errors import OutOfResources
from mcp_launch.runtime.loop import CHUNK, Loop, StateWrites, has_input
from mcp_launch.runtime.streams import PipedServer, ServerErrors, Writer, replace_with_null
from mcp_launch.system import kernel
from mcp_launch.system.guardian import END_ORDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker import Broker
    from mcp_launch.broker.commands import Command
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.plan import Plan
    from mcp_launch.runtime.absent import AbsentServers
    from mcp_launch.state.launch_log import Log
    from mcp_launch.system.guardian import Guardian, Starter
    from mcp_launch.system.kernel import HostWatch
    from mcp_launch.system.spawn import Pipes

# How long to wait for the host to read the rest of our stderr, if nothing else is left to do.
_LAST_LINES_LIMIT = 0.45

# How many bytes may wait for a host, or for one of its servers, before we stop reading requests.
_UNREAD_LIMIT = 1 << 20

# The connection of a launch, and its first backend.
HOST, SERVER = "host", "server"

_SendToHost, _SendToServer = commands.SendToHost, commands.SendToServer
_read, _now = os.read, time.monotonic  # looked up for every message


class Supervisor:
    """Handles the loop's events, and carries out each command."""

    def __init__(  # noqa: PLR0913  # each named at the call
        self,
        broker: Broker,
        loop: Loop,
        *,
        wake: int,
        log: Log,
        report: Callable[[LaunchError], None],
        write_lease: Callable[[], None],
        note_server: Callable[[str, Guardian], None],
        starter: Starter | None,
        absent: AbsentServers | None = None,
        keeps_arguments: bool = False,
    ) -> None:
        self.broker = broker
        self.loop = loop
        self.left_behind = 0  # processes, by all servers that have ended
        self.exit_code = 0
        self._report = report
        self.writes = StateWrites(broker, loop, write_lease, keeps_arguments=keeps_arguments)
        self._note_server = note_server
        self._starter = starter
        self.absent = absent  # None: no server is ever absent
        self.servers: dict[str, PipedServer] = {}
        self._wake = wake
        self._is_paused = False  # the broker does not want to read from the host
        self._is_finishing = self._host_is_lost = self._input_has_ended = False
        name = broker.settings.server
        self.errors: ServerErrors = ServerErrors(loop, name, log, self._try_to_leave)
        self.to_host: Writer = Writer(
            loop,
            1,
            on_full=self._pause_servers,
            on_empty=self._resume_servers,
            on_broken=self._lose_reader,
            on_moved=lambda: self._notify(broker.bytes_moved),
        )
        broker.now = time.monotonic()
        broker.connect(HOST)
        if wake >= 0:
            loop.watch(wake, self._handle_signals)
        loop.watch(0, self._read_host)

    def run(self) -> int:
        """Run until the broker finishes; return the exit code."""
        self.loop.run()
        return self.exit_code

    def watch_hosts(self, hosts: HostWatch) -> None:
        """Notice the end of the host's processes."""
        self.loop.watch_hosts(hosts, self._lose_host)

    def _lose_host(self) -> None:
        self._host_is_lost = True
        self._end_input()
        self._notify(self.broker.host_lost)

    def _read_host(self) -> None:
        try:
            data = _read(0, CHUNK)
        except OSError:
            data = b""  # a reset socket or a closed terminal is the end, too
        broker = self.broker
        broker.now = _now()
        if data:
            broker.host_said(HOST, data)
        else:
            self._end_input()
            broker.host_closed(HOST)
        self._run_commands()
        if self.to_host.pending or len(self.servers) > 1:
            self._resume_host()  # or not: it may have to read first

    def _end_input(self) -> None:
        self._input_has_ended = True
        self.loop.unwatch(0)

    def _lose_reader(self) -> None:
        self._notify(lambda: self.broker.reader_lost(HOST))

    def _handle_signals(self) -> None:
        for number in os.read(self._wake, 64):
            if number == kernel.RESTART:
                self._notify(self.broker.restart_requested)
            else:
                self._notify(lambda number=number: self.broker.signal_received(number))  # type: ignore[misc]

    def attach(self, name: str, started: Guardian, pipes: Pipes, plan: Plan) -> None:
        """Watch a server that is being started."""
        to_server, output, errors = pipes.ours
        writer = Writer(
            self.loop,
            to_server,
            on_full=self._resume_host,
            on_empty=self._resume_host,
            on_broken=lambda: self._notify(lambda: self.broker.server_closed_input(name)),
            on_moved=lambda: self._notify(self.broker.bytes_moved),
        )
        server = self.servers[name] = PipedServer(
            self.loop,
            name,
            started,
            plan,
            on_started=lambda: self._note_start(name),
            on_start_failed=lambda error: self._fail_to_start(name, error),
            on_exited=lambda code: self._notify(lambda: self.broker.server_exited(name, code)),
            on_gone=lambda: self._report_gone(name),
        )
        server.writer, server.output = writer, output
        server.is_first = not self.broker.backends[name].generation
        server.stderr = self.errors.connect(errors)
        started.on_restart = lambda: self._notify(self.broker.restart_requested)
        if self.absent is not None:
            self.absent.note_variables(plan.environ)
        if not self.to_host.pending:
            self._watch_output(name)

    def _note_start(self, name: str) -> None:
        self._note_server(name, self.servers[name].guardian)
        self._notify(lambda: self.broker.server_started(name, self._find_server(name)))

    def _watch_output(self, name: str) -> None:
        """Read a server's stdout from now on."""
        server, broker = self.servers[name], self.broker

        def read_server() -> None:
            try:
                data = _read(server.output, CHUNK)
            except OSError:
                data = b""
            broker.now = _now()
            if data:
                if server.guardian.may_install:
                    server.guardian.note_output(data)
                broker.server_said(name, data)
            else:
                self.loop.unwatch(server.output)
                broker.server_closed_output(name)
            self._run_commands()
            if server.is_gone:
                self._report_gone(name)

        self.loop.watch(server.output, read_server)

    def _report_gone(self, name: str) -> None:
        """Report that a server is gone, once all its output was read."""
        server = self.servers[name]
        if not server.is_gone:
            return
        if server.output >= 0 and self.loop.is_watched(server.output):
            if has_input(server.output):
                return  # it is read next
            self.loop.unwatch(server.output)
            self._notify(lambda: self.broker.server_closed_output(name))
        elif server.output >= 0 and self.to_host.pending and self._can_reach_host:
            return  # the rest of the server's output is read when the host has read this
        source = server.stderr.source
        if source >= 0 and self.loop.is_watched(source) and has_input(source):
            self.loop.set_timer(f"rest {name}", 0.0, lambda: self._report_gone(name))
            return
        server.is_gone = False  # report it only once
        self.left_behind += server.guardian.left_behind
        self.errors.print_install(server)
        unread = server.guardian.unread + server.writer.recover()
        self._notify(lambda: self.broker.server_gone(name, unread, server.stderr.end))
        if self.servers[name] is server:  # no other one was started
            server.close_pipes()

    @property
    def _can_reach_host(self) -> bool:
        return not self._host_is_lost and not self.to_host.is_closed

    def _pause_servers(self) -> None:
        for server in self.servers.values():
            self.loop.unwatch(server.output)

    def _resume_servers(self) -> None:
        for name, server in self.servers.items():
            if server.output >= 0:
                self._watch_output(name)
        self._resume_host()
        for name in list(self.servers):
            self._report_gone(name)
        self._try_to_leave()

    def _resume_host(self) -> None:
        # Of several servers, one that does not read must not keep the others waiting.
        limit = _UNREAD_LIMIT if len(self.servers) > 1 else 0
        is_full = any(len(one.writer.pending) > limit for one in self.servers.values())
        is_behind = len(self.to_host.pending) > _UNREAD_LIMIT
        if self._input_has_ended or self._is_paused or is_full or is_behind:
            self.loop.unwatch(0)
        else:
            self.loop.watch(0, self._read_host)

    def _notify(self, event: Callable[[], None]) -> None:
        self.broker.now = _now()
        event()
        self._run_commands()

    def _run_commands(self) -> None:
        out = self.broker.out
        while out:
            command = out.pop(0)
            kind = command.__class__
            if kind is _SendToHost:
                self.to_host.put(command.data)  # type: ignore[attr-defined]
            elif kind is _SendToServer:
                self.servers[command.backend].writer.put(command.data)  # type: ignore[attr-defined]
            else:
                _ACTIONS[kind](self, command)
        if self.broker.finished_calls:
            self.writes.record_calls()

    def _do_start(self, command: commands.StartServer) -> None:
        if self._starter is None:
            return
        if last := self.servers.get(command.backend):
            last.close_pipes()  # so that the next server needs no more descriptors than this one
        for kind in ("input", "output"):  # the ends of those pipes say nothing about the next
            self.loop.cancel_timer(f"broker {kind} {command.backend}")
        try:
            is_first = command.backend == SERVER
            started, pipes = self._starter.begin_piped(command.plan, is_first=is_first)
        except OutOfResources as error:
            self._fail_to_start(command.backend, error)
            return
        self.attach(command.backend, started, pipes, command.plan)

    def _fail_to_start(self, name: str, error: LaunchError) -> None:
        server = self.servers.get(name)
        if server is not None and server.guardian.can_try_again:
            again = commands.StartServer(name, server.plan)
            self.loop.set_timer(f"start {name} again", 0.0, lambda: self._do_start(again))
            return
        self._notify(lambda: self.broker.server_start_failed(name, error))

    def _do_set_timer(self, command: commands.SetTimer) -> None:
        name = command.name
        self.loop.set_timer(
            f"broker {name}", command.seconds, lambda: self._notify(lambda: self.broker.timer(name))
        )

    def _do_close_host_input(self, _command: Command) -> None:
        self._end_input()
        replace_with_null(0)
        # Now only our stdout shows that the host has hung up; poll always reports that.
        self.loop.watch(1, self._lose_reader, 0)

    def _do_close_output(self, command: commands.CloseOutput) -> None:
        self.to_host.close()
        if server := self.servers.get(command.backend):
            server.close_output()

    def _do_close_input(self, command: commands.CloseInput) -> None:
        if server := self.servers.get(command.backend):
            if server.guardian.shared and self.broker.backends[command.backend].restart:
                server.guardian.send(server.guardian.RESTART)  # first: a pool lets us go at the end
            server.writer.close_when_empty()

    def _do_cut_input(self, command: commands.CutInput) -> None:
        if server := self.servers.get(command.backend):
            server.writer.close()

    def _find_server(self, name: str) -> int:
        """Return the pid of a server, or 0."""
        server = self.servers.get(name)
        return (server.guardian.server or 0) if server is not None else 0

    def find_state(self, name: str) -> str:
        """Return a sign that a server keeps state in its processes; empty if there is none."""
        return self.absent.find_sign(self._find_server(name)) if self.absent else ""

    def is_used_by_others(self, name: str) -> bool:
        """Return whether another launch has called a server that it shares."""
        server = self.servers.get(name)
        if server is None or not server.guardian.shared:
            return False
        # A report that was not read yet may say so.
        return server.guardian.is_used or has_input(server.guardian.report)

    def _do_remember(self, command: commands.Remember) -> None:
        if self.absent:
            self.absent.remember(command.memory, self._find_server(SERVER), self.broker.now)

    def _do_end(self, command: commands.EndServer) -> None:
        if command.reason == "rest" and self.absent is not None:
            self.absent.note_rest(self._find_server(command.backend))
        self.servers[command.backend].guardian.send(END_ORDERS[command.reason])

    def _do_signal(self, command: commands.SignalServer) -> None:
        if server := self.servers.get(command.backend):
            server.guardian.send(command.number)

    def _set_paused(self, *, is_paused: bool) -> None:
        self._is_paused = is_paused
        self._resume_host()

    def _do_finish(self, command: commands.Finish) -> None:
        self.exit_code = command.exit_code
        self._is_finishing = True
        self._end_input()
        self._try_to_leave()

    def _try_to_leave(self) -> None:
        if not self._is_finishing:
            return
        if self.to_host.pending and self._can_reach_host and not self.broker.signalled:
            return
        if not self.errors.is_pending:
            self.loop.stop()
        elif not self.loop.has_timer("last lines"):
            self.loop.set_timer("last lines", _LAST_LINES_LIMIT, self.loop.stop)

    def fail(self, error: LaunchError, unread: bytes) -> None:
        """Answer everything the host asks with an error, first what was already read."""
        self._notify(lambda: self.broker.fail(error))
        if unread:
            self._notify(lambda: self.broker.host_said(HOST, unread))

    def leave(self) -> None:
        """Leave without waiting: the guardians finish their work without us."""
        for server in self.servers.values():
            server.guardian.leave()


_ACTIONS: dict[type[Command], Callable[[Supervisor, Command], None]] = {
    commands.WriteLease: lambda self, one: self.writes.expect_lease(is_urgent=one.is_urgent),  # type: ignore[attr-defined]
    commands.StartServer: Supervisor._do_start,  # type: ignore[dict-item]  # noqa: SLF001
    commands.SetTimer: Supervisor._do_set_timer,  # type: ignore[dict-item]  # noqa: SLF001
    commands.CancelTimer: lambda self, one: self.loop.cancel_timer(f"broker {one.name}"),  # type: ignore[attr-defined]
    commands.CloseHostInput: Supervisor._do_close_host_input,  # noqa: SLF001
    commands.CloseHostOutput: lambda self, _: self.to_host.close_when_empty(),
    commands.CloseOutput: Supervisor._do_close_output,  # type: ignore[dict-item]  # noqa: SLF001
    commands.CloseInput: Supervisor._do_close_input,  # type: ignore[dict-item]  # noqa: SLF001
    commands.CutInput: Supervisor._do_cut_input,  # type: ignore[dict-item]  # noqa: SLF001
    commands.EndServer: Supervisor._do_end,  # type: ignore[dict-item]  # noqa: SLF001
    commands.SignalServer: Supervisor._do_signal,  # type: ignore[dict-item]  # noqa: SLF001
    commands.PauseHost: lambda self, _: self._set_paused(is_paused=True),
    commands.ResumeHost: lambda self, _: self._set_paused(is_paused=False),
    commands.Note: lambda _self, one: state.note(one.text, one.kind),  # type: ignore[attr-defined]
    commands.WriteStderr: lambda self, one: self.errors.print(one.text),  # type: ignore[attr-defined]
    commands.Divert: lambda self, one: self.errors.report_noise(one.line),  # type: ignore[attr-defined]
    commands.Remember: Supervisor._do_remember,  # type: ignore[dict-item]  # noqa: SLF001
    commands.Forget: lambda self, one: self.absent.forget(one.client),  # type: ignore[attr-defined,union-attr]
    commands.Fail: lambda self, one: self._report(one.error),  # type: ignore[attr-defined]
    commands.Finish: Supervisor._do_finish,  # type: ignore[dict-item]  # noqa: SLF001
}
