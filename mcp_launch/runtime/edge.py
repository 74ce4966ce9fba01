"""All input and output of messages, for any number of clients and servers.

Reports events to the core and carries out its commands. A launcher has one client on its own stdin
and stdout, a pool has many on pipes. The two directions are independent: a slow reader pauses only
those whose messages it would get. A message costs one poll, one read and one write, as in the
smallest possible relay.

What is behind a server is imported with the first start: a launcher whose client is answered from
memory never needs it.
"""

from __future__ import annotations

import os
import time

from mcp_launch import state
from mcp_launch.errors import OutOfResources
from mcp_launch.protocol.lines import Lines
from mcp_launch.runtime.loop import CHUNK, has_input
from mcp_launch.runtime.writer import Writer, replace_with_null

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from mcp_launch.broker.core import Core
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.plan import Plan
    from mcp_launch.protocol.memory import Remembered
    from mcp_launch.runtime.loop import Loop
    from mcp_launch.runtime.server_process import PipedServer
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes

    class Owner(Protocol):
        """What only this kind of process does: a launcher, or a pool."""

        def begin(self, plan: Plan, *, is_first: bool) -> tuple[Guardian, Pipes]:
            """Start a server; raises OutOfResources."""

        def note_started(self, name: str, guardian: Guardian) -> None:
            """Note that a server runs."""

        def note_failed(self, name: str, guardian: Guardian | None) -> None:
            """Note that a server could not be started."""

        def note_ending(self, name: str, reason: str) -> None:
            """Note that a server is about to be ended."""

        def note_gone(self, server: PipedServer) -> None:
            """Note that a server is gone."""

        def read_errors(self, server: PipedServer, data: bytes) -> None:
            """Pass on what a server has written to its stderr."""

        def take_noise(self, name: str, line: bytes) -> None:
            """Show a line of a server's stdout that is not a message."""

        def tell(self, client: str, text: str) -> None:
            """Print a message on a client's stderr."""

        def expect_records(self, *, is_urgent: bool) -> None:
            """Record the calls that have finished soon, or now."""

        def write_lease(self, *, is_urgent: bool) -> None:
            """Write what others may read of us: at once, or soon."""

        def keep(self, memory: Remembered) -> None:
            """Write what servers answer to disk."""

        def forget(self, client: str) -> None:
            """Remove from disk what servers answer to a kind of client."""

        def fail(self, error: LaunchError) -> None:
            """Report why there is no server."""


# How many bytes wait for a client before it no longer gets what it has not asked for.
_UNASKED_LIMIT = 32 << 20

# How many finished calls are recorded at once.
_RECORDED_AT_ONCE = 128

# How many bytes from the end of a server's stderr are kept, to explain its end.
_ERRORS_END = 2048

_read, _now = os.read, time.monotonic  # looked up for every message


class ClientWire:
    """The pipes to one client."""

    __slots__ = (
        "ends",
        "is_paused",
        "is_told",
        "leave",
        "lines",
        "name",
        "out",
        "source",
        "take_back",
    )

    def __init__(
        self,
        name: str,
        source: int,
        out: Writer,
        *,
        leave: Callable[[int], None],
        take_back: Callable[[bytes], None] = lambda _: None,
        ends: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self.source = source  # its messages come in; -1: closed
        self.out = out
        self.lines = Lines()
        self.leave = leave  # ends the connection, with an exit code
        self.take_back = take_back  # returns a line that no server has read
        self.ends = ends  # asks at the end of its messages whether that is the client's own end
        self.is_paused = False  # by the core: too much of it waits
        self.is_told = False  # that it misses something


class Edge:
    """Handles the loop's events, and carries out each command."""

    def __init__(self, core: Core, loop: Loop, owner: Owner) -> None:
        self.core = core
        self.loop = loop
        self.owner = owner
        self.clients: dict[str, ClientWire] = {}
        self.servers: dict[str, PipedServer] = {}
        self._writers: dict[str, Writer] = {}  # to all of these
        self._next = core.timers.next  # when the core has to do something
        self._is_congested = False  # something waits for a reader
        core.now = _now()

    # Clients

    def add_client(self, wire: ClientWire, owner: str = "") -> None:
        """Serve a client from now on."""
        self.clients[wire.name] = wire
        self._writers[wire.name] = wire.out
        self.core.client_joined(wire.name, owner)
        self._balance()

    def drop_client(self, name: str) -> None:
        """Close everything to a client."""
        wire = self.clients.pop(name, None)
        if wire is not None:
            del self._writers[name]
            self.close_source(wire)
            wire.out.close()
            self._balance()

    def close_source(self, wire: ClientWire) -> None:
        """Read nothing more from a client."""
        if wire.source >= 0:
            self.loop.unwatch(wire.source)
            if wire.source > 2:  # noqa: PLR2004  # the number of a standard descriptor stays taken
                os.close(wire.source)
            wire.source = -1

    def lose_reader(self, name: str) -> None:
        """Note that a client can read nothing more."""
        if name in self.core.clients:
            self.notify(lambda: self.core.client_lost(name))

    def _watch_client(self, wire: ClientWire) -> None:
        core, feed, said = self.core, wire.lines.feed, self.core.client_said
        name, source = wire.name, wire.source

        def read() -> None:
            try:
                data = _read(source, CHUNK)
            except OSError:
                data = b""  # a reset socket or a closed terminal is the end, too
            core.now = _now()
            if data:
                for line in feed(data):
                    said(name, line)
            else:
                self.close_source(wire)
                if rest := wire.lines.close():
                    said(name, rest + b"\n")  # its end will not come
                if wire.ends() and name in core.clients:
                    core.client_closed(name)
            self.obey()

        self.loop.watch(source, read)

    # Servers

    def attach(self, name: str, guardian: Guardian, pipes: Pipes, plan: Plan) -> None:
        """Watch a server that is being started."""
        from mcp_launch.runtime.server_process import PipedServer, ServerProcess

        is_first = self.core.servers[name].history.starts <= 1
        process = ServerProcess(self.loop, name, guardian, plan, self, is_first=is_first)
        server = self.servers[name] = PipedServer(
            process,
            pipes,
            self.loop,
            on_moved=self.note_moved,
            on_broken=lambda: self.notify(lambda: self.core.server_closed_input(name)),
        )
        self._writers[name] = server.writer
        guardian.on_restart = lambda: self.notify(self.core.restart_requested)
        self.loop.watch(server.errors, lambda: self._read_errors(server))
        self._balance()

    def _watch_server(self, server: PipedServer) -> None:
        core, feed, said = self.core, server.lines.feed, self.core.server_said
        name, guardian = server.process.name, server.process.guardian

        def read() -> None:
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
                self._close_output(server)
            self.obey()
            if server.process.is_gone:
                self.server_ended(name)

        self.loop.watch(server.output, read)

    def _close_output(self, server: PipedServer) -> None:
        """Handle the end of a server's stdout; its last line may have no end."""
        self.loop.unwatch(server.output)
        server.is_open = False
        name = server.process.name
        if rest := server.lines.close():
            self.core.server_said(name, rest + b"\n")
        if name in self.core.servers:
            self.core.server_closed_output(name)

    def _read_errors(self, server: PipedServer) -> None:
        try:
            data = os.read(server.errors, CHUNK)
        except OSError:
            data = b""
        if data:
            server.errors_end = (server.errors_end + data)[-_ERRORS_END:]
            self.owner.read_errors(server, data)
        else:
            self.loop.unwatch(server.errors)

    def server_started(self, name: str) -> None:
        """Note that a server runs."""
        guardian = self.servers[name].process.guardian
        self.owner.note_started(name, guardian)
        self.notify(lambda: self.core.server_started(name, guardian.server or 0))

    def server_failed(self, name: str, error: LaunchError) -> None:
        """Note that a server could not be started."""
        server = self.servers.get(name)
        if server is not None and server.process.guardian.can_try_again:
            plan = server.process.plan
            self.loop.set_timer(f"start {name}", 0.0, lambda: self._start(name, plan))
            return
        self.owner.note_failed(name, server.process.guardian if server is not None else None)
        self.notify(lambda: self.core.server_failed(name, error))
        self._forget(name, server)

    def server_exited(self, name: str, code: int) -> None:
        """Note the exit code of a server."""
        if name in self.core.servers:
            self.notify(lambda: self.core.server_exited(name, code))

    def server_ended(self, name: str) -> None:
        """Report that a server is gone, once all that it has written was read."""
        server = self.servers.get(name)
        if server is None or not server.process.is_gone:
            return
        if server.is_open and has_input(server.output):
            if self._may_be_read(name):
                return  # it is read next, or when a client has read what it got
        elif server.is_open:
            # It has ended, but another process may hold the pipe.
            self.notify(lambda: self._close_output(server))
        if self.loop.is_watched(server.errors) and has_input(server.errors):
            self.loop.set_timer(f"gone {name}", 0.0, lambda: self.server_ended(name))
            return
        server.process.is_gone = False  # report it only once
        self.owner.note_gone(server)
        unread = server.process.guardian.unread + server.writer.recover()
        lines = [line + b"\n" for line in unread.split(b"\n")[:-1]]
        if name in self.core.servers:
            self.notify(lambda: self.core.server_gone(name, lines, server.errors_end))
        self._forget(name, server)

    def _may_be_read(self, name: str) -> bool:
        """Return whether a client may still read what a server has written."""
        return any(not wire.out.is_closed for wire in self._list_clients(name))

    def _forget(self, name: str, server: PipedServer | None) -> None:
        """Close the pipes of a server, unless another has taken its place."""
        if server is not None and self.servers.get(name) is server:
            del self.servers[name], self._writers[name]
            server.close()
            self._balance()

    # Who may be read from

    def _list_clients(self, server: str) -> list[ClientWire]:
        """Return the clients of a server."""
        known = self.core.servers.get(server)
        names = [one.name for one in known.kind.clients] if known is not None else []
        return [self.clients[name] for name in names if name in self.clients]

    def note_moved(self) -> None:
        """Note that a slow reader has read something."""
        self.core.now = _now()
        self.core.bytes_moved()
        self._balance()
        self.obey()

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
            if not server.is_open:
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
                    _ACTIONS[verb](self, name, what)
        if core.finished and (count := len(core.finished)) in {1, _RECORDED_AT_ONCE}:
            # One is recorded soon; many at once cost a fourth each, and delay few of them.
            self.owner.expect_records(is_urgent=count > 1)
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
            self.owner.tell(
                name, text + "further notifications are dropped until it has read these"
            )

    def _start(self, name: str, plan: Plan) -> None:
        last = self.servers.get(name)
        self._forget(name, last)  # so that the next server needs no more descriptors than this one
        try:
            guardian, pipes = self.owner.begin(plan, is_first=name == "server")
        except OutOfResources as error:
            self.server_failed(name, error)
            return
        self.attach(name, guardian, pipes, plan)

    def _end(self, name: str, reason: str) -> None:
        if server := self.servers.get(name):
            from mcp_launch.system.guardian import END_ORDERS

            self.owner.note_ending(name, reason)
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
        self.clients[client].out.close()
        if server := self.servers.get(name):
            server.close_output()

    def _deafen(self, name: str, _: object) -> None:
        wire = self.clients[name]
        source = wire.source
        self.close_source(wire)
        if 0 <= source <= 2:  # noqa: PLR2004  # a standard descriptor
            replace_with_null(source)
        # Now only what we write shows that the client has hung up; poll always reports that.
        self.loop.watch(wire.out.fd, lambda: self.lose_reader(name), 0)

    def _pause(self, name: str, is_paused: bool) -> None:  # noqa: FBT001  # what a command says
        wire = self.clients.get(name)
        if wire is not None and wire.is_paused != is_paused:
            wire.is_paused = is_paused
            self._is_congested = True

    def _leave(self, name: str, code: int) -> None:
        if wire := self.clients.get(name):
            wire.leave(code)

    def _take_back(self, name: str, line: bytes) -> None:
        if wire := self.clients.get(name):
            wire.take_back(line)

    def leave_servers(self) -> None:
        """Leave without waiting: the guardians finish their work without us."""
        for server in self.servers.values():
            server.process.guardian.leave()


_ACTIONS: dict[str, Callable[[Edge, str, Any], None]] = {
    "inform": Edge._inform,  # noqa: SLF001  # one of its own, like all of these
    "start": Edge._start,  # noqa: SLF001
    "end": Edge._end,  # noqa: SLF001
    "signal": Edge._signal,  # noqa: SLF001
    "close": Edge._close,  # noqa: SLF001
    "cut": Edge._cut,  # noqa: SLF001
    "mute": Edge._mute,  # noqa: SLF001
    "deafen": Edge._deafen,  # noqa: SLF001
    "pause": Edge._pause,  # noqa: SLF001
    "return": Edge._take_back,  # noqa: SLF001
    "leave": Edge._leave,  # noqa: SLF001
    "noise": lambda edge, name, line: edge.owner.take_noise(name, line),
    "tell": lambda edge, name, text: edge.owner.tell(name, text),
    "note": lambda _, kind, text: state.note(text, kind),
    "lease": lambda edge, _, is_urgent: edge.owner.write_lease(is_urgent=is_urgent),
    "keep": lambda edge, _, memory: edge.owner.keep(memory),
    "forget": lambda edge, _, client: edge.owner.forget(client),
    "fail": lambda edge, _, error: edge.owner.fail(error),
}
