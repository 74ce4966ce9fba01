"""The records of calls: one line per finished call, in files that every launch appends to.

A file is called a part. Its name is the time it was begun; it is never renamed, only appended
to, and finally removed. Several launches may append to one part, and several parts may be
appended to at the same time.
"""

from __future__ import annotations

import os
from time import gmtime as _utc
from time import monotonic as _clock
from time import time as _now

from mcp_launch import state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ENDING = ".jsonl"

# The name of a part as a regular expression: when it was begun, and a number if there were several
# at that time. A text, because a launch does not need `re`.
NAME = r"\d{8}-\d{6}(-\d{2})?\.jsonl"

# Later than any call, in seconds since 1970: what a damaged part may have is not a time. Exports
# count nanoseconds in 64 bits, which do not go much further.
LATEST = 1e10

# A part is full at this size, or after this time.
PART_LIMIT = 4 << 20
PART_AGE = 86400.0

# How long parts are kept, and how many bytes of them in all.
KEPT_FOR = 14 * 86400.0
KEPT_IN_ALL = 32 << 20

# A write that takes longer keeps messages between host and server waiting …
_TOO_SLOW = 0.25
# … so nothing is recorded for this time after it.
_PAUSE = 60.0


def find_calls(environ: Mapping[str, str]) -> str:
    """Return the directory of the records."""
    return name_directory(state.find_directory(environ))


def name_directory(state_directory: str) -> str:
    """Return the directory of the records below that of our state."""
    return f"{state_directory}/calls"


def list_parts(directory: str) -> list[str]:
    """Return the paths of all parts, oldest first."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    parts = sorted(name.removesuffix(ENDING) for name in names if name.endswith(ENDING))
    return [f"{directory}/{part}{ENDING}" for part in parts]


class CallLog:
    """Appends records; if that fails, they are lost and nothing else is."""

    __slots__ = ("_directory", "_fd", "_is_torn", "_part", "_paused_until")

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = -1  # the part that was last appended to …
        self._part = ""  # … and its path
        self._is_torn = False  # our last line has no end
        self._paused_until = 0.0

    def append(self, lines: bytes) -> bool:
        """Append complete lines in one write; return whether they were written."""
        begun = _clock()
        if begun < self._paused_until:
            return False
        try:
            is_written = self._append(b"\n" + lines if self._is_torn else lines)
        except OSError:
            is_written = False  # a full disk, or no directory: calls go on without records
        if _clock() - begun > _TOO_SLOW or not is_written:
            self._paused_until = _clock() + (_PAUSE if is_written else 1.0)
        return is_written

    def _append(self, lines: bytes) -> bool:
        if self._fd < 0 or not _has_room(self._fd, self._part):
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            self._is_torn = False
            self._fd = self._open()
        written = os.write(self._fd, lines)
        # Others append, too, so what was written cannot be taken back.
        self._is_torn = 0 < written < len(lines)
        return written == len(lines)

    def _open(self) -> int:
        """Open the part that takes the next lines."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        if parts := list_parts(self._directory):
            self._part = parts[-1]
            try:
                fd = os.open(self._part, flags)
                if _has_room(fd, self._part):
                    return fd
                os.close(fd)
            except OSError:
                pass  # it was removed
        state.make_private(self._directory)
        remove_old(self._directory)
        now = _utc(_now())
        name = f"{now[0]:04}{now[1]:02}{now[2]:02}-{now[3]:02}{now[4]:02}{now[5]:02}"
        for count in range(1, 100):
            suffix = f"-{count:02}" if count > 1 else ""
            self._part = f"{self._directory}/{name}{suffix}{ENDING}"
            # Launches that begin one in the same second share it.
            fd = os.open(self._part, flags | os.O_CREAT, 0o600)
            if _has_room(fd, self._part):
                return fd
            os.close(fd)
        raise OSError("every part is full")


def _has_room(fd: int, part: str) -> bool:
    """Return whether a part is ours, and neither full nor old."""
    status = os.fstat(fd)
    if status.st_size >= PART_LIMIT or not state.is_own(status) or not status.st_nlink:
        return False
    return os.path.basename(part) >= _name_day_before()


def _name_day_before() -> str:
    """Return the name of a part that was begun as long ago as a part is used."""
    then = _utc(_now() - PART_AGE)
    return f"{then[0]:04}{then[1]:02}{then[2]:02}-{then[3]:02}{then[4]:02}{then[5]:02}"


def remove_old(directory: str) -> None:
    """Remove the oldest parts, so that there is room for another."""
    room = KEPT_IN_ALL - PART_LIMIT
    for part in reversed(list_parts(directory)):
        try:
            status = os.lstat(part)
        except OSError:
            continue  # another launch has removed it
        room -= status.st_size
        if room < 0 or _now() - status.st_mtime > KEPT_FOR:
            state.remove(part)
