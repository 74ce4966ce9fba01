"""An installation that a runner begins: what the guardian needs to let it finish.

A host waits for half a minute. A first `npx -y PACKAGE` may take longer, and if it is ended with
the host's patience, the next one begins from the start, and so on for ever. So the guardian lets
the runner finish, and what it asks is here: whether the package is still missing.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# How often to look whether another launch has installed the package, in seconds.
_INTERVAL = 0.1


class Install:
    """A package that a runner has to install before it can start a server."""

    __slots__ = ("_is_missing", "_lock", "package", "runner", "turn")

    def __init__(
        self, package: str, runner: str, is_missing: Callable[[], bool], lock: str = ""
    ) -> None:
        self.package = package
        self.runner = runner  # its name
        self.turn = -1  # the descriptor of our lock, while it is ours
        self._is_missing = is_missing
        # A file by which the installations of this package wait for each other; empty if those of
        # this runner do so by themselves.
        self._lock = lock

    def is_missing(self) -> bool:
        """Return whether it is certain that the package is not installed completely."""
        try:
            return self._is_missing()
        except OSError:
            return False  # a directory that cannot be read: not certain

    def take_turn(self) -> bool:
        """Lock the package for this process; return False if another launch installs it."""
        if not self._lock:
            return True
        import fcntl

        from mcp_launch import state

        try:
            state.make_private(os.path.dirname(self._lock))
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self.turn = os.open(self._lock, flags, 0o600)
            fcntl.flock(self.turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.turn)
            self.turn = -1
            return False
        except OSError:
            pass  # our directory cannot be written: nobody waits
        return True

    def wait_for_turn(self) -> None:
        """Wait until no other launch installs the package, or it is there."""
        import time

        while self.is_missing() and not self.take_turn():
            time.sleep(_INTERVAL)

    def __str__(self) -> str:
        """Return the sentence that says that the runner may finish."""
        return f"{self.runner} is still installing {self.package}, and goes on without the host"

    def note_left(self, lease: str, seconds: float) -> None:
        """Record that the runner may finish without the launcher, within this time."""
        import time

        from mcp_launch import state
        from mcp_launch.protocol import json_text
        from mcp_launch.state import leases

        self.note(lease, f"{self}, for at most {seconds / 60:.0f} minutes")
        record = leases.read(lease)
        if record is None:
            return  # the launcher ended before it wrote one
        now = time.time()
        record.update(state="installing", since=now, until=now + seconds, package=self.package)
        state.write_whole(lease, json_text.encode(record).encode() + b"\n")

    def note_end(self, lease: str, last_words: str) -> None:
        """Record how the installation ended; the last words are the runner's."""
        if not self.is_missing():
            text = f"{self.runner} has installed {self.package}: the next start is ready"
        else:
            text = f"{self.runner} was ended, or gave up, before it had installed {self.package}"
            text += f": {last_words}" if last_words else ""
        self.note(lease, text)

    def note(self, lease: str, text: str) -> None:
        """Add a line to the log that belongs to a lease, if there is one."""
        from mcp_launch.state import launch_log
        from mcp_launch.values import END

        launch_log.append_for(lease, text, END)
