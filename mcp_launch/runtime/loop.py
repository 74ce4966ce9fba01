"""The event loop: waits for descriptors and timers, and calls their handlers.

One loop, no threads. Every message passes through it twice, so it remembers when the first timer
is due, and looks at the others only then.
"""

from __future__ import annotations

import os
import select
import stat
import time

from mcp_launch import state
from mcp_launch.system import guardian as guardians
from mcp_launch.values import FAILURE, RESTART, START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.broker import Broker
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.plan import Plan
    from mcp_launch.runtime.records import Records
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.kernel import HostWatch

_now = time.monotonic

# The size of one read: what a pipe holds by default. A larger buffer would be allocated
# and freed for every short message.
CHUNK = 1 << 16


# The lease is written when nothing has happened for this time, since each write is a new file …
_LEASE_DELAY = 0.25
# … or after this time, if something always happens.
_LEASE_LIMIT = 5.0

# How long to collect records of calls before they are written, and how many at most. Some hosts
# kill their servers as soon as they have the last answer.
_RECORDS_DELAY = 0.05
_RECORDS_LIMIT = 256
# How many calls are recorded at once: for a single call, the code is never in the processor's
# cache, and takes four times as long.
_RECORDED_AT_ONCE = 8

# The longest wait for an event, in seconds: the system takes no timeout of a month.
_LONGEST_WAIT = 86_400.0

_NEVER = float("inf")


class Loop:
    """Calls handlers until `stop`."""

    def __init__(self, *, is_frugal: bool = False, watches_files: bool = True) -> None:
        """Open a poll object; a frugal loop opens no descriptor for it."""
        self._poll, self._second = _open_poll(is_frugal=is_frugal, watches_files=watches_files)
        self._handlers: dict[int, Callable[[], None]] = {}
        self._timers: dict[str, tuple[float, Callable[[], None]]] = {}
        self._first = _NEVER  # no timer is due before
        self._new: set[int] = set()  # descriptors that are watched since the last poll
        self._is_stopped = False

    def watch(self, fd: int, handler: Callable[[], None], events: int = select.POLLIN) -> None:
        """Call the handler when something happens at `fd`."""
        act = self._poll.modify
        if fd not in self._handlers:
            act = self._poll.register
            self._new.add(fd)
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
            except (PermissionError, FileNotFoundError):
                pass  # a file, see above

    def is_watched(self, fd: int) -> bool:
        """Return whether `fd` is watched."""
        return fd in self._handlers

    def watch_hosts(self, hosts: HostWatch, on_lost: Callable[[], None]) -> None:
        """Call `on_lost` once, when one of the host's processes has ended."""

        def lose() -> None:
            self.cancel_timer("hosts")
            for fd in hosts.descriptors:
                self.unwatch(fd)
            on_lost()

        def look() -> None:
            if hosts.look():
                lose()
            else:
                self.set_timer("hosts", hosts.interval, look)

        for fd in hosts.descriptors:
            self.watch(fd, lose)
        if hosts.is_lost:
            lose()
        elif hosts.needs_polling:
            look()

    def set_timer(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Run an action after some seconds; it replaces a timer of the same name."""
        moment = time.monotonic() + seconds
        self._timers[name] = (moment, action)
        self._first = min(self._first, moment)

    def cancel_timer(self, name: str) -> None:
        """Cancel a timer, if it is set."""
        self._timers.pop(name, None)

    def has_timer(self, name: str) -> bool:
        """Return whether a timer is set."""
        return name in self._timers

    def stop(self) -> None:
        """Leave `run`."""
        self._is_stopped = True

    def run(self) -> None:
        """Handle events until `stop`, which may have been called already."""
        handlers, poll, new = self._handlers, self._poll.poll, self._new
        while not self._is_stopped:
            timeout = None
            if self._first is not _NEVER:
                wait = self._first - _now()
                if wait <= 0:
                    self._run_due_timers()
                    if self._is_stopped:
                        break
                    wait = max(0.0, self._first - _now())
                timeout = min(wait, _LONGEST_WAIT) * self._second
            for fd, _ in poll(timeout):
                handler = handlers.get(fd)
                # An earlier handler may have unwatched it, and the number may already belong to
                # another file, with nothing to read.
                if handler is not None and fd not in new:
                    handler()
            new.clear()
        self._is_stopped = False

    def _run_due_timers(self) -> None:
        now = _now()
        for name, (moment, action) in sorted(self._timers.items(), key=lambda one: one[1][0]):
            # An earlier action may have cancelled this timer, or set it again.
            if now >= moment and self._timers.get(name) == (moment, action):
                del self._timers[name]
                action()
        self._first = min((moment for moment, _ in self._timers.values()), default=_NEVER)


def _open_poll(*, is_frugal: bool, watches_files: bool) -> tuple[Any, int]:
    """Return a poll object, and one second in the unit of its timeout.

    epoll costs the same for any number of descriptors; poll checks each of them for every
    message. But epoll rejects regular files, and stdin may be one.
    """
    mode = 0 if is_frugal else os.fstat(0).st_mode
    is_fit = not watches_files or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if hasattr(select, "epoll") and is_fit:
        return select.epoll(), 1
    return select.poll(), 1000


def read(fd: int) -> bytes:
    """Return the available data, or nothing at the end."""
    try:
        return os.read(fd, CHUNK)
    except OSError:
        return b""  # a reset socket or a closed terminal is the end, too


def has_input(fd: int, milliseconds: int = 0) -> bool:
    """Return whether there is data to read, or the end."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(milliseconds))


class StateWrites:
    """Writes the lease and the records of calls soon after a change, for several at once."""

    def __init__(
        self,
        broker: Broker,
        loop: Loop,
        write_lease: Callable[[], None],
        *,
        keeps_arguments: bool = False,
    ) -> None:
        self._broker = broker
        self._loop = loop
        self._write_lease = write_lease
        self._keeps_arguments = keeps_arguments
        self._records: Records | None = None  # imported with the first call
        self._since = 0.0  # when the lease became due

    def expect_lease(self, *, is_urgent: bool) -> None:
        """Write the lease soon; at once if that is urgent."""
        if is_urgent:
            self._write_due_lease()
        elif not self._loop.has_timer("lease"):
            self._since = _now()
            self._loop.set_timer("lease", _LEASE_DELAY, self._consider_lease)

    def _consider_lease(self) -> None:
        rest = min(self._broker.now + _LEASE_DELAY, self._since + _LEASE_LIMIT) - _now()
        if rest > 0:
            self._loop.set_timer("lease", rest, self._consider_lease)
        else:
            self._write_due_lease()

    def _write_due_lease(self) -> None:
        self._loop.cancel_timer("lease")
        self._broker.lease_is_due = False
        self._write_lease()

    def record_calls(self) -> None:
        """Record the calls that have finished, soon."""
        if not self._loop.has_timer("records"):
            self._loop.set_timer("records", _RECORDS_DELAY, self.finish)
        if len(self._broker.finished_calls) >= _RECORDED_AT_ONCE and (
            self._make_records() >= _RECORDS_LIMIT
        ):
            self.finish()

    def _make_records(self) -> int:
        """Make records of the calls that have finished; return how many wait to be written."""
        calls, self._broker.finished_calls = self._broker.finished_calls, []
        if self._records is None:
            try:
                from mcp_launch.runtime.records import Records
            except (ImportError, OSError):
                return 0  # mcp-launch was removed or replaced meanwhile, or too many files are open
            self._records = Records(self._broker, keeps_arguments=self._keeps_arguments)
        return self._records.add(calls)

    def finish(self) -> None:
        """Record all calls so far."""
        if self._broker.finished_calls:
            self._make_records()
        if self._records is not None:
            self._records.write()


class ServerProcess:
    """Follows a server from its start until all its processes are gone."""

    def __init__(  # noqa: PLR0913  # each named at the call
        self,
        loop: Loop,
        name: str,
        guardian: Guardian,
        plan: Plan,
        *,
        on_started: Callable[[], None],
        on_start_failed: Callable[[LaunchError], None],
        on_exited: Callable[[int], None],
        on_gone: Callable[[], None],
    ) -> None:
        self.guardian = guardian
        self.is_gone = False  # the guardian and all processes below it
        self.is_first = True  # the first server of its launch
        self._loop = loop
        self._name = name
        self.plan = plan
        self._is_started = False
        self._has_exited = False
        self._on_started = on_started
        self._on_start_failed = on_start_failed
        self._on_exited = on_exited
        self._on_gone = on_gone
        loop.cancel_timer(f"guardian {name}")
        guardian.expect_end = self._expect_end
        loop.watch(guardian.report, self._read_report)
        loop.set_timer(f"start {name}", guardian.start_limit, self._give_up_start)

    def _read_report(self) -> None:
        before, last = self.guardian.left_behind, self.guardian.server
        is_running = self.guardian.read_report()
        if self.guardian.shared and not self._is_started:  # the pool answers; the server may not
            limit = guardians.START_LIMIT
            self._loop.set_timer(f"start {self._name}", limit, self._give_up_start)
        if count := self.guardian.left_behind - before:
            state.note(f"the server left {count} process{'es' if count > 1 else ''} behind")
        if self.guardian.server is not None and not self._is_started:
            self._is_started = True
            self._loop.cancel_timer(f"start {self._name}")
            text = f"started{'' if self.is_first else ' again'}: {self.plan.program}"
            text += f", pid {self.guardian.server}"
            state.note(text, START if self.is_first else RESTART)
            self._on_started()
        elif self.guardian.server != last:
            state.note(f"shares another server: pid {self.guardian.server}", START)
        self._note_exit()
        if not is_running:
            self._loop.unwatch(self.guardian.report)
            if self._is_started:
                self.guardian.finish()  # at once: if it was killed, we must clean up
            self._lose_guardian()

    def _note_exit(self) -> None:
        code = self.guardian.exit_code
        if code is not None and self._is_started and not self._has_exited:
            self._has_exited = True
            self._on_exited(code)

    def _expect_end(self, seconds: float) -> None:
        # The first deadline counts: a second order gives the guardian no more time, either.
        if not self._loop.has_timer(f"guardian {self._name}"):
            self._loop.set_timer(f"guardian {self._name}", seconds, self._end_by_force)

    def _end_by_force(self) -> None:
        state.note("the guardian does not end the server in time: both are killed", FAILURE)
        self._loop.unwatch(self.guardian.report)
        self.guardian.end_by_force()
        self._lose_guardian()

    def _give_up_start(self) -> None:
        # The exec hangs: the program is on a file system that does not respond.
        self._loop.unwatch(self.guardian.report)
        self.guardian.give_up_start()
        self._lose_guardian()

    def _lose_guardian(self) -> None:
        self._loop.cancel_timer(f"guardian {self._name}")
        self._loop.cancel_timer(f"start {self._name}")
        if not self._is_started:
            from mcp_launch.system import start_failures

            self._on_start_failed(start_failures.explain_failure(self.guardian, self.plan))
            return
        self._note_exit()
        self.is_gone = True
        self._on_gone()
