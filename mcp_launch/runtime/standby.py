"""Standby: a launch that waits, and has no server of its own, needs little memory itself.

A session starts all its servers, and most of them are never called, or rest after some calls. The
launchers that stand in for them have read all our modules, and Python never returns that memory.
So after some time without work the launcher executes `standby_process` in its own place, which
executes the launcher again as soon as anything happens. `broker.snapshot` describes the state in
which it goes on; what cannot be described is not put on standby.

If its server is shared, the descriptors that lead to the pool stay open, and whatever the pool
has for the host wakes the launcher. It does not wake it to tell how many sessions there are, or
for the server's stderr, which waits in its pipe: with many sessions, each would wake all of them.
"""

from __future__ import annotations

import os
import sys
import time

from mcp_launch import state
from mcp_launch.broker import snapshot
from mcp_launch.runtime.loop import has_input
from mcp_launch.runtime.supervisor import SERVER
from mcp_launch.state.standby import Suspended, write
from mcp_launch.system import kernel
from mcp_launch.system.spawn import Pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcp_launch.runtime.lease import LeaseWriter
    from mcp_launch.runtime.running import Running
    from mcp_launch.runtime.streams import PipedServer
    from mcp_launch.runtime.supervisor import Supervisor
    from mcp_launch.system.kernel import HostWatch

# How long nothing must happen before. Hosts ask for lists at once after the handshake, and a
# session that calls its server at once must not pay for this: to come back takes a few times as
# long as a start of Python.
DELAY = 5.0

# How long, if a server was there: it may be needed again soon.
DELAY_AFTER_SERVER = 60.0

# When to look again if it was not possible then.
TRY_AGAIN = 60.0

_TIMER = "standby"


class Standby:
    """Puts a launch without a server of its own on standby."""

    def __init__(
        self, running: Running, supervisor: Supervisor, lease: LeaseWriter, hosts: HostWatch
    ) -> None:
        self._running = running
        self._supervisor = supervisor
        self._lease = lease
        self._hosts = hosts
        self._broker = supervisor.broker
        (self._backend,) = self._broker.backends.values()
        (self._connection,) = self._broker.connections.values()

    def expect(self) -> None:
        """Go on standby after some time, if nothing happens until then."""
        if self._is_possible:
            self._wait(self._delay)

    def leave_to_pool(self) -> None:
        """Go on standby now, if the server is shared and nothing goes on; else look again later."""
        from mcp_launch.system.pool_client import PoolGuardian

        server, guardian = self._supervisor.servers[SERVER], self._running.guardian
        if not isinstance(guardian, PoolGuardian) or server.guardian is not guardian:
            return
        if not guardian.is_quiet or not self._is_possible:
            return
        described = self._describe(may_run=True)
        ends = (guardian.report, server.output, server.stderr.source)
        is_connected = min(ends) >= 0 and not server.writer.is_closed
        is_quiet = is_connected and not server.writer.pending and not any(map(has_input, ends))
        if described is None or not is_quiet:
            kernel.wake_after(TRY_AGAIN)
            return
        guardian.tell_standby(is_on=True)
        self._enter(described, server)
        guardian.tell_standby(is_on=False)  # it was not possible

    @property
    def _is_possible(self) -> bool:
        # The other program reads our environment from /proc.
        is_possible = self._running.table.SEES_ALL and not self._hosts.needs_polling
        return is_possible and _is_possible_here()

    @property
    def _delay(self) -> float:
        return DELAY_AFTER_SERVER if self._backend.has_run else DELAY

    def _wait(self, seconds: float) -> None:
        self._supervisor.loop.set_timer(_TIMER, seconds, self._consider)

    def _consider(self) -> None:
        if self._backend.state != "absent":
            return  # when there is no server again, the lease says so, and we are asked again
        rest = self._broker.now + self._delay - time.monotonic()
        if rest > 0:
            self._wait(rest)
            return
        described = self._describe()
        if described is None:
            self._wait(TRY_AGAIN)
        else:
            self._enter(described)

    def _describe(self, *, may_run: bool = False) -> dict[str, object] | None:
        """Return the state of the broker; None if something goes on, in it or around it."""
        supervisor, connection = self._supervisor, self._connection
        is_idle = not supervisor.loop.has_timers and supervisor.loop.is_watched(0)
        is_written = not supervisor.to_host.pending and not supervisor.errors.is_pending
        is_known = connection.handshake.is_ready and not self._broker.lease_is_due
        if not (is_idle and is_written and is_known) or has_input(0):
            return None
        return snapshot.describe(self._broker, may_run=may_run)

    def _enter(self, described: dict[str, object], server: PipedServer | None = None) -> None:
        launch, parent = self._running.found.launch.value, self._running.starter.hosts[0]
        ended = {
            "left_behind": self._supervisor.left_behind,
            "first_noise": self._supervisor.errors.first_noise,
        }
        shared, ends = None, []
        if server is not None:
            ends = [server.guardian.report, server.writer.fd, server.output, server.stderr.source]
            names = {"server": server.guardian.server, "pool": server.guardian.shared}
            shared = {"descriptors": ends, **names}
        kept = Suspended(launch, parent, described, self._lease.describe(), ended, shared)
        environ = dict(os.environ)
        # Ours was set for the server; the launcher shall find what the host has set.
        given = self._running.table.read_variable(os.getpid(), "MCP_LAUNCH_ID")
        del environ["MCP_LAUNCH_ID"]
        if given is not None:
            environ["MCP_LAUNCH_ID"] = given
        kernel.wake_after(0)
        try:
            _replace_program(write(kept), self._hosts.descriptors, ends, environ)
        except OSError as error:
            state.note(f"not on standby: {error.strerror}")

    def resume(self, kept: Suspended) -> None:
        """Go on with a launch that was on standby.

        Raises:
            LaunchError: The directory in which its server worked is gone.

        """
        snapshot.restore(self._broker, kept.broker, self._running.plan_again)
        self._lease.restore(kept.lease)
        if kept.shared is not None:
            self._rejoin(kept.shared)
        self._supervisor.left_behind = kept.ended["left_behind"]
        self._supervisor.errors.first_noise = kept.ended["first_noise"]
        self._hosts.is_lost = self._hosts.is_lost or kept.host_is_lost
        if kept.signal:
            os.kill(os.getpid(), kept.signal)

    def _rejoin(self, shared: dict[str, Any]) -> None:
        """Go on with a server that was shared all the time."""
        from mcp_launch.system.pool_client import PoolGuardian

        link, to_server, output, errors = shared["descriptors"]
        pool, key, sessions = shared["pool"]
        guardian = PoolGuardian(link, key, self._running.table)
        guardian.server, guardian.shared = shared["server"], (pool, key, sessions)
        guardian.is_used = True  # perhaps, until the pool says more
        pipes = Pipes.keep((to_server, output, errors))
        self._supervisor.attach(SERVER, guardian, pipes, self._backend.served.plan)
        self._supervisor.servers[SERVER].note_running()
        self._lease.note_server(SERVER, guardian)
        guardian.tell_standby(is_on=False)


def _is_possible_here() -> bool:
    is_known = bool(sys.executable) and len(sys.orig_argv) > 1
    return is_known and hasattr(os, "memfd_create")


def _replace_program(kept: int, hosts: list[int], ends: list[int], environ: dict[str, str]) -> None:
    """Execute `standby_process`; return only if the host has blocked the signals it needs.

    Raises:
        OSError: It cannot be executed.

    """
    try:
        if kernel.block_signals(is_blocked=True):  # until the other program listens
            for fd in (*hosts, *ends):
                os.set_inheritable(fd, True)  # noqa: FBT003  # named by the function
            state.note("on standby")
            os.execve(sys.executable, _name_process(kept, hosts, ends), environ)
    finally:
        kernel.block_signals(is_blocked=False)
        for fd in (*hosts, *ends):
            os.set_inheritable(fd, False)  # noqa: FBT003  # named by the function
        os.close(kept)


def _name_process(kept: int, hosts: list[int], ends: list[int]) -> list[str]:
    """Return the command line of the process; it ends with ours, for a reader of `ps`."""
    directory = os.path.dirname(kernel.__file__)
    code = f"import sys; sys.path.append({directory!r}); import standby_process"
    # Of the ends, what the pool reports and what the server says.
    watched = [",".join(map(str, fds)) for fds in (hosts, ends[::2])]
    ours = [sys.executable, *sys.orig_argv[1:]]
    return [sys.executable, "-I", "-S", "-c", code, str(kept), *watched, *ours]
