"""All input and output of messages, for any number of clients and servers.

Reports events to the core and carries out its commands. A launcher has one client on its own stdin
and stdout, a pool has many on pipes. The two directions are independent: a slow reader pauses only
those whose messages it would get. A message costs one poll, one read and one write, as in the
smallest possible relay.

What a launcher or a pool does by itself is a handler in the table that also has the core's
commands: for a command (see `broker.commands`), or for one of these events.

| event | means |
| --- | --- |
| begin, SERVER, PLAN | start it: returns its guardian and pipes, or raises `OutOfResources` |
| started, SERVER, GUARDIAN | a server runs |
| start failed, SERVER, GUARDIAN | it could not be started; without a guardian, if there was none |
| resting, SERVER, None | it is about to be ended, because nobody needs it |
| errors, SERVER, BYTES | it has written to its stderr |
| gone, SERVER, PIPED SERVER | it is gone, with all processes below it |
| closed, CLIENT, None | a client sends nothing more |
| moved, CLIENT, None | a client has read something that had to wait |
| records, "", BOOL | calls have finished: record them at once (True), or soon |

What is behind a server is imported with the first start: a launcher whose client is answered from
memory never needs it.
"""

from __future__ import annotations

import os
import time

from mcp_launch import state
from mcp_launch.errors import OutOfResources
from mcp_launch.protocol.lines import Lines
from mcp_launch.runtime.loop import CHUNK, has_input, read
from mcp_launch.runtime.writer import Writer, replace_with_null

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.broker.core import Core
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.plan import Plan
    from mcp_launch.runtime.loop import Loop
    from mcp_launch.runtime.server_process import PipedServer
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes

    # What is done for a command or an event; each gets a name, and what is to be known.
    Handlers = dict[str, Callable[[str, Any], Any]]

# How many bytes wait for a client before it no longer gets what it has not asked for.
_UNASKED_LIMIT = 32 << 20

# How many finished calls are recorded at once.
_RECORDED_AT_ONCE = 256

# How many bytes from the end of a server's stderr are kept, to explain its end.
_ERRORS_END = 2048

_read, _now = os.read, time.monotonic  # looked up for every message


class ClientWire:
    """The pipes to one client."""

    __slots__ = ("is_paused", "is_told", "lines", "name", "out", "source")

    def __init__(self, name: str, source: int, out: Writer) -> None:
        self.name = name
        self.source = source  # its messages come in; -1: closed
        self.out = out
        self.lines = Lines()
        self.is_paused = False  # by the core: too much of it waits
        self.is_told = False  # that it misses something


class Edge:
    """Handles the loop's events, and carries out each command."""

    def __init__(self, core: Core, loop: Loop) -> None:
        self.core = core
        self.loop = loop
        self.clients: dict[str, ClientWire] = {}
        self.servers: dict[str, PipedServer] = {}
        self.handlers: Handlers = {
            "inform": self._inform,
            "start": self._start,
            "end": self._end,
            "signal": self._signal,
            "close": self._close,
            "cut": self._cut,
            "mute": self._mute,
            "deafen": self._deafen,
            "pause": self._pause,
            "note": lambda kind, text: state.note(text, kind),
            "closed": lambda name, _: core.client_closed(name),
        }
        self._writers: dict[str, Writer] = {}  # to all clients and servers
        self._next = core.timers.next  # when the core has to do something
        self._is_congested = False  # something waits for a reader
        core.now = _now()

    # Clients

    def add_client(self, wire: ClientWire, owner: str = "") -> None:
        """Serve a client from now on."""
        name = wire.name
        self.clients[name] = wire
        self._writers[name] = wire.out
        wire.out.on_moved = lambda: self._note_moved(name)
        wire.out.on_broken = lambda: self._lose_reader(name)
        self.core.client_joined(name, owner)
        self._balance()

    def drop_client(self, name: str) -> None:
        """Close everything to a client."""
        wire = self.clients.pop(name)
        del self._writers[name]
        wire.source = self.loop.close(wire.source)
        wire.out.close()
        self._balance()

    def _lose_reader(self, name: str) -> None:
        if name in self.core.clients:
            self.notify(lambda: self.core.client_lost(name))

    def _watch_client(self, wire: ClientWire) -> None:
        core, feed, said = self.core, wire.lines.feed, self.core.client_said
        name, source = wire.name, wire.source

        def receive() -> None:
            try:
                data = _read(source, CHUNK)
            except OSError:
                data = b""  # a reset socket or a closed terminal is the end, too
            core.now = _now()
            if data:
                for line in feed(data):
                    said(name, line)
                    line = b""  # noqa: PLW2901  # a long one is not kept while it is written
            else:
                wire.source = self.loop.close(source)
                if rest := wire.lines.close():
                    said(name, rest + b"\n")  # its end will not come
                if name in core.clients:
                    self.handlers["closed"](name, None)
            self.obey()

        self.loop.watch(source, receive)

    # Servers

    def attach(self, name: str, guardian: Guardian, pipes: Pipes, plan: Plan) -> None:
        """Watch a server that is being started."""
        from mcp_launch.runtime.server_process import PipedServer, ServerProcess

        is_first = self.core.servers[name].history.starts <= 1
        handlers: Handlers = {
            "started": self._note_started,
            "failed": self._note_failed,
            "exited": self._note_exited,
            "ended": lambda name, _: self._note_ended(name),
        }
        process = ServerProcess(self.loop, name, guardian, plan, handlers, is_first=is_first)
        writer = self._writers[name] = Writer(
            self.loop,
            pipes.ours[0],
            on_moved=lambda: self._note_moved(name),
            on_broken=lambda: self.notify(lambda: self.core.server_closed_input(name)),
        )
        server = self.servers[name] = PipedServer(process, pipes, writer, self.loop)
        guardian.on_restart = lambda: self.notify(self.core.restart_requested)
        self.loop.watch(server.errors, lambda: self._read_errors(server))
        self._balance()

    def _watch_server(self, server: PipedServer) -> None:
        core, feed, said = self.core, server.lines.feed, self.core.server_said
        name, guardian = server.process.name, server.process.guardian

        def receive() -> None:
            try:
                data = _read(server.output, CHUNK)
            except OSError:
                data = b""
            core.now = _now()
            if data:
                if guardian.may_install:
                    guardian.note_output(data)
                for line in feed(data):
                    said(name, line)
                if server.lines.is_too_long:
                    server.lines.close()
                    core.server_overflowed(name)
            else:
                self._end_output(server)
            self.obey()
            if server.process.is_gone:
                self._note_ended(name)

        self.loop.watch(server.output, receive)

    def _end_output(self, server: PipedServer) -> None:
        server.close_output()
        name, core = server.process.name, self.core
        if rest := server.lines.close():
            core.server_said(name, rest + b"\n")  # its end will not come
        if name in core.servers:
            core.server_closed_output(name)

    def _read_errors(self, server: PipedServer) -> None:
        if data := read(server.errors):
            server.errors_end = (server.errors_end + data)[-_ERRORS_END:]
            self._report("errors", server.process.name, data)
        else:
            server.close_errors()

    def _note_started(self, name: str, guardian: Guardian) -> None:
        self._report("started", name, guardian)
        self.notify(lambda: self.core.server_started(name, guardian.server or 0))

    def _note_failed(self, name: str, error: LaunchError) -> None:
        server = self._forget(name)
        guardian = server.process.guardian if server is not None else None
        if server is not None and server.process.guardian.can_try_again:
            plan = server.process.plan
            self.loop.set_timer(f"start {name}", 0.0, lambda: self._start(name, plan))
            return
        self._report("start failed", name, guardian)
        self.notify(lambda: self.core.server_failed(name, error))

    def _note_exited(self, name: str, code: int) -> None:
        if name in self.core.servers:
            self.notify(lambda: self.core.server_exited(name, code))

    def _note_ended(self, name: str) -> None:
        """Report that a server is gone, once all that it has written was read."""
        server = self.servers.get(name)
        if server is None or not server.process.is_gone:
            return
        if server.output >= 0 and has_input(server.output):
            if any(not wire.out.is_closed for wire in self._list_clients(name)):
                return  # it is read next, or when a client has read what it got
        elif server.output >= 0:
            # It has ended, but another process may hold the pipe.
            self.notify(lambda: self._end_output(server))
        if server.errors >= 0 and has_input(server.errors):
            self.loop.set_timer(f"gone {name}", 0.0, lambda: self._note_ended(name))
            return
        unread = server.process.guardian.unread + server.writer.recover()
        lines = [line + b"\n" for line in unread.split(b"\n")[:-1]]
        self._forget(name)
        self._report("gone", name, server)
        if name in self.core.servers:
            self.notify(lambda: self.core.server_gone(name, lines, server.errors_end))

    def _forget(self, name: str) -> PipedServer | None:
        """Close the pipes of a server: the next one needs no more descriptors than this one."""
        server = self.servers.pop(name, None)
        if server is not None:
            del self._writers[name]
            server.close()
            self._balance()
        return server

    # Who may be read from

    def _list_clients(self, server: str) -> list[ClientWire]:
        known = self.core.servers.get(server)
        names = [one.name for one in known.kind.clients] if known is not None else []
        return [self.clients[name] for name in names if name in self.clients]

    def _note_moved(self, name: str) -> None:
        self.core.now = _now()
        self.core.bytes_moved()
        self._balance()
        self.obey()
        self._report("moved", name)

    def _balance(self) -> None:
        """Read only from those whose messages somebody has room for."""
        self._is_congested = False
        loop = self.loop
        for wire in [*self.clients.values()]:
            client = self.core.clients.get(wire.name)
            if client is not None and client.is_behind != wire.out.is_behind:
                self.core.client_is_behind(wire.name, is_behind=wire.out.is_behind)
            if wire.source < 0:
                continue
            servers = client.kind.servers if client is not None else ()
            busy = (self.servers[one.name] for one in servers if one.name in self.servers)
            is_full = any(one.writer.is_behind for one in busy)
            # The server of a single client waits for it. Among several, the client has to wait.
            is_behind = wire.out.is_behind and len(self.clients) > 1
            if wire.is_paused or is_behind or is_full:
                loop.unwatch(wire.source)
            elif not loop.is_watched(wire.source):
                self._watch_client(wire)
        for name, server in [*self.servers.items()]:
            clients = self._list_clients(name)
            if server.output < 0:
                continue
            # It keeps the pace of the fastest; for the others, what they have asked for waits.
            if clients and all(one.out.is_behind for one in clients):
                loop.unwatch(server.output)
            elif not loop.is_watched(server.output):
                self._watch_server(server)

    # Commands

    def notify(self, event: Callable[[], object]) -> None:
        """Report an event to the core, and do what it says."""
        self.core.now = _now()
        event()
        self.obey()

    def _report(self, event: str, name: str, what: object = None) -> None:
        if (handle := self.handlers.get(event)) is not None:
            handle(name, what)

    def obey(self) -> None:
        """Carry out what the core says, in order."""
        core, writers = self.core, self._writers
        while core.out:
            commands, core.out = core.out, []
            for verb, name, what in commands:
                if verb == "send":
                    if (writer := writers.get(name)) is not None:
                        writer.put(what)
                        if writer.pending:
                            self._is_congested = True
                else:
                    self._report(verb, name, what)
        is_full = len(core.finished) >= _RECORDED_AT_ONCE
        if is_full or (core.finished and not self.loop.has_timer("records")):
            # Recorded soon; many at once cost a fourth each, and delay few of them.
            self._report("records", "", is_full)
        if core.timers.next != self._next:
            self._set_timer()
        if self._is_congested:
            self._balance()

    def _set_timer(self) -> None:
        self._next = moment = self.core.timers.next
        if moment == float("inf"):
            self.loop.cancel_timer("core")
        else:
            self.loop.set_timer("core", moment - _now(), self._pass_time)

    def _pass_time(self) -> None:
        self._next = -1.0  # whatever is next, it is not set yet
        self.notify(self.core.time_passed)

    def _inform(self, name: str, line: bytes) -> None:
        """Write a line that a client has not asked for, unless it does not read."""
        wire = self.clients.get(name)
        if wire is None:
            return
        if len(wire.out.pending) <= _UNASKED_LIMIT:
            wire.is_told = False
            wire.out.put(line)
            self._is_congested = self._is_congested or bool(wire.out.pending)
        elif not wire.is_told:
            wire.is_told = True
            text = f"this session has {_UNASKED_LIMIT >> 20} MB of notifications to read: "
            text += "further notifications are dropped until it has read these"
            self._report("tell", name, text)

    def _start(self, name: str, plan: Plan) -> None:
        try:
            guardian, pipes = self.handlers["begin"](name, plan)
        except OutOfResources as error:
            self._note_failed(name, error)
        else:
            self.attach(name, guardian, pipes, plan)

    def _end(self, name: str, reason: str) -> None:
        if server := self.servers.get(name):
            from mcp_launch.system.guardian import END_ORDERS

            if reason == "rest":
                self._report("resting", name)
            guardian = server.process.guardian
            guardian.send(guardian.RESTART if reason == "restarted" else END_ORDERS[reason])

    def _signal(self, name: str, number: int) -> None:
        if server := self.servers.get(name):
            server.process.guardian.send(number)

    def _close(self, name: str, _: object) -> None:
        if writer := self._writers.get(name):
            writer.close_when_empty()

    def _cut(self, name: str, _: object) -> None:
        if server := self.servers.get(name):
            server.writer.close()

    def _mute(self, name: str, client: str) -> None:
        self.clients[client].out.close_when_empty()
        if server := self.servers.get(name):
            server.close_output()

    def _deafen(self, name: str, _: object) -> None:
        wire = self.clients[name]
        source, wire.source = wire.source, self.loop.close(wire.source)
        if 0 <= source <= 2:  # noqa: PLR2004  # a standard descriptor
            replace_with_null(source)
        # Now only what we write shows that the client has hung up; poll always reports that.
        self.loop.watch(wire.out.fd, lambda: self._lose_reader(name), 0)

    def _pause(self, name: str, is_paused: bool) -> None:  # noqa: FBT001  # what a command says
        wire = self.clients.get(name)
        if wire is not None and wire.is_paused != is_paused:
            wire.is_paused = is_paused
            self._is_congested = True
