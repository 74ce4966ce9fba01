"""One look at all processes: who is below whom, which are hosts, who was left by its parent."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts
from mcp_launch.errors import printable
from mcp_launch.machine import units
from mcp_launch.machine.open_channels import Channels
from mcp_launch.machine.pipe_ends import Endpoints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.hosts.host import HostIdentity
    from mcp_launch.machine.pipe_ends import End
    from mcp_launch.machine.units import Memory
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process, ProcessIdentity

# How old a process must be to be judged by what it does: hosts start a server twice for a moment,
# what they fork holds their pipes for another, and who was orphaned a second ago is ending.
SETTLED = 10.0

# Programs that adopt what others leave, and start nothing that talks to them.
_ADOPTERS = {"init", "systemd", "launchd", "tini", "dumb-init", "docker-init", "catatonit"}


def is_old_enough(age: float | None) -> bool:
    """Tell whether a process is known to be old enough to be judged by what it does."""
    return age is not None and age >= SETTLED


class LeasedLaunch(NamedTuple):
    """What a lease tells of a server that we started."""

    id: str
    server: int  # the server's own process; 0: it is not told
    state: str  # of the binding
    evidence: str
    calls: int
    last_call: float | None  # since 1970
    restarts: int
    refusals: int
    noise: int
    place_note: str  # which home it runs in, if nobody asked for that
    outer: str  # the launch around its host


@dataclass(frozen=True)
class Server:
    """One server, with everything below it."""

    name: str
    pid: int  # its own process; the launcher's, while there is none
    roots: tuple[ProcessIdentity, ...]  # what its tree hangs from
    processes: tuple[int, ...]  # all of its tree
    command: tuple[str, ...]  # without secrets
    project: str
    age: float | None
    stdin: End
    stdout: End
    session: str = ""
    thread: str = ""
    launcher: int = 0  # our process between host and server; 0: there is none
    launch: LeasedLaunch | None = None  # None: somebody else started it
    state: str = ""  # where the launcher of one without a lease keeps its files; empty: it has none
    earlier: str = ""  # the session it was last bound to, if its host has another now
    why_ownerless: str = ""  # the proof; empty: there is none
    doubt: str = ""  # what a server that seems to be left lacks for the proof

    def __str__(self) -> str:
        """Return what it is called in a message."""
        return f"{printable(self.name)} (process {self.pid})"

    @property
    def contact(self) -> int:
        """The process that its host talks to."""
        return self.launcher or self.pid

    @cached_property
    def shares(self) -> dict[int, Memory]:
        """What each process of its tree holds."""
        return {pid: units.measure(pid) for pid in self.processes}

    @property
    def memory(self) -> Memory:
        """What its whole tree holds."""
        return units.add_up(self.shares.values())


class Population:
    """The processes as they were when it was made."""

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

    @cached_property
    def channels(self) -> Channels:
        """What tells who else can reach a process."""
        return Channels()

    def look_at_ends(self, pid: int) -> tuple[End, End]:
        """Return the other ends of stdin and stdout; only hosts are looked at as holders."""
        return self._endpoints.look(pid, 0), self._endpoints.look(pid, 1)

    def list_tree(self, roots: Iterable[ProcessIdentity]) -> tuple[int, ...]:
        """Return these processes and all below them."""
        tree = list(dict.fromkeys(root.pid for root in roots))
        known = set(tree)
        for pid in tree:  # the list grows while it is walked
            fresh = [child for child in self.children.get(pid, []) if child not in known]
            known.update(fresh)
            tree += fresh
        return tuple(tree)

    def has_host_above(self, pid: int) -> bool:
        """Tell whether a process hangs from a host, as far as it hangs from anybody."""
        while pid in self.processes and not self.is_adopted(pid):
            pid = self.processes[pid].parent
            if pid in self.hosts:
                return True
        return False

    def is_adopted(self, pid: int) -> bool:
        """Tell whether it is proven that a process was not started by its parent.

        Who is not proven to be may still be listed, with that as the doubt (see `other_servers`).

        Any program may be a container's first process, adopt others, and have children of its
        own. Those are in its session, or lead one: who is in a third was born elsewhere.
        """
        parent = self.processes.get(self.processes[pid].parent)
        if parent is None or parent.identity.pid in self.hosts:
            return False
        if self.is_adopter(parent):
            return True
        first = parent.identity.pid
        return first == 1 and _read_session(pid) not in {0, pid, _read_session(first)}

    @staticmethod
    def is_adopter(process: Process) -> bool:
        """Tell whether a process is one of those that do nothing but adopt."""
        return process.name in _ADOPTERS


def _read_session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (OSError, AttributeError):
        return 0  # gone, or a system without sessions
