"""The log of a launch: its server's stderr and our own trace, both of which hosts hide.

There is one file per launch, readable only by the user, limited in size and age; `mcp-launch
logs` shows them. A launch continues without a log if it cannot be written.

A line is a time, a letter and a text: `i` describes the launch, `e` is the server's stderr,
`n` is noise on its stdout; the others are our own, and `values` has their kinds.
"""

from __future__ import annotations

import os
from time import monotonic as _clock
from time import time as _now

from mcp_launch import state
from mcp_launch.protocol import json_text
from mcp_launch.values import DECISION, END, FAILURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
ENDING = ".log"

# At this size a new file is begun. The previous one is kept, so a log takes twice as much.
LIMIT = 1 << 20
BEFORE = ".1"

# A longer line is split into several.
_LONGEST = 1 << 13

# A write that takes longer ends the log: messages between host and server wait for it.
_TOO_SLOW = 0.25

# How long the log of an ended launch is kept, and how many bytes of such logs in all.
KEPT_FOR = 7 * 86400.0
KEPT_IN_ALL = 64 << 20


class Log:
    """The log of one launch; with an empty path it keeps nothing."""

    __slots__ = ("_facts", "_fd", "_part", "_path", "_size", "_unfinished")

    def __init__(self, path: str, facts: dict[str, object]) -> None:
        self._path = path
        self._facts = facts
        self._part = 0  # the number of the file, so that no two begin alike
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
        """The descriptor of the file; -1 if nothing is kept."""
        return self._fd

    def add_stderr(self, data: bytes) -> None:
        """Add output from the server's stderr."""
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        # Without empty lines: the time before each would take more room than the text.
        lines = [line for line in lines if line.strip()]
        while len(self._unfinished) > _LONGEST:
            lines.append(self._unfinished[:_LONGEST])
            self._unfinished = self._unfinished[_LONGEST:]
        if lines:
            self._write(b"e", lines)

    def add_noise(self, line: bytes) -> None:
        """Add a line from the server's stdout that is not a message."""
        self._write(b"n", [line.rstrip(b"\r\n")[:_LONGEST]])

    def note(self, text: str, kind: str = DECISION, moment: float | None = None) -> None:
        """Add one of our own decisions, or an event."""
        lines = text.encode(errors="backslashreplace").splitlines()
        self._write(kind.encode(), lines, moment)

    def finish_line(self) -> None:
        """Add the server's last output if its line was not ended."""
        if self._unfinished:
            self.add_stderr(b"\n")

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
        # A full or slow disk, or a home that is not writable, must not affect the server.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def open_log(launch: str, facts: dict[str, object]) -> Log:
    """Begin the log of a launch; without an id, return a log that keeps nothing."""
    path = f"{find_directory(os.environ)}/{launch}{ENDING}" if launch else ""
    return Log(path, {"launch": launch, **facts})


def append(path: str, text: str, kind: str = DECISION) -> None:
    """Add one of our own lines to a log of another process, if there is such a log.

    The path is without its ending.
    """
    try:
        fd = os.open(path + ENDING, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # this launch keeps no log
    try:
        line = " ".join(text.splitlines())
        os.write(fd, f"{_now():.3f} {kind} {line}\n".encode(errors="backslashreplace"))
    except OSError:
        pass  # the disk is full
    finally:
        os.close(fd)


def append_for(lease: str, text: str, kind: str = DECISION) -> None:
    """Add one of our own lines to the log of the launch that a lease belongs to."""
    append(_find_log(lease), text, kind)


def append_end(lease: str, text: str) -> None:
    """Log the end of a launch in its place, unless it has logged its end or failure itself."""
    path = _find_log(lease)
    try:
        with open(path + ENDING, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST))
            last = file.read()
            if f" {END} ended: ".encode() in last or f" {FAILURE} the launch".encode() in last:
                return
    except OSError:
        return  # this launch keeps no log
    append(path, f"ended: {text}", END)


def _find_log(lease: str) -> str:
    """Return the path of a launch's log, without its ending: beside the directory of leases."""
    directory, launch = os.path.split(lease)
    return f"{os.path.dirname(directory)}/logs/{launch.removesuffix('.json')}"


def find_directory(environ: Mapping[str, str]) -> str:
    """Return the directory of the logs."""
    return f"{state.find_directory(environ)}/logs"


def prune(directory: str, leases: str) -> list[str]:
    """Remove logs that are too old or too many, oldest first; return their paths.

    The log of a launch that has a lease is kept.
    """
    found = []
    for name in _list_names(directory):
        path = f"{directory}/{name}"
        launch = name.partition(".")[0]
        if ENDING in name and not os.path.exists(f"{leases}/{launch}.json"):
            try:
                status = os.lstat(path)
            except OSError:
                continue  # another launch has just removed it
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
                pass  # another launch has just removed it, or it is not ours
    return removed


def _list_names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []  # it does not exist yet
