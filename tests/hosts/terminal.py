"""A host in a real pseudo-terminal, with a screen that can be read."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios
import threading
import time
from typing import TYPE_CHECKING

import pyte
from hosts.fake_models import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.workspace import Workspace

COLUMNS, LINES = 150, 50

# A screen that has not changed for this long is waiting for its user.
QUIET = 0.5

# Run before the host: makes this the controlling terminal of its session.
_TAKE_IT = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class _Screen(pyte.Screen):
    """A screen that can answer a host's queries."""

    def __init__(self, answer: Callable[[str], None]) -> None:
        super().__init__(COLUMNS, LINES)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)


class Terminal:
    """One terminal with one host in it."""

    def __init__(
        self, workspace: Workspace, name: str, *words: str, cwd: str, env: dict[str, str]
    ) -> None:
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._screen = _Screen(self._write)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = threading.Condition(threading.RLock())
        self._fd = ours
        self.process = workspace.start(
            name,
            *words,
            before=[sys.executable, "-S", "-c", _TAKE_IT],
            cwd=cwd,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        workspace.terminals.append(self)
        self._last = time.monotonic()
        threading.Thread(target=self._read, daemon=True).start()

    def read(self) -> str:
        """Return what is on the screen."""
        with self._changed:
            return "\n".join(line.rstrip() for line in self._screen.display)

    def wait_until(self, is_so: Callable[[str], bool]) -> None:
        """Wait until the screen meets a condition and has stopped changing."""
        deadline = time.monotonic() + LIMIT
        while True:
            with self._changed:
                rest = self._last + QUIET - time.monotonic()
                if rest <= 0 and is_so(self.read()):
                    return
                assert time.monotonic() < deadline, self.read()
                self._changed.wait(rest if rest > 0 else 1.0)

    def wait_for(self, text: str) -> None:
        """Wait until the screen shows a text and has stopped changing."""
        self.wait_until(lambda screen: text in screen)

    def type(self, text: str) -> None:
        """Type a line as a user does."""
        before = self.read().count(text)
        self._write(text)
        # A Return that comes too soon would count as part of a paste.
        self.wait_until(lambda screen: screen.count(text) > before)
        self.press("\r")

    def press(self, key: str) -> None:
        """Press a key."""
        self._write(key)

    def close(self) -> None:
        """Close our end of the terminal."""
        os.close(self._fd)

    def _write(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:
                return  # every process that had the terminal has ended
            with self._changed:
                self._stream.feed(data)
                self._last = time.monotonic()
                self._changed.notify_all()
