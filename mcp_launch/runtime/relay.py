"""The guarded wire: every byte passes through us, in both directions, and none is lost.

One loop, no threads. The directions are independent: a full sink stops only the reading of
its own source, so a slow reader on either side neither blocks the other direction nor
fills our memory. Lines may have any length.

We write at once, and wait for room only if the write did not fit. So a message costs one
poll, one read and one write, the minimum for any relay.
"""

from __future__ import annotations

import os

from mcp_launch import trace
from mcp_launch.broker import Connection
from mcp_launch.errors import LaunchError
from mcp_launch.protocol.server_lines import StdoutGuard
from mcp_launch.runtime.loop import CHUNK, EventLoop, explain_early_end, wait_for_input
from mcp_launch.runtime.streams import Outlet, StderrRelay, replace_by_nothing
from mcp_launch.system.kernel import SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.calls import Calls
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.state.launch_log import Log
    from mcp_launch.state.leases import Lease
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes

# How long to wait for the end of a server that has closed its stdin or stdout.
_DYING = 0.5

_read = os.read  # looked up for every message


class Relay(EventLoop):
    """Carries bytes between the host's descriptors and the server's pipes."""

    def __init__(  # noqa: PLR0913  # what a wire needs, each named at the call
        self,
        guardian: Guardian,
        hosts: list[int],
        wake: int,
        *,
        pipes: Pipes,
        calls: Calls,
        lease: Lease,
        log: Log,
        decide: Callable[[Context], Plan],
        start: Callable[[Plan], tuple[Guardian, Pipes]],
    ) -> None:
        super().__init__(guardian, hosts, wake)
        self.server = calls.profile.server
        self.failure: LaunchError | None = None
        self.host_is_lost = False
        self.reader_is_lost = False
        self.unanswered: set[str] = set()  # methods of requests that a server's end left open
        self._mode = calls.profile.stdout
        self._is_strict = self._mode == "strict"
        self.input_is_lost = False
        self._unsaid = b""  # waits for the end of the server's current line
        self._is_reading = False  # data from the server is being checked, and not passed on yet
        self._owes_newline = False  # the last server's last line had no end
        self._to_host = Outlet(
            self, 1, source=-1, resume=self._read_server, on_broken=self._lose_reader
        )
        self.stderr_relay = StderrRelay(self, self.server, log)
        self.connection = Connection(self, calls, lease, decide, start)
        self.on_sigalrm = self.connection.write_lease
        server_messages = self.connection.server_messages
        self.guard = StdoutGuard(
            self._divert,
            server_messages.note_message,
            server_messages.note_long_message,
            is_off=self._mode == "off",
        )
        self._recognise_call = self.connection.recognise
        self._recognise_answer = server_messages.recognise
        self._connect(pipes)
        self.watch(0, self._read_host)

    def connect(self, guardian: Guardian, pipes: Pipes) -> None:
        """Connect another server in place of the last one, which is gone."""
        self.drop_alarm("input")
        self.drop_alarm("output")
        self._to_server.close()
        self._close_output()
        self._end_unfinished_line()
        self.guard.is_successors = True
        self.attach(guardian)
        self._connect(pipes)

    def _connect(self, pipes: Pipes) -> None:
        to_server, self._from_server, errors = pipes.ours
        self._to_server = Outlet(
            self, to_server, source=0, resume=self._read_host, on_broken=self._lose_input
        )
        self._to_host.serve(self._from_server)
        self.stderr_relay.connect(errors)

    def carry(self) -> int:
        """Relay until the server has ended and the host has everything; return the exit code.

        Raises:
            ServerFailed: The server ended before it answered.
            LaunchError: It wrote noise, and the profile is strict about it.

        """
        self.run()
        code, opening, failure = self.guardian.exit_code, self.connection.opening, self.failure
        # A host that has closed its end may still read the answers.
        is_missed = bool(code and opening.pending) and not self.is_ending
        if not opening.is_over and not self.signalled and (is_missed or not self.input_ended):
            words = self.stderr_relay.stderr_end
            failure = failure or explain_early_end(self.server, code or 0, words)
        if failure is not None:
            self._end_unfinished_line()  # our answer is a line of its own
            self.connection.leave_to(failure)
            raise failure
        return 128 + self.signalled if code is None else code

    def describe_outcome(self) -> dict[str, object]:
        """Return what is known of the launch when it is over; see `state.outcome`."""
        return super().describe_outcome() | {
            "noise": self.guard.noise_count,
            "first_noise": self.stderr_relay.first_noise,
            "unanswered": sorted(self.unanswered),
        }

    @property
    def is_ending(self) -> bool:
        """Whether no server is needed any more."""
        is_lost = self.host_is_lost or self.reader_is_lost
        return bool(is_lost or self.signalled or self.failure or self.is_out_of_time)

    def is_finished(self) -> bool:
        """Return whether to leave the loop.

        We stay while the host has not read the server's last output. The host may be slow,
        and only a signal sets a limit.
        """
        if not self.is_gone or self.is_late():
            return self.is_late()
        left = [fd for fd in (self._from_server, self.stderr_relay.source) if fd in self._handlers]
        if any(wait_for_input(0, fd) for fd in left):
            return False
        if self._to_host.pending and not self.host_is_lost and not self.reader_is_lost:
            return False  # the rest of the server's pipe comes first
        if self._from_server in self._handlers:
            self._end_output()
        if self.connection.replacement.follow_up():
            return False
        if self.host_is_lost or not self._to_host.pending:
            self.leave_soon()  # nobody is waiting for what is left, or it is only stderr
        return not (self._to_host.pending or self.stderr_relay.is_pending)

    def lose_host(self) -> None:
        """Stop reading stdin, even if another process still holds it open."""
        self.host_is_lost = True
        self.unwatch(0)
        self.end_input()

    def end_input(self) -> None:
        """Pass the end of input on, after everything that came before it."""
        super().end_input()
        if self.host_is_lost or not self.connection.replacement.is_away:
            self.end_server()

    def end_server(self) -> None:
        """Let the server see the end of its input."""
        self._to_server.close_when_empty()

    def end_grace(self) -> None:
        """Close the server's stdin even if it never read what is left, and end it."""
        if self.connection.replacement.is_away and not self.host_is_lost and self.has_grace_left():
            self.extend_grace()  # requests still wait for a server
        elif not self.is_gone:
            self.is_out_of_time = True  # before its input closes: no other server is started
            self._to_server.close()
            super().end_grace()

    def deliver(self, data: bytes) -> None:
        """Send bytes to the server."""
        if data:
            self._to_server.put(data)

    def say(self, line: bytes) -> None:
        """Send the host a line of our own, between two lines from the server."""
        self._unsaid += line
        if self._unsaid and not (self._is_reading or self.guard.is_within_a_line):
            self._end_unfinished_line()
            unsaid, self._unsaid = self._unsaid, b""
            self._to_host.put(unsaid)

    def cut_line(self) -> None:
        """End the server's current line here and drop its rest: we answer instead."""
        self._to_host.put(self.guard.cut())

    def _end_unfinished_line(self) -> None:
        if self._owes_newline:
            self._owes_newline = False
            self._to_host.put(b"\n")

    def resume_host(self) -> None:
        """Read from the host again."""
        if not self.input_ended and not self._to_server.pending:
            self.watch(0, self._read_host)

    def recover_unread(self) -> bytes:
        """Return what the last server has left unread."""
        return self._to_server.recover()

    def _read_host(self) -> None:
        try:
            data = _read(0, CHUNK)
        except OSError:
            data = b""  # a reset socket or a closed terminal is the end, too
        if not data:
            self._end_host_input()
        elif recognised := self._recognise_call(data):
            self._to_server.put(recognised)
        else:
            self.connection.take_data(data)

    def _end_host_input(self) -> None:
        trace.note("the host has closed our stdin")
        self.unwatch(0)
        self.connection.take_rest()
        self.end_input()

    def _lose_input(self) -> None:
        # The server has closed its stdin. If it is dying, the next server gets the rest. If
        # not, the host notices as it would without us. A server that has not answered yet
        # is an exception: the host then gets the reason.
        if self.input_ended:
            return
        self.watch(0, self._read_host)
        if not self.connection.opening.is_over:
            return
        self.connection.replacement.lose()
        self.set_alarm("input", _DYING, self._give_up_input)

    def _give_up_input(self) -> None:
        if self.guardian.exit_code is not None or not self._to_server.is_closed:
            return  # it is dead; what it left behind is being ended
        if self.connection.replacement.is_replacing:
            return
        self.unwatch(0)
        replace_by_nothing(0)
        # Now only our stdout can show that the host has closed its end; poll always does.
        self.input_is_lost = True
        self.watch(1, self._lose_reader, 0)

    def _read_server(self) -> None:
        try:
            data = _read(self._from_server, CHUNK)
        except OSError:
            data = b""
        if not data:
            self._end_output()
            return
        if self.input_ended and not self.host_is_lost:
            self.extend_grace()
        self._is_reading = True
        passed = data if self._recognise_answer(data) else self._sort(data)
        self._is_reading = False
        if passed:
            self._to_host.put(passed)
        if self._unsaid:
            self.say(b"")

    def _sort(self, data: bytes) -> bytes:
        """Return the part of the data that the host gets: after a failure, nothing."""
        if not self._is_strict:
            return b"" if self.failure else self.guard.feed(data)
        passed = b""
        for line in data.splitlines(keepends=True):
            # After the first noise, answers are not read, so we answer the requests ourselves.
            passed += b"" if self.failure else self.guard.feed(line)
        return passed

    def _end_output(self) -> None:
        self.unwatch(self._from_server)
        self._is_strict = False  # half a line is not noise: the server ended while writing it
        self._is_reading = True
        rest = self.guard.close()
        self._is_reading = False
        self._is_strict = self._mode == "strict"
        self._to_host.put(rest)
        if self.guard.end_line() or (rest and not rest.endswith(b"\n")):
            self._owes_newline = True
        self.say(b"")
        if self.connection.opening.is_over:
            self.set_alarm("output", _DYING, self._give_up_output)

    def _give_up_output(self) -> None:
        if self.guardian.exit_code is None and not self.connection.replacement.is_away:
            self.reader_is_lost = True  # we close it, so no other server is started
            self._to_host.close_when_empty()

    def _lose_reader(self) -> None:
        self.reader_is_lost = True
        self._to_host.close()
        self._close_output()  # the server's next write fails, as it would without us
        if self.input_is_lost:
            self.end_input()

    def _close_output(self) -> None:
        if self._from_server >= 0:
            self.unwatch(self._from_server)
            os.close(self._from_server)
            self._from_server = -1

    def _divert(self, line: bytes) -> None:
        self.connection.note_news()
        self.stderr_relay.report_noise(line)
        if self._is_strict and self.failure is None:
            text = line.strip()[:200].decode(errors="replace")
            self.failure = LaunchError(
                f"--stdout strict: {self.server} printed a line to stdout that is not a message: "
                f"{text}",
                fix="have the server log to stderr, or use --stdout auto",
            )
            self.guardian.send(SIGTERM)
