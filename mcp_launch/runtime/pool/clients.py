"""The launches that share a server: how they come, what they send and get, how they leave."""

from __future__ import annotations

import os
import time
from errno import EMFILE, ENFILE

from mcp_launch.protocol import json_text
from mcp_launch.runtime.loop import has_input, read
from mcp_launch.runtime.pool.servers import Servers
from mcp_launch.runtime.pool.wires import Client
from mcp_launch.runtime.streams import Writer
from mcp_launch.system import pool_client, sockets
from mcp_launch.system.guardian import END_ORDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.runtime.loop import Loop

# How many bytes may wait for a launch before no more of its requests are passed on.
_BEHIND_LIMIT = 1 << 20

# How long a new connection may take to say who it is.
HELLO_LIMIT = 5.0

# How long to collect changes before the record is written.
_RECORD_DELAY = 0.1

# How long to wait if there is not even a descriptor to turn a launch away with.
_DESCRIPTORS_INTERVAL = 1.0

# The ends of the pipes that a launch sends us: stdin, stdout and stderr of its server.
_PIPES = 3


# The orders of a launch that wants another server: it says the second one to any guardian.
_RESTART, _REPLACE = bytes([pool_client.RESTART_ALL]), bytes([END_ORDERS["replaced"]])


class Clients(Servers):
    """Accepts launches, and serves each as far as it keeps up."""

    _count = 0  # of all that have connected

    def _accept(self) -> None:
        try:
            while True:
                self._take_link(sockets.accept(self._listening))
        except OSError as error:
            if error.errno in {EMFILE, ENFILE}:
                self._turn_away()
            # Else those were all.

    def _turn_away(self) -> None:
        """Close a connection for which no descriptor is left: its launch starts its own server."""
        if self._spare >= 0:
            os.close(self._spare)
        try:
            os.close(sockets.accept(self._listening))
        except OSError:
            # The next turn would find it again, and the next: let others have the processor.
            self._loop.unwatch(self._listening)
            self._loop.set_timer("accept", _DESCRIPTORS_INTERVAL, self._accept_again)
        try:
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._spare = -1

    def _accept_again(self) -> None:
        if not self._is_over:
            self._loop.watch(self._listening, self._accept)

    def _take_link(self, fd: int) -> None:
        self._count += 1
        client = Client(f"session-{self._count}", fd)
        self._clients[client.name] = client
        self._loop.watch(fd, lambda: self._take_hello(client))
        self._loop.set_timer(f"hello {client.name}", HELLO_LIMIT, lambda: self._drop(client))

    def _take_hello(self, client: Client) -> None:
        descriptors: list[int] = []
        try:
            data, descriptors = sockets.receive_descriptors(client.link, _PIPES)
            hello: Any = json_text.parse(data)
            launch = str(hello["launch"])
            descriptors.append(os.dup(client.link))
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            launch = ""  # another user, or nobody, or no descriptor is left
        if not launch or len(descriptors) != _PIPES + 1:
            for fd in descriptors:
                os.close(fd)
            self._drop(client)
            return
        client.launch = launch
        self._loop.cancel_timer(f"hello {client.name}")
        self._loop.cancel_timer(f"drop {client.name}")
        self._connect(client, *descriptors)

    def _connect(self, client: Client, source: int, out: int, errors: int, report: int) -> None:
        client.source = source
        client.out = Writer(
            self._loop,
            out,
            on_full=lambda: None,
            on_empty=lambda: self._finish_writing(client),
            on_broken=lambda: self._lose_reader(client),
            on_moved=lambda: self._note_pace(client),
        )
        client.errors = _make_writer(self._loop, errors, lambda: self._report_pool(client.name))
        self._reports[client.name] = Writer(
            self._loop,
            report,
            on_full=_do_nothing,
            on_empty=lambda: self._finish_writing(client),
            on_broken=_do_nothing,
            on_moved=_do_nothing,
        )
        self._loop.watch(client.link, lambda: self._take_orders(client))
        self._watch(client)
        self._loop.cancel_timer("end")  # a timer makes every turn of the loop slower
        self._notify(lambda: self.pool.join(client.name, client.launch))
        self._report_server(client)
        if self._loop.has_timer(f"restart {client.backend}"):
            self._report(client.name, "restart 0")
        self._report_sessions()

    def _report_sessions(self) -> None:
        for name in self._reports:
            self._report_pool(name)
        self._loop.set_timer("record", _RECORD_DELAY, self._write_record)

    def _report_use(self, name: str) -> None:
        """Report that a server was called: what it lists now is not remembered any more."""
        self._used.add(name)
        self._report_sessions()

    def _report_pool(self, name: str) -> None:
        connection = self.pool.connections.get(name)
        if connection is not None:
            backend = self.pool.backends[connection.backend]
            used = int(not backend.is_unused)
            self._report(name, f"pool {os.getpid()} {len(backend.connections)} {used}")

    def _take_orders(self, client: Client) -> None:
        if not has_input(client.link):
            return  # `_read` was there first
        orders = read(client.link)
        is_used = client.name in self.pool.connections
        if pool_client.RESTART_ALL in orders and is_used:
            self._restart(client)
            orders = orders.replace(_RESTART, b"") or _REPLACE
        if client.is_restarting and orders == _REPLACE:
            pass  # it goes when its server does
        elif is_used:
            self._notify(lambda: self.pool.leave_pool(client.name))
            if orders:
                self._report(client.name, "exited 0")
            self._drop(client)
        elif not orders:
            self._drop(client)

    def _restart(self, client: Client) -> None:
        """Have all launches of a server ask for another one; each finishes its requests first."""
        name = self.pool.connections[client.name].backend
        client.is_restarting = True
        if not self._loop.has_timer(f"restart {name}"):
            self._loop.set_timer(
                f"restart {name}", pool_client.RESTART_LIMIT, lambda: self._replace(name)
            )
            for one in self.pool.backends[name].connections:
                if not self._clients[one].is_restarting:
                    self._report(one, "restart 0")
        self._replace_if_asked()

    def _replace_if_asked(self) -> None:
        """End the servers for which all launches want another one."""
        for name, backend in [*self.pool.backends.items()]:
            clients = [self._clients[one] for one in backend.connections if one in self._clients]
            is_asked = self._loop.has_timer(f"restart {name}")
            if is_asked and all(one.is_restarting for one in clients):
                self._replace(name)

    def _replace(self, name: str) -> None:
        self._loop.cancel_timer(f"restart {name}")
        backend = self.pool.backends.get(name)
        if backend is not None and backend.state != "ending":
            self._notify(backend.end)  # those that come next get another

    def _lose_reader(self, client: Client) -> None:
        if client.name in self.pool.connections:
            self._notify(lambda: self.pool.reader_lost(client.name))

    def _drop(self, client: Client) -> None:
        """Close everything to a launch."""
        if self._clients.pop(client.name, None) is None:
            return
        self._loop.cancel_timer(f"hello {client.name}")
        if report := self._reports.pop(client.name, None):
            report.close()
            client.out.close()
            client.errors.close()
        self._close_source(client)
        self._loop.unwatch(client.link)
        os.close(client.link)
        self._hold_outputs()
        self._replace_if_asked()
        if client.launch:
            self._report_sessions()
        self._end_if_unused()

    def _close_source(self, client: Client) -> None:
        if client.source >= 0:
            self._loop.unwatch(client.source)
            os.close(client.source)
            client.source = -1

    def _has_unread(self, client: Client) -> bool:
        """Return whether a launch has not read all answers and reports yet."""
        return bool(client.out.pending or self._reports[client.name].pending)

    def _drop_if_read(self, client: Client) -> None:
        if not client.out.pending:
            self._drop(client)

    def _finish_writing(self, client: Client) -> None:
        if not client.is_ending:
            self._watch(client)
        elif not self._has_unread(client):
            self._drop(client)

    def _watch(self, client: Client) -> None:
        """Read the requests of a launch, unless it or its server is behind."""
        if client.source < 0:
            return
        connection = self.pool.connections.get(client.name)
        server = self._servers.get(connection.backend) if connection is not None else None
        is_full = server is not None and bool(server.writer.pending)
        if client.is_paused or client.is_ending or is_full or client.is_behind:
            self._loop.unwatch(client.source)
        elif not self._loop.is_watched(client.source):
            self._loop.watch(client.source, lambda: self._read(client))

    def _watch_all(self) -> None:
        for client in self._clients.values():
            self._watch(client)

    def _note_pace(self, client: Client) -> None:
        """Hold the requests of a launch back while too much waits for it."""
        is_behind = len(client.out.pending) > _BEHIND_LIMIT
        if is_behind == client.is_behind:
            return
        client.is_behind = is_behind
        self._watch(client)
        self._hold_outputs()
        self._notify(lambda: self.pool.set_behind(client.name, is_behind=is_behind))

    def _hold_outputs(self) -> None:
        """Read from a server only while one of its launches reads what it gets.

        It keeps the pace of the fastest; for the others, what they have asked for waits.
        """
        for name, server in self._servers.items():
            backend = self.pool.backends.get(name)
            names = backend.connections if backend is not None else ()
            clients = [self._clients[one] for one in names if one in self._clients]
            is_behind = all(one.is_behind for one in clients)
            if clients and is_behind and self._loop.is_watched(server.output):
                self._held.add(name)
                self._loop.unwatch(server.output)
            elif name in self._held and not (clients and is_behind):
                self._held.discard(name)
                self._loop.watch(server.output, lambda name=name: self._read_server(name))  # type: ignore[misc]

    def _read(self, client: Client) -> None:
        data = read(client.source)
        pool = self.pool
        if data and (passed := pool.pass_call(client.name, data)) is not None:
            if passed[0] not in self._used:
                self._report_use(passed[0])
            self._servers[passed[0]].writer.put(passed[1])
            return
        pool.now = time.monotonic()
        if data:
            pool.host_said(client.name, data)
        else:
            self._close_source(client)
            self._take_orders(client)  # they were given before the end
            if client.is_restarting or client.name not in pool.connections:
                return
            pool.host_closed(client.name)
        self._run_commands()
        connection = pool.connections.get(client.name)
        if connection is not None and connection.backend != client.backend:
            self._report_server(client)  # it has said what it is, and got another server
            self._report_sessions()

    def _send_to_client(self, name: str, data: bytes) -> None:
        if client := self._clients.get(name):
            client.out.put(data)
            if client.out.pending:
                self._note_pace(client)

    def _set_paused(self, name: str, *, is_paused: bool) -> None:
        if client := self._clients.get(name):
            client.is_paused = is_paused
            self._watch(client)


def _do_nothing() -> None:
    """Ignore an event."""


def _make_writer(loop: Loop, fd: int, on_full: Callable[[], None] = _do_nothing) -> Writer:
    """Return a writer whose sources need not wait, and do not mind if nobody reads."""
    return Writer(
        loop,
        fd,
        on_full=on_full,
        on_empty=_do_nothing,
        on_broken=_do_nothing,
        on_moved=_do_nothing,
    )
