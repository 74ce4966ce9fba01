"""Our stderr: what servers write to theirs, noise, our own words; and how a server's end is told."""

from __future__ import annotations

from mcp_launch import state
from mcp_launch.errors import ServerFailed, printable
from mcp_launch.runtime.lease import tell_exit
from mcp_launch.runtime.writer import Writer
from mcp_launch.values import FAILURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.runtime.loop import Loop
    from mcp_launch.runtime.server_process import ServerProcess
    from mcp_launch.state.launch_log import Log

# How many bytes may wait for a host that does not read our stderr before lines are dropped:
# messages must not wait for it.
_PENDING_LIMIT = 1 << 18

# How many lines of noise the outcome of the launch shows, and how many characters of each.
_FIRST_NOISE = 3
_NOISE_WIDTH = 3000


class Stderr:
    """Writes to our stderr, and keeps in the log what servers write to theirs."""

    def __init__(self, loop: Loop, server: str, log: Log, on_empty: Callable[[], None]) -> None:
        self.first_noise: list[str] = []
        self._server = server
        self._log = log
        self._last: ServerProcess | None = None  # the server that wrote last
        self._on_empty = on_empty  # something was written that had to wait
        self._writer = Writer(loop, 2, on_moved=self._move, on_broken=lambda: None)

    def _move(self) -> None:
        if not self._writer.pending:
            self._on_empty()

    @property
    def is_pending(self) -> bool:
        """Whether something was not written yet."""
        return bool(self._writer.pending)

    def tell(self, text: str) -> None:
        """Print a message of our own, and log it."""
        state.record(text, FAILURE)
        self.print(text)

    def print(self, text: str) -> None:
        """Print a message of our own."""
        self._writer.put(f"[mcp-launch] {printable(text)}\n".encode(errors="backslashreplace"))

    def add(self, process: ServerProcess, data: bytes) -> None:
        """Pass on what a server has written; the log has it even if nobody reads ours."""
        if self._last is not process:
            self._log.finish_line()
            self._last = process
        self._log.add_stderr(data)
        if len(self._writer.pending) < _PENDING_LIMIT:
            self._writer.put(data)

    def add_noise(self, line: bytes) -> None:
        """Report a line of the server's stdout that is not a message."""
        self._log.add_noise(line)
        if len(self._writer.pending) < _PENDING_LIMIT:
            said = line.rstrip(b"\r\n").decode(errors="backslashreplace").expandtabs()
            if len(self.first_noise) < _FIRST_NOISE:
                self.first_noise.append(said[:_NOISE_WIDTH])
            text = f"{self._server} printed a line to stdout that is not a message: {said}"
            self.print(text)


# How many of the last lines of a server's stderr are shown to its host.
_LAST_LINES = 5

# Lines that say nothing about a server's end: npm announces its own updates after an error.
_NOT_THE_CAUSE = "npm notice"


def explain_end(code: int, when: str, stderr_end: bytes) -> str:
    """Describe how a server ended, with the last lines of its stderr."""
    how = tell_exit(code)
    lines = _list_last_lines(stderr_end)
    if not lines:
        return f"{how} {when}"
    return f"{how} {when}; the end of its stderr: {' / '.join(lines)}"


def _list_last_lines(stderr_end: bytes) -> list[str]:
    """Return the last lines, without secrets: the host passes them on to a model."""
    lines = [line.strip() for line in stderr_end.decode(errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(_NOT_THE_CAUSE)][-_LAST_LINES:]
    if not lines:
        return []
    from mcp_launch import masking

    # All at once: a secret's name may be on the line before it.
    return masking.mask_text("\n".join(lines)).split("\n")


def explain_early_end(server: str, code: int, stderr_end: bytes = b"") -> ServerFailed:
    """Return the error for a server that ended before it answered."""
    error = ServerFailed(
        f"{server} {explain_end(code, 'before it answered', stderr_end)}",
        fix=f"see its output and how it was started: mcp-launch logs {server}; "
        "or run its command by itself in its directory",
        exit_code=code,
    )
    error.lines = _list_last_lines(stderr_end)
    return error
