"""A snapshot of all processes: their tree, which are hosts, which were adopted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts
from mcp_launch.errors import printable
from mcp_launch.machine import units
from mcp_launch.machine.pipe_ends import Endpoints
from mcp_launch.state.leases import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_launch.hosts import HostIdentity
    from mcp_launch.machine.pipe_ends import End
    from mcp_launch.machine.units import Memory
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process, ProcessIdentity

# How old a process must be before we judge it: hosts briefly start a server twice, their forks
# hold their pipes for a moment, and a process orphaned a second ago may be about to exit.
SETTLED = 10.0

# Programs that adopt orphans, and start nothing that talks to them.
_ADOPTERS = {"init", "systemd", "launchd", "tini", "dumb-init", "docker-init", "catatonit"}

# What a lease calls the first server of a launch that has several.
_FIRST = "server"


def is_old_enough(age: float | None) -> bool:
    """Return whether a process is known to be old enough to judge."""
    return age is not None and age >= SETTLED


class LeasedLaunch(NamedTuple):
    """What a lease records of a server that we started."""

    id: str
    server: int  # the server's own process; 0: unknown
    state: str  # of the binding
    evidence: str
    calls: int
    last_call: float | None  # since 1970
    restarts: int
    refusals: int
    noise: int
    place_note: str  # which home it runs in, unless that was asked for
    outer: str  # the launch that its host runs under
    runner: dict[str, Json] | None  # was npx left out, what was started, and why; None: no runner
    server_state: str = "running"  # or "starting", "installing", or one of `leases.ABSENT`
    since: float | None = None  # when that began, since 1970
    saved: int | None = None  # the bytes of memory that the server had when it was last measured
    starts: int | None = None  # how many servers it has started
    wire: str = ""  # "direct": no byte passes through us, so calls are not counted
    installs: str = ""  # the package whose installation goes on without a host
    is_host_directory: bool = False  # it runs in its host's directory
    failure: dict[str, str] | None = None  # problem and fix, if the server could not be started
    backend: str = ""  # "server", "server-2" and so on, if the launch has several

    @property
    def is_further(self) -> bool:
        """Whether this is a second or later server of its launch."""
        return self.backend not in {"", _FIRST}


class RecentCalls(NamedTuple):
    """What the records say of a server's calls at the moment."""

    in_minute: int = 0  # how many came in the last minute
    failed_in_hour: int = 0  # how many of those that came in the last hour have failed

    # Those that were refused are in neither.


class KnownPool(NamedTuple):
    """A process that keeps a server which several launches use."""

    key: str  # of its record
    pid: int  # 0: it is gone
    sessions: int  # how many use it
    processes: tuple[int, ...] = ()  # its whole tree, with its servers
    branches: Mapping[int, tuple[int, ...]] = MappingProxyType({})  # of it, by its servers' pids


@dataclass(frozen=True)
class Server:
    """One server, with all its descendants."""

    name: str
    pid: int  # its own process; the launcher's if there is none at the moment
    roots: tuple[ProcessIdentity, ...]  # the top processes of its tree
    processes: tuple[int, ...]  # its whole tree; with a pool's, if this is where they are counted
    command: tuple[str, ...]  # secrets masked
    project: str
    age: float | None
    stdin: End
    stdout: End
    session: str = ""
    thread: str = ""
    launcher: int = 0  # our process between host and server; 0: none
    launch: LeasedLaunch | None = None  # None: we did not start it
    pool: KnownPool | None = None  # who keeps it, if it is shared
    is_unrecorded: bool = False  # it is a launcher without a lease in our state directory
    earlier: str = ""  # the session it was last bound to, if its host has another now
    why_ownerless: str = ""  # the proof; empty: none
    recent: RecentCalls | None = None  # None: they are not recorded, or nobody has looked

    def __str__(self) -> str:
        """Return its name in messages."""
        return f"{printable(self.name)} (process {self.pid})"

    @property
    def contact(self) -> int:
        """The pid of the process that its host talks to."""
        return self.launcher or self.pid

    @property
    def is_absent(self) -> bool:
        """Whether its launch has no server, and no call needs one: it was not started, or rests."""
        return self.launch is not None and self.launch.server_state in ABSENT

    @property
    def shared_as(self) -> tuple[str, int] | None:
        """Which server of a pool it is; None: no pool keeps it, or it does not run yet.

        A pool has several servers if its sessions' hosts speak different versions.
        """
        is_there = self.pool is not None and self.pid != self.launcher
        return (self.pool.key, self.pid) if self.pool and is_there else None

    @property
    def saved(self) -> int:
        """The memory that it would take if it ran, in bytes; 0: it runs, or this is unknown."""
        return (self.launch.saved or 0) if self.launch and self.is_absent else 0

    @cached_property
    def shares(self) -> dict[int, Memory]:
        """The memory of each process of its tree."""
        return {pid: units.measure(pid) for pid in self.processes}

    @property
    def memory(self) -> Memory:
        """The memory of its whole tree."""
        return units.add_up(self.shares.values())


class Population:
    """The processes as they were when the snapshot was taken."""

    def __init__(self, table: ProcessTable) -> None:
        self.table = table
        seen = ((pid, table.look(pid)) for pid in table.list_pids())
        self.processes: dict[int, Process] = {pid: one for pid, one in seen if one is not None}
        self.children: dict[int, list[int]] = {}
        for pid, process in self.processes.items():
            self.children.setdefault(process.parent, []).append(pid)
        known = ((pid, hosts.recognise(table, one)) for pid, one in self.processes.items())
        self.hosts: dict[int, HostIdentity] = {pid: host for pid, host in known if host is not None}
        self._endpoints = Endpoints(self.hosts)
        # Not counted among the descendants of another process. A pool may be below the launcher
        # that has started it, although it is not that launch's own.
        self.spared: set[int] = set()

    def look_at_ends(self, pid: int) -> tuple[End, End]:
        """Return the other ends of stdin and stdout; only hosts are searched as holders."""
        return self._endpoints.look(pid, 0), self._endpoints.look(pid, 1)

    def list_tree(self, roots: Iterable[ProcessIdentity]) -> tuple[int, ...]:
        """Return the pids of these processes and all their descendants, without spared ones."""
        tree = list(dict.fromkeys(root.pid for root in roots))
        known = self.spared.union(tree)
        for pid in tree:  # the list grows while it is walked
            fresh = [child for child in self.children.get(pid, []) if child not in known]
            known.update(fresh)
            tree += fresh
        return tuple(tree)

    def has_host_above(self, pid: int) -> bool:
        """Return whether a host is above a process; adoptive parents do not count."""
        return bool(self.find_host_above(pid))

    def find_host_above(self, pid: int) -> int:
        """Return the pid of the nearest host above a process; 0: there is none."""
        while pid in self.processes and not self.is_adopted(pid):
            pid = self.processes[pid].parent
            if pid in self.hosts:
                return pid
        return 0

    def is_adopted(self, pid: int) -> bool:
        """Return whether it is proven that a process was not started by its parent.

        Any program may be a container's first process, adopt others, and have children of its
        own. Its own are in its session or lead one; a process in any other session was adopted.
        """
        parent = self.processes.get(self.processes[pid].parent)
        if parent is None or parent.identity.pid in self.hosts:
            return False
        if parent.name in _ADOPTERS:
            return True
        first = parent.identity.pid
        return first == 1 and _read_session(pid) not in {0, pid, _read_session(first)}


def _read_session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (OSError, AttributeError):
        return 0  # gone, or a system without sessions
