"""What a launch leaves for a person to read: its server's stderr, and its own trace.

Hosts hide both. One file a launch, which only the user can read, bounded in size and in
age; `mcp-launch logs` shows them. A launch goes on without it if it must.

A line is a moment, a letter and a text: `i` says whose log it is, `e` is the server's
stderr, `n` what it wrote to stdout by mistake, `t` our own.
"""

from __future__ import annotations

import os
from time import monotonic as _clock
from time import time as _now

from mcp_launch import state
from mcp_launch.protocol import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
ENDING = ".log"

# At this size a file is begun anew; the one before it is kept, so there is twice as much.
LIMIT = 1 << 20
BEFORE = ".1"

# A longer line is cut into several.
_LONGEST = 1 << 13

# A disk that takes longer for a few lines holds up the messages, which wait for it.
_TOO_SLOW = 0.25

# How long the log of a launch that is over is kept, and how much of them all.
KEPT_FOR = 7 * 86400.0
KEPT_IN_ALL = 64 << 20


class Log:
    """The log of one launch; without a path there is none, and nothing is kept."""

    __slots__ = ("_facts", "_fd", "_part", "_path", "_size", "_unfinished")

    def __init__(self, path: str, facts: dict[str, object]) -> None:
        self._path = path
        self._facts = facts
        self._part = 0  # how many files there were: no two begin alike
        self._fd = -1
        self._size = 0
        self._unfinished = b""  # the beginning of the server's next line
        try:
            if path:
                state.make_private(os.path.dirname(path))
                self._begin()
        except OSError:
            self._give_up()

    @property
    def descriptor(self) -> int:
        """What it is written to; -1: nothing is kept."""
        return self._fd

    def hear(self, data: bytes) -> None:
        """Keep what the server said on its stderr."""
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        lines = [line for line in lines if line.strip()]  # a moment before each would be the most
        while len(self._unfinished) > _LONGEST:
            lines.append(self._unfinished[:_LONGEST])
            self._unfinished = self._unfinished[_LONGEST:]
        if lines:
            self._write(b"e", lines)

    def mark(self, line: bytes) -> None:
        """Keep what the server said on its stdout by mistake."""
        self._write(b"n", [line.rstrip(b"\r\n")[:_LONGEST]])

    def note(self, text: str, moment: float | None = None) -> None:
        """Keep a decision of ours."""
        lines = text.encode(errors="backslashreplace").splitlines()
        self._write(b"t", lines, moment)

    def finish_line(self) -> None:
        """Keep what the server said last, though its line has no end."""
        if self._unfinished:
            self.hear(b"\n")

    def _begin(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)
        self._size = 0
        self._part += 1
        head = json_text.encode({"version": VERSION, "part": self._part, **self._facts})
        self._write(b"i", [head.encode()])

    def _write(self, kind: bytes, lines: list[bytes], moment: float | None = None) -> None:
        if self._fd < 0:
            return
        start = b"%.3f %b " % (moment or _now(), kind)
        data = b"".join([start + line + b"\n" for line in lines])
        try:
            begun = _clock()
            if self._size and self._size + len(data) > LIMIT:
                os.close(self._fd)
                os.replace(self._path, self._path + BEFORE)
                self._begin()
            self._size += os.write(self._fd, data)
            if _clock() - begun > _TOO_SLOW:
                self._give_up()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        # A full or slow disk, a home that cannot be written: the server must not suffer.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def open_log(launch: str, facts: dict[str, object]) -> Log:
    """Begin the log of a launch; of none, one that keeps nothing."""
    path = f"{find_directory(os.environ)}/{launch}{ENDING}" if launch else ""
    return Log(path, {"launch": launch, **facts})


def find_directory(environ: Mapping[str, str]) -> str:
    """Return where the logs are."""
    return f"{state.find_directory(environ)}/logs"


def prune(directory: str, leases: str) -> list[str]:
    """Remove what is old, and the oldest of what is too much, but nothing of the living."""
    found = []
    for name in _list_names(directory):
        path = f"{directory}/{name}"
        launch = name.partition(".")[0]
        if ENDING in name and not os.path.exists(f"{leases}/{launch}.json"):
            try:
                status = os.lstat(path)
            except OSError:
                continue  # another launch was faster
            found.append((status.st_mtime, status.st_size, path))
    removed = []
    room = KEPT_IN_ALL
    for changed, size, path in sorted(found, reverse=True):
        room -= size
        if room < 0 or _now() - changed > KEPT_FOR:
            try:
                os.unlink(path)
                removed.append(path)
            except OSError:
                pass  # another launch was faster, or it is none of ours
    return removed


def _list_names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []  # there is none
