"""Small values that every package uses: a value with its origin, and the user's directories."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Literal

    Verdict = Literal["same", "different", "unknown"]


# Whoever starts a program by hand does it from one of these.
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh"})


class Found:
    """A value, and where it came from."""

    __slots__ = ("origin", "value")

    def __init__(self, value: str, origin: str) -> None:
        self.value = value
        self.origin = origin


class Missing:
    """No value, and every place that was looked at for it."""

    __slots__ = ("searched",)

    def __init__(self, searched: list[str]) -> None:
        self.searched = searched


class Variable:
    """One variable that the server is to get, and from where."""

    __slots__ = ("default", "is_required", "sought", "source")

    def __init__(
        self,
        source: str,
        sought: str,
        default: str | None = None,
        is_required: bool = True,  # noqa: FBT001, FBT002  # a record's fields, in order
    ) -> None:
        self.source = source
        self.sought = sought  # its name there, where it has one
        self.default = default
        self.is_required = is_required


def name_home(directory: str, home: str, own: list[str], title: str) -> str:
    """Return which home a directory is, or that it is `/`; nothing for any other.

    `home` is the user's, `own` are those of the host with this title.
    """
    if not directory or "\0" in directory:
        return ""  # no directory can have such a name
    names = dict.fromkeys(map(os.path.realpath, own), f"{title}'s own home")
    names[os.path.realpath(home)] = "the home directory"
    names["/"] = "the root of the file system"
    return names.get(os.path.realpath(directory), "")


def is_same_directory(one: str, other: str) -> bool:
    """Tell whether two names are one directory's, by whatever links they lead there."""
    try:
        return "" not in {one, other} and os.path.realpath(one) == os.path.realpath(other)
    except ValueError:
        return False  # a name that no directory can have


def find_home_directory(environ: Mapping[str, str]) -> str:
    """Return the user's home; a host may clear HOME, the password file remains."""
    home = environ.get("HOME")
    if home:
        return home
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"  # a container's bare uid: it has no home that could be mistaken for a place


def expand_home(path: str, home: str) -> str:
    """Return a path with its leading `~` replaced by the home; `~name` is taken as it is."""
    if path == "~" or path.startswith("~/"):
        return home.rstrip("/") + path[1:] or "/"
    return path


def walk_upward(directory: str) -> Iterator[str]:
    """Return a directory and all those above it, the nearest first."""
    while directory:
        yield directory
        above = os.path.dirname(directory)
        if above == directory:
            return
        directory = above


class ProcessIdentity:
    """One process, told apart from any later process with the same pid."""

    __slots__ = ("pid", "start")

    def __init__(self, pid: int, start: str | None) -> None:
        self.pid = pid
        self.start = start  # None: this platform could not tell us


class Process:
    """One row of the process table."""

    __slots__ = ("identity", "name", "parent")

    def __init__(self, identity: ProcessIdentity, parent: int, name: str) -> None:
        self.identity = identity
        self.parent = parent  # its pid; 0 when there is none to be seen
        self.name = name  # what the kernel calls it


def compare(recorded: ProcessIdentity, seen: ProcessIdentity) -> Verdict:
    """Tell whether two sightings are of one process.

    "unknown" is not "different": callers that destroy something (reclaim a lease,
    end a process) must require "different"; callers that trust something (accept
    a parent as the host) must require "same".
    """
    if recorded.pid != seen.pid:
        return "different"
    if recorded.start is None or seen.start is None:
        return "unknown"
    if recorded.start.partition(":")[0] != seen.start.partition(":")[0]:
        return "unknown"  # two readers, two spellings of the same moment
    return "same" if recorded.start == seen.start else "different"


# How long a stamp must have been there before a read for that read to be the last word on it.
# The kernel's clock for files advances at least every 10 ms, FAT's every two seconds.
_FINE_STEP = 0.05
_COARSE_STEP = 2.1

_SECOND = 1_000_000_000


class Stamp:
    """The stamp of one file, and whether what was read under it is final.

    A stamp has the file system's own fineness: nanoseconds that advance with the kernel's tick,
    or whole seconds (ext4 with small inodes, HFS+, some NFS), or every other second (FAT). A
    file that is written twice between two steps of that clock looks the same both times.

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
