"""Who runs for whom: hosts, their sessions, the servers below them, and those without a host."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts
from mcp_launch.errors import printable
from mcp_launch.hosts.host import Sighting
from mcp_launch.machine import launched_servers, other_servers, process_titles, units
from mcp_launch.machine.process_snapshot import Population, Server

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.hosts.host import HostIdentity
    from mcp_launch.machine.recognize_server import Configured
    from mcp_launch.machine.units import Memory
    from mcp_launch.system import ProcessTable


class Session(NamedTuple):
    """The servers of one session or thread; both empty: nobody tells whose they are."""

    session: str
    thread: str
    servers: list[Server]

    @property
    def memory(self) -> Memory:
        """What its servers hold."""
        return _measure(self.servers)


class HostProcess(NamedTuple):
    """One process of a host that has servers."""

    pid: int
    name: str
    title: str
    age: float | None
    session: str  # of the moment, where the host tells
    threads: tuple[str, ...]  # that it has open
    sessions: list[Session]

    def __str__(self) -> str:
        """Return what it is called in a message."""
        return f"{printable(self.title)} (process {self.pid})"

    @property
    def servers(self) -> list[Server]:
        """All of its servers."""
        return [server for session in self.sessions for server in session.servers]

    @property
    def memory(self) -> Memory:
        """What its servers hold."""
        return _measure(self.servers)


class Census(NamedTuple):
    """Everything that runs."""

    hosts: list[HostProcess]
    ownerless: list[Server]  # proven to be so
    doubtful: tuple[Server, ...] = ()  # they seem to be, and each has what speaks against it


def _measure(servers: list[Server]) -> Memory:
    # One may be below another (a host that is itself a server): each process counts once.
    shares = {pid: share for server in servers for pid, share in server.shares.items()}
    return units.add_up(shares.values())


def take(table: ProcessTable, state: str, configured: Iterable[Configured]) -> Census:
    """Look at all processes once, and tell who runs for whom.

    `state` is the directory of our files, `configured` what the hosts' files have.
    """
    known = list(configured)
    population = Population(table)
    below: dict[int, list[Server]] = {}
    names: dict[int, str] = {}  # hosts that only a lease knows
    ownerless = []
    taken = {os.getpid()}
    for host, name, server in launched_servers.find_all(population, f"{state}/leases", known):
        taken.update(server.processes)
        if server.why_ownerless:
            ownerless.append(server)
        else:
            below.setdefault(host, []).append(server)
            names[host] = name
    for host, server in other_servers.find_hosted(population, taken, known):
        below.setdefault(host, []).append(server)
    left = list(other_servers.find_left(population, taken, known))
    ownerless += [server for server in left if not server.doubt]
    described = [
        _describe_host(population, pid, names.get(pid, ""), below[pid]) for pid in sorted(below)
    ]
    return Census(described, ownerless, tuple(server for server in left if server.doubt))


def _describe_host(
    population: Population, pid: int, name: str, servers: list[Server]
) -> HostProcess:
    host = population.hosts.get(pid) or hosts.load(name)
    session = _read_session(population, host, pid)
    threads = host.list_open_threads(population.table, pid)
    groups: dict[tuple[str, str], list[Server]] = {}
    for one in servers:
        server, whose = one, (one.session, one.thread)
        if session and host.carries == "one session at a time":
            # What its host says now counts for all its servers, called or not: the session of
            # a lease is that of the last call, or of the start.
            whose = (session, "")
            if server.session and server.session != session:
                server = replace(server, earlier=server.session)
        elif server.launch is None:
            only = threads[0] if len(threads) == 1 else None
            whose = (only.session or only.id, only.id) if only else (session, "")
        groups.setdefault(whose, []).append(server)
    return HostProcess(
        pid,
        host.name,
        _find_title(population, host, pid),
        population.table.started_seconds_ago(pid) if pid in population.processes else None,
        session,
        tuple(thread.id for thread in threads),
        [Session(*whose, members) for whose, members in sorted(groups.items())],
    )


def _find_title(population: Population, host: HostIdentity, pid: int) -> str:
    if host is not hosts.UNKNOWN:
        return host.title
    process = population.processes.get(pid)
    return process_titles.name_process(population.table, process) if process else "an unknown host"


def _read_session(population: Population, host: HostIdentity, pid: int) -> str:
    """Return the session that a host's own record tells, where it has one."""
    process = population.processes.get(pid)
    if process is None:
        return ""
    table = population.table
    environ = table.read_environ(pid)
    sighting = Sighting(table=table, process=process, environ=environ, cwd="", is_starter=True)
    callers = host.follow_callers(sighting)
    caller = None if callers.is_in_request else callers.read({})
    return (caller[0] or "") if caller else ""
