"""Small values that every package uses: a value with its origin, and the user's directories."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Literal

    Verdict = Literal["same", "different", "unknown"]


# The kinds of our own lines in a launch's log, as they are written there.
DECISION = "t"
FAILURE = "f"
START = "s"
END = "x"
RESTART = "r"
REST = "z"
REFUSAL = "d"

# What becomes of a call, as it is recorded.
OK = "ok"
TOOL_ERROR = "tool error"
PROTOCOL_ERROR = "protocol error"
REFUSED = "refused"
CANCELLED = "cancelled"
TIMED_OUT = "timed out"
NO_ANSWER_WITHIN = "no answer and no progress within "  # begins the reason of a timeout
DIED = "died"  # its server has, or could not be started

# Programs that are started by hand are started from one of these.
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh"})


class Found:
    """A value, and where it came from."""

    __slots__ = ("origin", "value")

    def __init__(self, value: str, origin: str) -> None:
        self.value = value
        self.origin = origin


class Missing:
    """No value, and every place that was searched for it."""

    __slots__ = ("searched",)

    def __init__(self, searched: list[str]) -> None:
        self.searched = searched


class Variable:
    """One variable that the server should get, and its source."""

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
    """Return what to call a directory that is a home or `/`; "" for any other directory.

    `home` is the user's home, `own` are the homes of the host with this title.
    """
    if not directory or "\0" in directory:
        return ""  # no directory can have such a name
    names = dict.fromkeys(map(os.path.realpath, own), f"{title}'s own home")
    names[os.path.realpath(home)] = "the home directory"
    names["/"] = "the root of the file system"
    return names.get(os.path.realpath(directory), "")


def is_same_directory(one: str, other: str) -> bool:
    """Return whether two paths lead to the same directory, links resolved."""
    try:
        return "" not in {one, other} and os.path.realpath(one) == os.path.realpath(other)
    except ValueError:
        return False  # not a valid path


def find_home_directory(environ: Mapping[str, str]) -> str:
    """Return the user's home: HOME, or the password file if a host has cleared HOME."""
    home = environ.get("HOME")
    if home:
        return home
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"  # a container's uid without a user has no home


def expand_home(path: str, home: str) -> str:
    """Return a path with its leading `~` replaced by the home; `~name` is taken as it is."""
    if path == "~" or path.startswith("~/"):
        return home.rstrip("/") + path[1:] or "/"
    return path


def shorten_home(path: str, home: str) -> str:
    """Return a path as people write it: `~` for the home."""
    if not home:
        return path
    if path == home:
        return "~"
    return f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path


def walk_upward(directory: str) -> Iterator[str]:
    """Return a directory and all those above it, the nearest first."""
    while directory:
        yield directory
        above = os.path.dirname(directory)
        if above == directory:
            return
        directory = above


class ProcessIdentity:
    """One process, distinct from any later process with the same pid."""

    __slots__ = ("pid", "start")

    def __init__(self, pid: int, start: str | None) -> None:
        self.pid = pid
        self.start = start  # None: unknown on this platform


class Process:
    """One row of the process table."""

    __slots__ = ("identity", "name", "parent")

    def __init__(self, identity: ProcessIdentity, parent: int, name: str) -> None:
        self.identity = identity
        self.parent = parent  # its pid; 0 when no parent is visible
        self.name = name  # what the kernel calls it


def compare(recorded: ProcessIdentity, seen: ProcessIdentity) -> Verdict:
    """Return whether two observations are of the same process.

    "unknown" is not "different": callers that destroy something (reclaim a lease,
    end a process) must require "different"; callers that trust something (accept
    a parent as the host) must require "same".
    """
    if recorded.pid != seen.pid:
        return "different"
    if recorded.start is None or seen.start is None:
        return "unknown"
    if recorded.start.partition(":")[0] != seen.start.partition(":")[0]:
        return "unknown"  # two readers write the same moment differently
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
        """Return whether the file must be read now; `seen` is from right before that."""
        mark = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
        if mark == self._mark and self._is_final:
            return False
        now = time.monotonic()
        if mark != self._mark:
            self._mark, self._since = mark, now
        step = _FINE_STEP if seen.st_mtime_ns % _SECOND else _COARSE_STEP
        self._is_final = now - self._since > step
        return True
