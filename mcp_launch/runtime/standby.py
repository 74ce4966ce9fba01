"""Standby: a launch that waits, and has no server, needs little memory itself.

A session starts all its servers, and most of them are never called, or rest after some calls. The
launchers that stand in for them have read all our modules, and Python never returns that memory.
So after some time without work the launcher executes `standby_process` in its own place, which
executes the launcher again as soon as anything happens. `broker.snapshot` describes the state in
which it goes on; what cannot be described is not put on standby.
"""

from __future__ import annotations

import os
import sys
import time

from mcp_launch import state
from mcp_launch.broker import snapshot
from mcp_launch.runtime.loop import has_input
from mcp_launch.state.standby import Suspended, write
from mcp_launch.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.runtime.lease import LeaseWriter
    from mcp_launch.runtime.running import Running
    from mcp_launch.runtime.supervisor import Supervisor
    from mcp_launch.system.kernel import HostWatch

# How long nothing must happen before. Hosts ask for lists at once after the handshake, and a
# session that calls its server at once must not pay for this: to come back takes a few times as
# long as a start of Python.
DELAY = 5.0

# How long, if a server was there: it may be needed again soon.
DELAY_AFTER_SERVER = 60.0

# When to look again if it was not possible then.
_TRY_AGAIN = 60.0

_TIMER = "standby"


class Standby:
    """Puts a launch without a server on standby."""

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
        # The other program reads our environment from /proc.
        is_possible = self._running.table.SEES_ALL and not self._hosts.needs_polling
        if is_possible and _is_possible_here():
            self._wait(self._delay)

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
        supervisor, connection = self._supervisor, self._connection
        is_idle = not supervisor.loop.has_timers and supervisor.loop.is_watched(0)
        is_written = not supervisor.to_host.pending and not supervisor.errors.is_pending
        is_known = connection.handshake.is_ready and not self._broker.lease_is_due
        described = snapshot.describe(self._broker) if is_idle and is_written and is_known else None
        if described is None or has_input(0):
            self._wait(_TRY_AGAIN)
        else:
            self._enter(described)

    def _enter(self, described: dict[str, object]) -> None:
        launch, parent = self._running.found.launch.value, self._running.starter.hosts[0]
        ended = {
            "left_behind": self._supervisor.left_behind,
            "first_noise": self._supervisor.errors.first_noise,
        }
        kept = Suspended(launch, parent, described, self._lease.describe(), ended)
        environ = dict(os.environ)
        # Ours was set for the server; the launcher shall find what the host has set.
        given = self._running.table.read_variable(os.getpid(), "MCP_LAUNCH_ID")
        del environ["MCP_LAUNCH_ID"]
        if given is not None:
            environ["MCP_LAUNCH_ID"] = given
        kernel.wake_after(0)
        try:
            _replace_program(write(kept), self._hosts.descriptors, environ)
        except OSError as error:
            state.note(f"not on standby: {error.strerror}")

    def resume(self, kept: Suspended) -> None:
        """Go on with a launch that was on standby.

        Raises:
            LaunchError: The directory in which its server worked is gone.

        """
        snapshot.restore(self._broker, kept.broker, self._running.plan_again)
        self._lease.restore(kept.lease)
        self._supervisor.left_behind = kept.ended["left_behind"]
        self._supervisor.errors.first_noise = kept.ended["first_noise"]
        self._hosts.is_lost = self._hosts.is_lost or kept.host_is_lost
        if kept.signal:
            os.kill(os.getpid(), kept.signal)


def _is_possible_here() -> bool:
    is_known = bool(sys.executable) and len(sys.orig_argv) > 1
    return is_known and hasattr(os, "memfd_create")


def _replace_program(kept: int, watched: list[int], environ: dict[str, str]) -> None:
    """Execute `standby_process`; return only if the host has blocked the signals it needs.

    Raises:
        OSError: It cannot be executed.

    """
    try:
        if kernel.block_signals(is_blocked=True):  # until the other program listens
            for fd in watched:
                os.set_inheritable(fd, True)  # noqa: FBT003  # named by the function
            state.note("on standby")
            os.execve(sys.executable, _name_process(kept, watched), environ)
    finally:
        kernel.block_signals(is_blocked=False)
        for fd in watched:
            os.set_inheritable(fd, False)  # noqa: FBT003  # named by the function
        os.close(kept)


def _name_process(kept: int, watched: list[int]) -> list[str]:
    """Return the command line of the process; it ends with ours, for a reader of `ps`."""
    directory = os.path.dirname(kernel.__file__)
    code = f"import sys; sys.path.append({directory!r}); import standby_process"
    descriptors = ",".join(str(fd) for fd in watched)
    ours = [sys.executable, *sys.orig_argv[1:]]
    return [sys.executable, "-I", "-S", "-c", code, str(kept), descriptors, *ours]
