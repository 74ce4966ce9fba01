"""The guarded wire: every byte passes through us, both ways, and none is lost or changed.

One loop, no threads. Each direction stands alone: a sink that is full stops the reading
of its own source and of nothing else, so a slow reader on either side neither blocks the
other direction nor fills our memory. No limit is set on a line.

We write at once and ask the kernel for room only when there was none: a message costs
one poll, one read and one write, as in the smallest relay there can be.
"""

from __future__ import annotations

import os

from mcp_launch import trace
from mcp_launch.attending import CHUNK, Attendant, explain_early_end, read, wait_for_input
from mcp_launch.errors import LaunchError
from mcp_launch.message import Opening
from mcp_launch.outlet import Outlet, replace_by_nothing
from mcp_launch.signals import SIGTERM
from mcp_launch.stdoutguard import StdoutGuard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.guardian import Guardian
    from mcp_launch.jsontext import Json
    from mcp_launch.spawning import Pipes

# Noise may wait so long on a host that does not read our stderr; then it is dropped:
# nobody shows it, and the messages behind it must not wait for it.
_NOISE_LIMIT = 1 << 18

# How many lines of noise there were, is noted at these counts: a note is a file written.
_NOISE_WORTH_NOTING = {1, 10, 100, 1_000, 10_000, 100_000}

# The end of the server's stderr, kept for the error that says why it died.
_LAST_WORDS = 2048

_read = os.read  # looked up for every message


class Relay(Attendant):
    """Carries bytes between the host's descriptors and the server's pipes."""

    def __init__(  # noqa: PLR0913  # what a wire needs, each named at the call
        self,
        guardian: Guardian,
        hosts: list[int],
        wake: int,
        *,
        pipes: Pipes,
        said: bytes,
        server: str,
        stdout_mode: str,
        learn: Callable[..., None],
    ) -> None:
        super().__init__(guardian, hosts, wake)
        self.server = server
        self.failure: LaunchError | None = None
        self.opening = Opening()
        self._opening: Opening | None = self.opening  # None once it is over
        self._learn = learn
        self._last_words = b""
        self._is_strict = stdout_mode == "strict"
        self._guard = None if stdout_mode == "off" else StdoutGuard(self._divert, self._hear)
        self._judge: Callable[[bytes], bytes] = self._guard.feed if self._guard else self._pass_all
        self._host_is_lost = False
        self._input_is_lost = False
        self._ends_within_a_line = False
        to_server, from_server, errors = pipes.ours
        self._from_server = from_server
        self._errors = errors
        self._to_server = Outlet(
            self, to_server, source=0, resume=self._read_host, on_broken=self._lose_input
        )
        self._to_host = Outlet(
            self, 1, source=from_server, resume=self._read_server, on_broken=self._lose_reader
        )
        self._to_stderr = Outlet(
            self, 2, source=errors, resume=self._read_errors, on_broken=self._lose_errors
        )
        self.watch(0, self._read_host)
        self.watch(from_server, self._read_server)
        self.watch(errors, self._read_errors)
        if said:
            self.opening.hear_host(said)
            self._to_server.put(said)

    @property
    def noise_count(self) -> int:
        """How many lines were no message."""
        return self._guard.noise_count if self._guard else 0

    def carry(self) -> int:
        """Relay until the server has ended and the host has everything; return the exit code.

        Raises:
            ServerFailed: The server ended before it answered.
            LaunchError: It wrote noise, and the profile is strict about it.

        """
        self.attend()
        code = self.guardian.exit_code
        failure = self.failure
        if self._opening is not None and not self.input_ended and not self.signalled:
            failure = failure or explain_early_end(self.server, code or 0, self._last_words)
        if failure is not None:
            if self._ends_within_a_line:
                self._to_host.put(b"\n")  # our answer is a line of its own
            self.opening.leave_to(failure)
            raise failure
        return 128 + self.signalled if code is None else code

    def is_finished(self) -> bool:
        """Tell whether to leave.

        Not while the host has not taken what the server said last: it may be slow, and
        only a signal makes us hurry.
        """
        if not self.is_gone or self.is_late():
            return self.is_late()
        if self._has_more(self._from_server) or self._has_more(self._errors):
            return False
        if self._host_is_lost or not self._to_host.pending:
            self.leave_soon()  # nobody is waiting for what is left, or it is only stderr
        return not self._to_host.pending and not self._to_stderr.pending

    def _has_more(self, fd: int) -> bool:
        return fd in self._handlers and wait_for_input(0, fd)

    def lose_host(self) -> None:
        """Nobody will answer any more, whoever holds our stdin open."""
        self._host_is_lost = True
        self.unwatch(0)
        self.end_input()

    def end_input(self) -> None:
        """Pass the end of input on, after everything that came before it."""
        super().end_input()
        self._to_server.close_when_empty()

    def end_grace(self) -> None:
        """Close the server's stdin even if it never read what is left, and end it."""
        self._to_server.close()
        super().end_grace()

    def _read_host(self) -> None:
        try:
            data = _read(0, CHUNK)
        except OSError:
            data = b""  # a reset socket, a hung-up terminal: the end, all the same
        if not data:
            trace.note("the host has closed our stdin")
            self.unwatch(0)
            self.end_input()
            return
        if self._opening is not None:
            self._opening.hear_host(data)
            self._note_opening()
        self._to_server.put(data)

    def _lose_input(self) -> None:
        # The server has closed its stdin: let the host notice, as it would without us.
        # Not before it has answered: if it is dying, the host is to hear why.
        if self.input_ended:
            return
        if self._opening is not None:
            self.watch(0, self._read_host)
            return
        self.unwatch(0)
        replace_by_nothing(0)
        # Then only our stdout can tell that the host has hung up: it does so unasked.
        self._input_is_lost = True
        self.watch(1, self._lose_reader, 0)

    def _read_server(self) -> None:
        try:
            data = _read(self._from_server, CHUNK)
        except OSError:
            data = b""
        if not data:
            self._end_output()
            return
        if self.input_ended and not self._host_is_lost:
            self.extend_grace()
        passed = self._judge(data)
        if self.failure is None:  # else the host hears from us alone
            self._to_host.put(passed)

    def _end_output(self) -> None:
        self.unwatch(self._from_server)
        if self._guard is not None:
            rest = self._guard.close()
            self._ends_within_a_line = bool(rest) and not rest.endswith(b"\n")
            self._to_host.put(rest)
        if self._opening is None:
            self._to_host.close_when_empty()

    def _lose_reader(self) -> None:
        self._to_host.close()
        self.unwatch(self._from_server)
        os.close(self._from_server)  # the server's next write fails, as it would without us
        if self._input_is_lost:
            self.end_input()

    def _lose_errors(self) -> None:
        self.unwatch(self._errors)
        os.close(self._errors)  # likewise

    def _pass_all(self, data: bytes) -> bytes:
        if self._opening is not None:
            self.opening.is_over = True  # nobody judges what it says, but it has spoken
            self._note_opening()
        return data

    def _read_errors(self) -> None:
        data = read(self._errors)
        if not data:
            self.unwatch(self._errors)
            return
        self._last_words = (self._last_words + data)[-_LAST_WORDS:]
        self._to_stderr.put(data)

    def _hear(self, message: Json) -> None:
        if self.failure is None:
            self.opening.hear_server(message)
            self._note_opening()

    def _note_opening(self) -> None:
        if self._opening is not None and self.opening.is_over:
            self._opening = None
            if self._guard is not None:
                self._guard.stop_hearing()
            self._learn(opened_with=self.opening.era)

    def _divert(self, line: bytes) -> None:
        if len(self._to_stderr.pending) < _NOISE_LIMIT:
            mark = f"[mcp-launch] {self.server} wrote this to stdout, it is no message: "
            told = mark.encode(errors="surrogateescape")
            self._to_stderr.put(told + line.rstrip(b"\r\n") + b"\n")
        if self.noise_count in _NOISE_WORTH_NOTING:
            self._learn(noise=self.noise_count)
        if self._is_strict and self.failure is None:
            text = line.strip()[:200].decode(errors="replace")
            self.failure = LaunchError(
                f"--stdout strict: {self.server} wrote a line to stdout that is no message: {text}",
                fix="have the server log to stderr, or use --stdout auto",
            )
            self.guardian.tell(SIGTERM)
