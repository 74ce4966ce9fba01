"""What a launcher does on either wire: wait, notice, and tell the guardian.

It notices a signal (hosts signal their direct child), the death of the host (a pidfd,
or kqueue, so that it is noticed at once, even when somebody else still holds our stdin
open), what the guardian reports, and that it does not do in time what it was told.
"""

from __future__ import annotations

import os
import select
import stat
import time

from mcp_launch import trace
from mcp_launch.errors import ServerFailed
from mcp_launch.system import guardian_process, kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.kernel import HostWatch

# One read: what a pipe holds by default. More would take memory from the system for
# every short message and give it back again.
CHUNK = 1 << 16

# How many of a dead server's last lines its host is shown.
_LAST_LINES = 5

# When to leave after a signal, whatever the guardian still has to do: Claude Code
# kills after 500 ms, and an exit of our own keeps its log clean.
_LEAVE_AFTER = 0.45

# A server that goes on answering after the end of its input, to a host that still reads,
# is not cut off in the middle of it; but not for ever.
_GRACE_LIMIT = 30.0


class EventLoop:
    """Wait for whatever happens next; one method for each thing that can."""

    def __init__(self, guardian: Guardian, hosts: list[int], wake: int) -> None:
        """Take the descriptors that tell of the hosts' ends, and of signals."""
        self.signalled = 0
        self.input_ended = False
        self.is_out_of_time = False  # the server's input ended, and it did not
        self.left_behind = 0  # processes, by all servers that have ended
        self._poll, self._second = _open_poll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._alarms: dict[str, tuple[float, Callable[[], None]]] = {}
        self._grace_limit = 0.0
        self._leave_at: float | None = None
        self.on_sigalrm: Callable[[], object] = list  # does what could wait until SIGALRM
        self._needs_attention = False  # something happened that is more than bytes to carry
        self._hosts = hosts
        self._wake = wake
        self.attach(guardian)
        self.watch(self._wake, self._hear_signal)
        for fd in self._hosts:
            self.watch(fd, self._lose_host)

    def attach(self, guardian: Guardian) -> None:
        """Stay with this guardian's server from now on."""
        self.guardian = guardian
        self.is_gone = False  # the guardian, and with it everything below it
        self.drop_alarm("guardian")  # of the one before
        guardian.expect_end = self._expect_end
        self.watch(guardian.report, self._hear_guardian)

    def watch(self, fd: int, handler: Callable[[], None], events: int = select.POLLIN) -> None:
        """Call the handler when something happens at `fd`."""
        act = self._poll.modify if fd in self._handlers else self._poll.register
        self._handlers[fd] = handler
        try:
            act(fd, events)
        except (PermissionError, FileNotFoundError):
            pass  # a file: it is always ready, and never hangs up

    def unwatch(self, fd: int) -> None:
        """Leave `fd` alone from now on."""
        if self._handlers.pop(fd, None) is not None:
            try:
                self._poll.unregister(fd)
            except FileNotFoundError:
                pass  # a file, see above

    def run(self) -> None:
        """Stay until there is nothing left to do."""
        while not self.is_finished():
            # When all is gone, only what is left in the pipes: look again after each read.
            self._needs_attention = self.is_gone
            self._handle_events(self._timeout())
            self._run_due_alarms()

    def _handle_events(self, timeout: float | None) -> None:
        """Carry bytes until something else happens, or nothing does for so long.

        Every message comes through this loop twice: it asks for the time, and whether all
        is over, only when it was told to.
        """
        handlers = self._handlers
        poll = self._poll.poll
        is_timed = timeout is not None
        while ready := poll(timeout):
            for fd, _ in ready:
                handler = handlers.get(fd)
                if handler is not None:  # a handler before it may have let go of it
                    handler()
            if self._needs_attention or is_timed:
                return

    def is_finished(self) -> bool:
        """Tell whether to leave."""
        return self.is_gone or self.is_late()

    def end_input(self) -> None:
        """Take note that the host has no more to say, and give the server time to finish."""
        if not self.input_ended:
            self.input_ended = True
            self._grace_limit = time.monotonic() + _GRACE_LIMIT
            self.extend_grace()

    def extend_grace(self) -> None:
        """Count the server's time to finish from now: it is still at work, and is heard."""
        limit = self._grace_limit - time.monotonic()
        self.set_alarm("grace", min(guardian_process.INPUT_ENDED_GRACE, limit), self.end_grace)

    def has_grace_left(self) -> bool:
        """Tell whether the server's time to finish can be extended."""
        return time.monotonic() < self._grace_limit

    def end_grace(self) -> None:
        """Have the server ended: its time to finish is over."""
        self.is_out_of_time = True
        trace.note("the server goes on after the end of its input: SIGTERM, then SIGKILL")
        self.guardian.send(guardian_process.INPUT_ENDED)

    def describe_outcome(self) -> dict[str, object]:
        """Return what is known of the launch when it is over; see `state.outcome`."""
        return {"left_behind": self.left_behind, "outlasted_input": self.is_out_of_time}

    def leave_soon(self) -> None:
        """Leave in a moment, whatever is still to do."""
        self._needs_attention = True
        if self._leave_at is None:
            self._leave_at = time.monotonic() + _LEAVE_AFTER

    def set_alarm(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Do something after so long; one alarm of a name, the last that was set."""
        self._needs_attention = True
        self._alarms[name] = (time.monotonic() + seconds, action)

    def drop_alarm(self, name: str) -> None:
        """Let it be."""
        self._alarms.pop(name, None)

    def _timeout(self) -> float | None:
        moments = [moment for moment, _ in self._alarms.values()]
        moments += [self._leave_at] if self._leave_at is not None else []
        if not moments:
            return None
        return max(0.0, (min(moments) - time.monotonic()) * self._second)

    def _run_due_alarms(self) -> None:
        if not self._alarms:
            return
        now = time.monotonic()
        for name, (moment, action) in list(self._alarms.items()):
            if now >= moment:
                self._alarms.pop(name, None)
                action()

    def is_late(self) -> bool:
        """Tell whether a signal leaves us no more time."""
        return self._leave_at is not None and time.monotonic() >= self._leave_at

    def _hear_guardian(self) -> None:
        if not self.guardian.read_report():
            self.unwatch(self.guardian.report)
            self.guardian.finish()  # at once: if it was killed, there is work to do
            self._lose_guardian()

    def _expect_end(self, seconds: float) -> None:
        # The first counts: the guardian gains no time by being told again, either.
        if "guardian" not in self._alarms:
            self.set_alarm("guardian", seconds, self._end_by_force)

    def _end_by_force(self) -> None:
        trace.note("the guardian does not end the server in time: both are killed")
        self.unwatch(self.guardian.report)
        self.guardian.end_by_force()
        self._lose_guardian()

    def _lose_guardian(self) -> None:
        self.left_behind += self.guardian.left_behind
        self.drop_alarm("guardian")
        self.is_gone = True
        self._needs_attention = True

    def _hear_signal(self) -> None:
        for number in os.read(self._wake, 64):
            if number == kernel.SIGALRM:
                self.on_sigalrm()
                continue
            trace.note(f"signal {number}: passed on to the server")
            self.guardian.send(number)
            self.signalled = self.signalled or number
            self.leave_soon()

    def look_at(self, hosts: HostWatch) -> None:
        """Look at the hosts of whose end no descriptor tells, now and again."""
        if hosts.look():
            self._lose_host()
        else:
            self.set_alarm("hosts", hosts.interval, lambda: self.look_at(hosts))

    def _lose_host(self) -> None:
        trace.note("the host has ended")
        self.drop_alarm("hosts")
        for fd in self._hosts:
            self.unwatch(fd)
        self.lose_host()

    def lose_host(self) -> None:
        """Go on without the host, whoever else may hold our stdin open."""
        self.end_input()


def _open_poll() -> tuple[Any, int]:
    """Return what to wait with, and how it counts a second.

    epoll costs the same however many descriptors are watched; poll looks at each of ours
    for every message. But epoll takes no files, and stdin may be one.
    """
    mode = os.fstat(0).st_mode
    if hasattr(select, "epoll") and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return select.epoll(), 1
    return select.poll(), 1000


def read(fd: int) -> bytes:
    """Return what is there to read, nothing at the end."""
    try:
        return os.read(fd, CHUNK)
    except OSError:
        return b""  # a reset socket, a hung-up terminal: the end, all the same


def wait_for_input(milliseconds: int, fd: int = 0) -> bool:
    """Tell whether there is something to read, the end included."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(milliseconds))


def describe_end(code: int, when: str, stderr_end: bytes) -> str:
    """Say how a server ended, and what it said last."""
    how = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"  # noqa: PLR2004
    lines = stderr_end.decode(errors="replace").splitlines()[-_LAST_LINES:]
    if not lines:
        return f"{how} {when}"
    from mcp_launch import masking

    # The host hands it on to a model.
    said = masking.mask_text(" / ".join(line.strip() for line in lines))
    return f"{how} {when}; the end of its stderr: {said}"


def explain_early_end(server: str, code: int, stderr_end: bytes = b"") -> ServerFailed:
    """Say that the server ended before it answered, and what it said last."""
    return ServerFailed(
        f"{server} {describe_end(code, 'before it answered', stderr_end)}",
        fix=f"see its output and how it was started: mcp-launch logs {server}; "
        "or run its command by itself in its directory",
        exit_code=code,
    )
