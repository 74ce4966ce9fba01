"""The launcher's event loop on either wire: wait for events, and instruct the guardian.

Events are a signal (hosts signal their direct child), the end of the host, a report from
the guardian, and a guardian that is too slow. A pidfd or kqueue reports the end of the
host at once, even when another process still holds our stdin open.
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

# The size of one read: what a pipe holds by default. A larger buffer would be allocated
# and freed for every short message.
CHUNK = 1 << 16

# How many lines of a dead server's stderr are shown to its host.
_LAST_LINES = 5

# When to exit after a signal, even if the guardian is still busy: Claude Code kills after
# 500 ms, and exiting before that keeps its log clean.
_LEAVE_AFTER = 0.45

# How long a server may keep answering after the end of its input, if the host still reads.
_GRACE_LIMIT = 30.0


class EventLoop:
    """Waits for events, and calls the handler of each."""

    def __init__(self, guardian: Guardian, hosts: list[int], wake: int) -> None:
        """Take the descriptors that report the end of a host, and signals."""
        self.signalled = 0
        self.input_ended = False
        self.is_out_of_time = False  # the server did not end after its input had
        self.left_behind = 0  # processes left behind by all servers so far
        self._poll, self._second = _open_poll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._alarms: dict[str, tuple[float, Callable[[], None]]] = {}
        self._grace_limit = 0.0
        self._leave_at: float | None = None
        self.on_sigalrm: Callable[[], object] = list  # deferred work
        self._needs_attention = False  # an event was more than bytes to relay
        self._hosts = hosts
        self._wake = wake
        self.attach(guardian)
        self.watch(self._wake, self._hear_signal)
        for fd in self._hosts:
            self.watch(fd, self._lose_host)

    def attach(self, guardian: Guardian) -> None:
        """Stay with this guardian's server from now on."""
        self.guardian = guardian
        self.is_gone = False  # the guardian and all processes below it
        self.drop_alarm("guardian")  # the previous guardian's
        guardian.expect_end = self._expect_end
        self.watch(guardian.report, self._hear_guardian)

    def watch(self, fd: int, handler: Callable[[], None], events: int = select.POLLIN) -> None:
        """Call the handler when something happens at `fd`."""
        act = self._poll.modify if fd in self._handlers else self._poll.register
        self._handlers[fd] = handler
        try:
            act(fd, events)
        except (PermissionError, FileNotFoundError):
            pass  # a file: it is always ready, and never closes

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`."""
        if self._handlers.pop(fd, None) is not None:
            try:
                self._poll.unregister(fd)
            except FileNotFoundError:
                pass  # a file, see above

    def run(self) -> None:
        """Handle events until there is nothing left to do."""
        while not self.is_finished():
            # When the guardian is gone, check after each read whether the pipes are empty.
            self._needs_attention = self.is_gone
            self._handle_events(self._timeout())
            self._run_due_alarms()

    def _handle_events(self, timeout: float | None) -> None:
        """Handle events until one needs attention, or until the timeout.

        Every message passes through this loop twice, so it looks at the clock, and checks
        whether to finish, only when an event asks for it.
        """
        handlers = self._handlers
        poll = self._poll.poll
        is_timed = timeout is not None
        while ready := poll(timeout):
            for fd, _ in ready:
                handler = handlers.get(fd)
                if handler is not None:  # an earlier handler may have unwatched it
                    handler()
            if self._needs_attention or is_timed:
                return

    def is_finished(self) -> bool:
        """Return whether to leave the loop."""
        return self.is_gone or self.is_late()

    def end_input(self) -> None:
        """Note the end of the host's input, and give the server time to finish."""
        if not self.input_ended:
            self.input_ended = True
            self._grace_limit = time.monotonic() + _GRACE_LIMIT
            self.extend_grace()

    def extend_grace(self) -> None:
        """Restart the server's time to finish: it is still writing, and the host reads."""
        limit = self._grace_limit - time.monotonic()
        self.set_alarm("grace", min(guardian_process.INPUT_ENDED_GRACE, limit), self.end_grace)

    def has_grace_left(self) -> bool:
        """Return whether the server's time to finish can be extended."""
        return time.monotonic() < self._grace_limit

    def end_grace(self) -> None:
        """End the server: its time to finish is over."""
        self.is_out_of_time = True
        trace.note("the server goes on after the end of its input: SIGTERM, then SIGKILL")
        self.guardian.send(guardian_process.INPUT_ENDED)

    def describe_outcome(self) -> dict[str, object]:
        """Return what is known of the launch when it is over; see `state.outcome`."""
        return {"left_behind": self.left_behind, "outlasted_input": self.is_out_of_time}

    def leave_soon(self) -> None:
        """Leave the loop soon, even if work remains."""
        self._needs_attention = True
        if self._leave_at is None:
            self._leave_at = time.monotonic() + _LEAVE_AFTER

    def set_alarm(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Run an action after some seconds; it replaces an alarm of the same name."""
        self._needs_attention = True
        self._alarms[name] = (time.monotonic() + seconds, action)

    def drop_alarm(self, name: str) -> None:
        """Cancel an alarm, if it is set."""
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
        """Return whether the time to leave has come."""
        return self._leave_at is not None and time.monotonic() >= self._leave_at

    def _hear_guardian(self) -> None:
        if not self.guardian.read_report():
            self.unwatch(self.guardian.report)
            self.guardian.finish()  # at once: if it was killed, we must clean up
            self._lose_guardian()

    def _expect_end(self, seconds: float) -> None:
        # The first deadline counts: a second order gives the guardian no more time, either.
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
        """Poll the hosts whose end no descriptor reports."""
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
        """Go on without the host, even if another process holds our stdin open."""
        self.end_input()


def _open_poll() -> tuple[Any, int]:
    """Return a poll object, and one second in the unit of its timeout.

    epoll costs the same for any number of descriptors; poll checks each of them for every
    message. But epoll rejects regular files, and stdin may be one.
    """
    mode = os.fstat(0).st_mode
    if hasattr(select, "epoll") and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return select.epoll(), 1
    return select.poll(), 1000


def read(fd: int) -> bytes:
    """Return the available data, or nothing at the end."""
    try:
        return os.read(fd, CHUNK)
    except OSError:
        return b""  # a reset socket, a hung-up terminal: the end, all the same


def wait_for_input(milliseconds: int, fd: int = 0) -> bool:
    """Return whether there is data to read, or the end."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(milliseconds))


def describe_end(code: int, when: str, stderr_end: bytes) -> str:
    """Describe how a server ended, with the end of its stderr."""
    how = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"  # noqa: PLR2004
    lines = stderr_end.decode(errors="replace").splitlines()[-_LAST_LINES:]
    if not lines:
        return f"{how} {when}"
    from mcp_launch import masking

    # The host passes this on to a model.
    said = masking.mask_text(" / ".join(line.strip() for line in lines))
    return f"{how} {when}; the end of its stderr: {said}"


def explain_early_end(server: str, code: int, stderr_end: bytes = b"") -> ServerFailed:
    """Return the error for a server that ended before it answered."""
    return ServerFailed(
        f"{server} {describe_end(code, 'before it answered', stderr_end)}",
        fix=f"see its output and how it was started: mcp-launch logs {server}; "
        "or run its command by itself in its directory",
        exit_code=code,
    )
