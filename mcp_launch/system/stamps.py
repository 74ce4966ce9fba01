"""Whether a file may hold something else than when it was last read, as far as its stamp shows.

A stamp has the file system's own fineness: nanoseconds that advance with the kernel's tick, or
whole seconds (ext4 with small inodes, HFS+, some NFS), or every other second (FAT). A file that
is written twice between two steps of that clock looks the same both times.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

# How long a stamp must have been there before a read for that read to be the last word on it.
# The kernel's clock for files advances at least every 10 ms, FAT's every two seconds.
_FINE_STEP = 0.05
_COARSE_STEP = 2.1

_SECOND = 1_000_000_000


class Stamp:
    """The stamp of one file, and whether what was read under it is final.

    Measured by our own monotonic clock from when the stamp was first seen, not by comparing the
    stamp with the time of day: a file server's clock is another's, and either may be set back.
    """

    __slots__ = ("_is_final", "_mark", "_since")

    def __init__(self) -> None:
        self._mark: tuple[int, int, int] | None = None
        self._since = 0.0
        self._is_final = False

    def may_have_changed(self, seen: os.stat_result) -> bool:
        """Tell whether the file is to be read now; `seen` is from right before that."""
        mark = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
        if mark == self._mark and self._is_final:
            return False
        now = time.monotonic()
        if mark != self._mark:
            self._mark, self._since = mark, now
        step = _FINE_STEP if seen.st_mtime_ns % _SECOND else _COARSE_STEP
        self._is_final = now - self._since > step
        return True
