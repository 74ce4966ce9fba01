"""A launch on the guarded wire without processes: the real broker, the test as host and server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from broker_playbooks import Playbook
from loop_rig import FakeServer, FakeStarter, RecordedLog

from mcp_launch.runtime.supervisor import HOST, SERVER, Supervisor
from mcp_launch.system import kernel
from mcp_launch.system.spawn import Pipes

if TYPE_CHECKING:
    from collections.abc import Callable

    from loop_rig import BoundedLoop, StandardStreams

    from mcp_launch.errors import LaunchError
    from mcp_launch.system.guardian import Guardian

GREETING = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{}}}\n'
WELCOME = b'{"jsonrpc":"2.0","id":0,"result":{"capabilities":{}}}\n'
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


def ask(number: int, size: int = 0, method: str = "tools/list") -> bytes:
    """Return a request, longer by `size` bytes if that matters."""
    params = f',"params":{{"long":"{"x" * size}"}}' if size else ""
    return f'{{"jsonrpc":"2.0","id":{number},"method":"{method}"{params}}}\n'.encode()


def answer(number: int, size: int = 0) -> bytes:
    """Return the answer to a request, longer by `size` bytes if that matters."""
    return f'{{"jsonrpc":"2.0","id":{number},"result":{{"said":"{"x" * size}"}}}}\n'.encode()


class GuardedLaunch:
    """A supervisor, its broker, its host and its servers."""

    def __init__(
        self, loop: BoundedLoop, streams: StandardStreams, log: RecordedLog, **settings: Any
    ) -> None:
        self.loop = loop
        self.streams = streams
        self.log = log
        self.playbook = Playbook(**settings)
        self.broker = self.playbook.broker
        self.starter = FakeStarter()
        self.reported: list[LaunchError] = []
        self.lease_writes = 0
        self.record_writes: list[int] = []  # how many calls each of them was for
        self.noted: list[Guardian] = []
        self.wake, self._signals = os.pipe()
        self.read = b""  # by the host
        self.supervisor = Supervisor(
            self.broker,
            loop,
            wake=self.wake,
            log=log,
            report=self.reported.append,
            write_lease=self._write_lease,
            write_records=self._write_records,
            note_server=lambda _, guardian: self.noted.append(guardian),
            starter=self.starter,
        )
        pipes = Pipes()
        self.first = FakeServer(pipes)
        self.starter.started.append(self.first)
        pipes.close_servers()
        self.supervisor.attach(SERVER, self.first.guardian, pipes, self.playbook.first.plan)

    def _write_lease(self) -> None:
        self.lease_writes += 1

    def _write_records(self) -> None:
        self.record_writes.append(len(self.broker.finished_calls))
        self.broker.finished_calls = []

    @property
    def server(self) -> FakeServer:
        """The last server that was started."""
        return self.starter.started[-1]

    @property
    def backend_state(self) -> str:
        """The broker's state of the server."""
        return self.broker.backends[SERVER].state

    @property
    def output(self) -> int:
        """The supervisor's end of the server's stdout."""
        return self.supervisor.servers[SERVER].output

    def start(self) -> None:
        """Let the server start."""
        self.server.guardian.start()
        self.loop.run_until(lambda: self.backend_state != "starting")

    def shake_hands(self) -> None:
        """Start the server, and complete the handshake."""
        self.start()
        self.tell_server(GREETING)
        self.tell_host(WELCOME)
        self.tell_server(INITIALIZED)

    def tell_server(self, data: bytes) -> None:
        """Send data from the host, and wait until exactly this has reached the server."""
        self.streams.say(data)
        self.expect_at_server(data)

    def tell_host(self, data: bytes) -> None:
        """Send data from the server, and wait until exactly this has reached the host."""
        self.server.say(data)
        self.expect_at_host(data)

    def expect_at_server(self, expected: bytes) -> None:
        """Wait until exactly this has reached the server."""
        self._expect(self.server.read, expected)

    def expect_at_host(self, expected: bytes) -> None:
        """Wait until exactly this has reached the host."""
        self._expect(self.streams.read, expected)

    def wait_for_host(self, part: bytes) -> bytes:
        """Wait until the host has got some text; return all that it has got."""
        self.read = b""

        def has_come() -> bool:
            self.read += self.streams.read()
            return part in self.read

        self.loop.run_until(has_come)
        return self.read

    def _expect(self, read: Callable[[], bytes], expected: bytes) -> None:
        got = b""

        def has_come() -> bool:
            nonlocal got
            got += read()
            return len(got) >= len(expected)

        self.loop.run_until(has_come)
        assert got == expected

    def send_signal(self, number: int) -> None:
        """Have a signal arrive."""
        os.write(self._signals, bytes([number]))

    def let_the_lease_be_due(self) -> None:
        """Have the time pass until the lease is written."""
        self.supervisor.writes.lease_is_due_at = 0.0
        self.send_signal(kernel.SIGALRM)

    def finish(self) -> int:
        """Run to the end; return the exit code."""
        self.loop.run_to_stop()
        return self.supervisor.exit_code

    @property
    def host(self) -> Any:
        """The broker's connection to the host."""
        return self.broker.connections[HOST]
