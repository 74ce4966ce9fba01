"""The servers of a pool: their pipes, their start and their end."""

from __future__ import annotations

import os
import time

from mcp_launch.runtime.loop import CHUNK, has_input, read
from mcp_launch.runtime.pool.wires import Wires
from mcp_launch.runtime.streams import PipedServer, ServerStderr, Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.plan import Plan
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes

# How many bytes of the server's stderr may wait for a launch; more are dropped.
_STDERR_LIMIT = 1 << 18


class Servers(Wires):
    """Reads what servers write, and notices their ends."""

    def _attach(self, name: str, started: Guardian, pipes: Pipes, plan: Plan) -> None:
        to_server, output, errors = pipes.ours
        server = self._servers[name] = PipedServer(
            self._loop,
            name,
            started,
            plan,
            on_started=lambda: self._note_start(name),
            on_start_failed=lambda error: self._fail_to_start(name, error),
            on_exited=lambda code: self._notify(lambda: self.pool.server_exited(name, code)),
            on_gone=lambda: self._report_gone(name),
        )
        server.writer = Writer(
            self._loop,
            to_server,
            on_full=self._watch_all,
            on_empty=self._watch_all,
            on_broken=lambda: self._notify(lambda: self.pool.server_closed_input(name)),
            on_moved=lambda: None,
        )
        server.output = output
        server.stderr = ServerStderr(errors, self._close_stderr)
        self._loop.watch(output, lambda: self._read_server(name))
        self._loop.watch(errors, lambda: self._read_errors(name))

    def _note_start(self, name: str) -> None:
        self._notify(lambda: self.pool.server_started(name))
        for client in self._clients.values():
            connection = self.pool.connections.get(client.name)
            if connection is not None and connection.backend == name:
                self._report_server(client)
        self._write_record()

    def _read_server(self, name: str) -> None:
        server, pool = self._servers[name], self.pool
        try:
            data = os.read(server.output, CHUNK)
        except OSError:
            data = b""
        if data and name in pool.backends and (passed := pool.pass_answer(name, data)) is not None:
            self._send_to_client(*passed)
            return
        pool.now = time.monotonic()
        if name not in pool.backends:
            pass  # nobody waits for it
        elif data:
            pool.server_said(name, data)
        else:
            pool.server_closed_output(name)
        if not data:
            self._loop.unwatch(server.output)
        self._run_commands()
        if server.is_gone:
            self._report_gone(name)

    def _read_errors(self, name: str) -> None:
        server = self._servers[name]
        data = read(server.stderr.source)
        if not data:
            self._loop.unwatch(server.stderr.source)
            return
        for client in self._clients.values():
            connection = self.pool.connections.get(client.name)
            is_used = connection is not None and connection.backend == name
            if is_used and len(client.errors.pending) < _STDERR_LIMIT:
                client.errors.put(data)

    def _close_stderr(self, stderr: ServerStderr) -> None:
        if stderr.source >= 0:
            self._loop.unwatch(stderr.source)
            os.close(stderr.source)
            stderr.source = -1

    def _fail_to_start(self, name: str, error: LaunchError) -> None:
        server = self._servers.get(name)
        step, number = (server.guardian.failure if server else None) or ("guardian", 0)
        for host in self.pool.backends[name].connections:
            self._report(host, f"{step} {number}")
        self._notify(lambda: self.pool.server_start_failed(name, error))
        self._forget_server(name)

    def _report_gone(self, name: str) -> None:
        """Report that a server is gone, once all its output was read."""
        server = self._servers.get(name)
        if server is None or name in self._held:
            return  # it was reported, or will be when its output was read
        for source in (server.output, server.stderr.source):
            if source >= 0 and self._loop.is_watched(source) and has_input(source):
                self._loop.set_timer(f"gone {name}", 0.0, lambda: self._report_gone(name))
                return
        unread = server.writer.recover()
        if name in self.pool.backends:
            self._notify(lambda: self.pool.server_gone(name, unread, b""))
        self._forget_server(name)

    def _forget_server(self, name: str) -> None:
        self._held.discard(name)
        if server := self._servers.pop(name, None):
            server.close_pipes()
        if self._is_over and not self._servers:
            self._loop.stop()
        self._watch_all()
