"""Let a runner finish an installation that the host no longer waits for.

A guardian that is to end its server asks here first. While the package is missing, the processes
below it are an installation and not yet a server, and may go on: until the package is there, they
exit, or the time is up. Then they are ended as a server is.

Their output has no reader once the launcher is gone. A write to such a pipe fails, and npm and uv
stop at that (measured: npm at its first warning). So the guardian holds the reading ends from the
beginning, and reads them when nobody else does.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system.spawn import Install

# How long an installation may go on without a host. A package with a browser is some hundred
# megabytes; a registry that does not answer is given up by npm after some minutes.
INSTALL_LIMIT = 600.0

# How often to look whether the package is there, in seconds.
_INTERVAL = 1.0

# How much of the runner's last output is kept: its error message, if it fails.
_LAST_WORDS = 500


class InstallWatch:
    """An installation below a guardian, from the start of the runner to its end."""

    __slots__ = ("_ends_at", "_install", "_is_left", "_last_words", "_lease", "look_at", "outputs")

    def __init__(self, install: Install, outputs: tuple[int, ...], lease: str) -> None:
        self.look_at = time.monotonic() + _INTERVAL  # when to look for the package again
        self.outputs = outputs  # the reading ends of the runner's stdout and stderr
        self._install = install
        self._lease = lease
        self._last_words = b""
        self._ends_at = 0.0  # 0.0: nobody has asked for its end
        self._is_left = False

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All descriptors that are held for it."""
        return (*self.outputs, self._install.turn) if self._install.turn >= 0 else self.outputs

    def is_over(self) -> bool:
        """Return whether the package is there, or the time is up; it is looked for at intervals."""
        now = time.monotonic()
        if self._ends_at and now >= self._ends_at:
            return True
        if now < self.look_at:
            return False
        self.look_at = now + _INTERVAL
        return not self._install.is_missing()

    def puts_off_end(self) -> bool:
        """Return whether the server must not be ended now, because it is not there yet."""
        self.look_at = 0.0
        if self.is_over():
            return False
        self._ends_at = self._ends_at or time.monotonic() + INSTALL_LIMIT
        return True

    @property
    def is_overdue(self) -> bool:
        """Whether an end was put off."""
        return bool(self._ends_at)

    def leave(self, poll: select.poll) -> None:
        """Go on without the launcher: read what it no longer reads."""
        self._is_left = True
        for fd in self.outputs:
            poll.register(fd, select.POLLIN)
        try:
            self._install.note_left(self._lease, self._ends_at - time.monotonic())
        except OSError:
            pass  # a full disk does not stop it

    def read(self, fd: int, poll: select.poll) -> None:
        """Read a part of the runner's output."""
        data = os.read(fd, 1 << 16)
        self._last_words = (self._last_words + data)[-_LAST_WORDS:]
        if not data:
            poll.unregister(fd)

    def close(self, poll: select.poll) -> None:
        """Stop reading; note how it ended, if that was without the launcher."""
        for fd in self.descriptors:
            try:
                poll.unregister(fd)
            except KeyError:
                pass  # it is the launcher's, has ended, or is a lock
            os.close(fd)
        if self._is_left:
            self._install.note_end(self._lease, self._last_words.decode(errors="replace").strip())


def begin(install: Install, outputs: tuple[int, ...], lease: str) -> InstallWatch | None:
    """Watch the installation that a runner has just begun; None if it has nothing to install."""
    # Not on the direct wire, where its output is the host's: a host may wait for the end of
    # that, and would wait for the installation.
    if not outputs or not install.is_missing():
        return None
    return InstallWatch(install, outputs, lease)
