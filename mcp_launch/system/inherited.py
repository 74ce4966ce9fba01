"""What a process hands down to those that it starts, besides its environment.

A server that was started in a sandbox must not serve sessions outside of it, nor the other way
round.
"""

from __future__ import annotations

import os

from mcp_launch.system import list_ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable

# Where it is, and what it may do.
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_RIGHTS = ("Umask:", "Groups:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:")


def describe(table: ProcessTable, cwd: str) -> list[str]:
    """Return what our children inherit, to compare it; `cwd` is where they work."""
    return [*_describe_sandbox(), *_find_launch_above(table), *_describe_directory(cwd)]


def _describe_sandbox() -> list[str]:
    facts = [_read_link(f"/proc/self/ns/{kind}") for kind in _NAMESPACES]
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
            return facts + [line for line in file if line.startswith(_RIGHTS)]
    except OSError:
        os.umask(mask := os.umask(0o77))  # there is no other way to read it
        return [*facts, f"{mask:o}", str(sorted(os.getgroups()))]


def _find_launch_above(table: ProcessTable) -> list[str]:
    """Return the guardian that we are below: what we start ends with it."""
    above = list_ancestors(table, os.getpid())
    guardians = [one.identity for one in above if one.name == "mcp-guardian"]
    return [f"{one.pid} {one.start}" for one in guardians[:1]]


def _describe_directory(cwd: str) -> list[str]:
    """Return which directory this is: one that was removed and made again is another."""
    try:
        place = os.stat(cwd or os.curdir)
    except OSError:
        return []
    return [f"{place.st_dev} {place.st_ino}"]


def _read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
