"""Standby: a launch that has answered its host from memory, and waits, needs little memory itself.

A session starts all its servers, and most of them are never called. The launchers that stand in
for them have read all our modules, and Python never returns that memory. So after a moment
without work the launcher executes `standby_process` in its own place, which executes the launcher
again as soon as anything happens.

The state of a launch without a server follows from its history: the broker does not read or
write anything itself, so the same events lead to the same state. They are few: a handshake and
some lists. What has a server, or had one, is not put on standby.
"""

from __future__ import annotations

import os
import sys

from mcp_launch import state
from mcp_launch.broker.commands import CancelTimer, Note, SendToHost, SetTimer, WriteLease
from mcp_launch.runtime.loop import has_input
from mcp_launch.state.standby import History, write
from mcp_launch.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.runtime.running import Running
    from mcp_launch.runtime.supervisor import Supervisor
    from mcp_launch.system.kernel import HostWatch

# How long nothing must happen before. Hosts ask for lists at once after the handshake, and a
# session that calls its server at once must not pay for this: to come back takes a few times as
# long as a start of Python.
_DELAY = 5.0

# Longer histories are not kept.
_LIMIT = 1 << 18

_TIMER = "standby"

# What was done before, and is not done again. All timers had run out.
_DONE = (SendToHost, Note, SetTimer, CancelTimer, WriteLease)


class Standby:
    """Records the events of a launch until its first server, and puts it on standby."""

    def __init__(self, running: Running, supervisor: Supervisor, hosts: HostWatch) -> None:
        self._running = running
        self._supervisor = supervisor
        self._hosts = hosts
        self._broker = broker = supervisor.broker
        (self._backend,) = broker.backends.values()
        (self._connection,) = broker.connections.values()
        self._events: list[tuple[float, str, bytes]] = []
        self._size = 0
        self._host_said, self._run_timer = broker.host_said, broker.timer
        # The other program reads our environment from /proc.
        if _is_possible_here() and running.table.SEES_ALL and not hosts.needs_polling:
            # Until there is a server; after that a message must not cost anything here.
            broker.host_said = self._note_host  # type: ignore[method-assign]
            broker.timer = self._note_timer  # type: ignore[method-assign]

    def _note_host(self, name: str, data: bytes) -> None:
        self._note("", data)
        self._host_said(name, data)
        self._go_on()

    def _note_timer(self, name: str) -> None:
        self._note(name, b"")
        self._run_timer(name)
        self._go_on()

    def _note(self, timer: str, data: bytes) -> None:
        self._size += len(timer) + len(data)
        self._events.append((self._broker.now, timer, data))

    def _go_on(self) -> None:
        backend = self._backend
        was_used = backend.state != "absent" or backend.starts or backend.wake_error
        if was_used or self._broker.refusals or self._size > _LIMIT:
            self._stop()
        else:
            self._supervisor.loop.set_timer(_TIMER, _DELAY, self._consider)

    def _stop(self) -> None:
        """Never put this launch on standby: its state no longer follows from a short history."""
        self._supervisor.loop.cancel_timer(_TIMER)
        self._events = []
        del self._broker.host_said, self._broker.timer  # now the methods are found again

    def _consider(self) -> None:
        supervisor, connection = self._supervisor, self._connection
        is_idle = not self._backend.queue and not supervisor.loop.has_timers
        is_written = not supervisor.to_host.pending and not supervisor.errors.is_pending
        is_greeted = connection.handshake.is_ready and not connection.lines.is_midway
        is_served = self._broker.phase == "serving" and not connection.reader_is_lost
        if is_idle and is_written and is_greeted and is_served and not has_input(0):
            self._enter()

    def _enter(self) -> None:
        memories = self._connection.memories.values()
        launch, parent = self._running.found.launch.value, self._running.starter.hosts[0]
        history = History(launch, parent, self._events, memories)
        environ = dict(os.environ)
        # Ours was set for the server; the launcher shall find what the host has set.
        given = self._running.table.read_variable(os.getpid(), "MCP_LAUNCH_ID")
        del environ["MCP_LAUNCH_ID"]
        if given is not None:
            environ["MCP_LAUNCH_ID"] = given
        kernel.wake_after(0)
        try:
            _replace_program(write(history), self._hosts.descriptors, environ)
        except OSError as error:
            state.note(f"not on standby: {error.strerror}")
        self._stop()

    def resume(self, history: History) -> None:
        """Repeat the events of a launch that was on standby: its host was answered then."""
        broker = self._broker
        self._connection.memories.update({one.client: one for one in history.memories})
        for when, timer, data in history.events:
            broker.now = when
            if timer:
                broker.timer(timer)
            else:
                broker.host_said(self._connection.name, data)
        broker.out[:] = [one for one in broker.out if not isinstance(one, _DONE)]
        broker.lease_is_due = False
        self._hosts.is_lost = self._hosts.is_lost or history.host_is_lost
        if history.signal:
            os.kill(os.getpid(), history.signal)


def _is_possible_here() -> bool:
    is_known = bool(sys.executable) and len(sys.orig_argv) > 1
    return is_known and hasattr(os, "memfd_create")


def _replace_program(history: int, watched: list[int], environ: dict[str, str]) -> None:
    """Execute `standby_process`; return only if the host has blocked the signals it needs.

    Raises:
        OSError: It cannot be executed.

    """
    try:
        if kernel.block_ending(is_blocked=True):  # until the other program listens
            for fd in watched:
                os.set_inheritable(fd, True)  # noqa: FBT003  # named by the function
            state.note("on standby")
            os.execve(sys.executable, _name_process(history, watched), environ)
    finally:
        kernel.block_ending(is_blocked=False)
        for fd in watched:
            os.set_inheritable(fd, False)  # noqa: FBT003  # named by the function
        os.close(history)


def _name_process(history: int, watched: list[int]) -> list[str]:
    """Return the command line of the process; it ends with ours, for a reader of `ps`."""
    directory = os.path.dirname(kernel.__file__)
    code = f"import sys; sys.path.append({directory!r}); import standby_process"
    descriptors = ",".join(str(fd) for fd in watched)
    ours = [sys.executable, *sys.orig_argv[1:]]
    return [sys.executable, "-I", "-S", "-c", code, str(history), descriptors, *ours]
