"""Small values that every package uses: a value with its origin, and the user's directories."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Verdict = Literal["same", "different", "unknown"]


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
    if not directory:
        return ""
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
