"""Everything around the event loop, inside the test: standard streams, a guardian, a server.

No process is started. The other ends of all pipes belong to the test, and no wait lasts longer
than `LIMIT`.
"""

from __future__ import annotations

import os
import select
import socket
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable

from mcp_launch.runtime.loop import Loop
from mcp_launch.state.launch_log import Log
from mcp_launch.system.guardian import Guardian, Starter
from mcp_launch.values import DECISION

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.system.spawn import Pipes, ServerPlan

# How long a test waits for something that should happen at once, also on a busy machine.
LIMIT = 20.0

_LIMIT_TIMER = "the limit of the test"


class BoundedLoop(Loop):
    """Runs until a condition holds; fails the test if it does not hold in time."""

    def __init__(self, *, is_frugal: bool = False) -> None:
        super().__init__(is_frugal=is_frugal)
        self.delays: dict[str, float] = {}  # of each timer that was ever set, by its name
        self.was_stopped = False  # by the code under test
        self._condition: Callable[[], bool] = bool

    def stop(self) -> None:
        self.was_stopped = True
        super().stop()

    def watch(self, fd: int, handler: Callable[[], None], events: int = select.POLLIN) -> None:
        super().watch(fd, self._check_after(handler), events)

    def set_timer(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        self.delays[name] = seconds
        super().set_timer(name, seconds, self._check_after(action))

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Handle events until the condition holds."""
        holds = False

        def check() -> bool:
            nonlocal holds
            holds = holds or condition()
            return holds

        self._condition = check
        if not check():
            self._run_with_limit()
        assert check(), "the loop was stopped before"
        self._condition = bool

    def run_to_stop(self) -> None:
        """Handle events until the code under test calls `stop`."""
        if not self.was_stopped:
            self._run_with_limit()

    def _run_with_limit(self) -> None:
        super().set_timer(_LIMIT_TIMER, LIMIT, self._fail)
        self.run()
        self.cancel_timer(_LIMIT_TIMER)

    def run_once(self) -> None:
        """Handle the events that have happened already."""
        super().set_timer("now", 0.0, super().stop)
        self._run_with_limit()

    def fire(self, name: str) -> None:
        """Run the action of a timer now."""
        _, action = self._timers.pop(name)
        action()

    def close(self) -> None:
        """Close the descriptor of the poll object, if it has one."""
        if hasattr(self._poll, "close"):
            self._poll.close()

    def _check_after(self, action: Callable[[], None]) -> Callable[[], None]:
        def act_and_check() -> None:
            action()
            if self._condition():
                super(BoundedLoop, self).stop()

        return act_and_check

    @staticmethod
    def _fail() -> None:
        raise AssertionError("what the test waits for does not happen")


class StandardStreams:
    """Puts pipes in place of descriptors 0, 1 and 2; the test is the host at their other ends."""

    def __init__(self, capture: Any) -> None:
        self._patch = pytest.MonkeyPatch()
        # Between setup and call, pytest would put its own descriptors in place of ours.
        self._patch.setattr(capture, "suspend_global_capture", lambda in_=False: bool(in_))
        self._patch.setattr(capture, "resume_global_capture", lambda: None)
        self._saved = [os.dup(fd) for fd in (0, 1, 2)]
        reading, self.host_output = os.pipe()
        self.place(0, reading)
        self.host_input, writing = os.pipe()
        self.place(1, writing)
        self.host_errors, writing = os.pipe()
        self.place(2, writing)

    def place(self, number: int, fd: int) -> None:
        """Make a standard descriptor a copy of `fd`, and close `fd`."""
        os.dup2(fd, number)
        os.close(fd)

    def say(self, data: bytes) -> None:
        """Write to our stdin, as the host."""
        assert os.write(self.host_output, data) == len(data)

    def end_input(self) -> None:
        """Close the host's end of our stdin."""
        os.close(self.host_output)

    def stop_reading(self) -> None:
        """Close the host's end of our stdout."""
        os.close(self.host_input)

    def read(self) -> bytes:
        """Return what we have written to stdout."""
        return drain(self.host_input)

    def read_errors(self) -> bytes:
        """Return what we have written to stderr."""
        return drain(self.host_errors)

    def restore(self) -> None:
        """Put the test's own descriptors back."""
        for number, fd in enumerate(self._saved):
            self.place(number, fd)
        self._saved.clear()
        self._patch.undo()


class FakeGuardian(Guardian):
    """A guardian whose reports the test writes, and whose instructions it reads."""

    def __init__(self) -> None:
        orders, control = os.pipe()
        report, reports = os.pipe()
        super().__init__(os.getpid(), control, report, FakeProcessTable())
        self._orders, self._reports = orders, reports
        self.was_finished = False
        self.was_killed = False
        self.was_left = False

    def say(self, text: str) -> None:
        """Write lines of the report."""
        os.write(self._reports, text.encode())

    def start(self) -> None:
        """Report that the server runs."""
        self.say("started 4711 4710\n")

    def end(self) -> None:
        """End, with everything below."""
        os.close(self._reports)

    def read_orders(self) -> bytes:
        """Return the instructions since the last call."""
        return drain(self._orders)

    def leave(self) -> None:
        self.was_left = True
        super().leave()

    def end_by_force(self) -> None:
        self.was_killed = True
        self.leave()
        if self.exit_code is None and self.failure is None:
            self.exit_code = 137

    def _wait_for_keeper(self) -> int | None:
        self.was_finished = True
        return 0


class FakeServer:
    """A server without a process: the server's ends of its pipes, and its guardian."""

    def __init__(self, pipes: Pipes) -> None:
        self.guardian = FakeGuardian()
        self.stdin, self.stdout, self.stderr = map(os.dup, pipes.servers)

    def read(self) -> bytes:
        """Return what has arrived at its stdin."""
        return drain(self.stdin)

    def say(self, data: bytes) -> None:
        """Write to its stdout."""
        assert os.write(self.stdout, data) == len(data)

    def complain(self, data: bytes) -> None:
        """Write to its stderr."""
        assert os.write(self.stderr, data) == len(data)

    def exit(self, code: int) -> None:
        """End, together with all its processes."""
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)
        self.guardian.say(f"exited {code}\n")
        self.guardian.end()


class FakeStarter(Starter):
    """Starts fake servers."""

    def __init__(self, hosts: list[int] | None = None, lease: str = "") -> None:
        table = FakeProcessTable()
        super().__init__(table, hosts or [], lease, lambda _table, _directory: None)
        self.started: list[FakeServer] = []
        self.plans: list[ServerPlan] = []

    def begin(self, plan: ServerPlan, pipes: Pipes | None, *, is_first: bool = True) -> Guardian:
        del is_first
        assert pipes is not None
        self.plans.append(plan)
        self.started.append(FakeServer(pipes))
        return self.started[-1].guardian


class RecordedLog(Log):
    """A log that shows what was added to it."""

    def __init__(self) -> None:
        super().__init__("", {})
        self.stderr = b""
        self.noise: list[bytes] = []
        self.notes: list[str] = []
        self.kinds: list[str] = []
        self.lines_finished = 0

    def add_stderr(self, data: bytes) -> None:
        self.stderr += data

    def add_noise(self, line: bytes) -> None:
        self.noise.append(line)

    def note(self, text: str, kind: str = DECISION, moment: float | None = None) -> None:
        assert moment is None or moment > 0
        self.notes.append(text)
        self.kinds.append(kind)

    def finish_line(self) -> None:
        self.lines_finished += 1


def drain(fd: int) -> bytes:
    """Return everything that can be read now."""
    os.set_blocking(fd, False)
    read = b""
    try:
        while data := os.read(fd, 1 << 16):
            read += data
    except OSError:
        pass  # nothing more for now, or a terminal's end
    return read


def is_at_end(fd: int) -> bool:
    """Return whether the other end is closed, and nothing is left to read."""
    os.set_blocking(fd, False)
    try:
        return os.read(fd, 1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True  # a terminal's end


def is_open(fd: int) -> bool:
    """Return whether a descriptor is open."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def list_open() -> set[int]:
    """Return all open descriptors, but not that of the listing itself, which is closed by then."""
    return {fd for fd in map(int, os.listdir("/dev/fd")) if is_open(fd)}


def is_null(fd: int) -> bool:
    """Return whether a descriptor is /dev/null."""
    return os.path.samestat(os.fstat(fd), os.stat(os.devnull))


def open_socket_pair() -> tuple[int, int]:
    """Return the descriptors of two connected sockets."""
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()
