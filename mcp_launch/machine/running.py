"""Take the census of running servers: by host and session, and those without a host."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts, masking
from mcp_launch.config_files.session_records import SeenHost
from mcp_launch.errors import printable
from mcp_launch.hosts import Sighting
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import (
    launched_servers,
    other_servers,
    process_titles,
    server_pools,
    units,
)
from mcp_launch.machine.process_snapshot import Population, Server

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mcp_launch.hosts import HostIdentity
    from mcp_launch.machine.recognize_server import Configured
    from mcp_launch.machine.units import Memory
    from mcp_launch.system import ProcessTable


class Session(NamedTuple):
    """The servers of one session or thread; both ids are empty if it is unknown."""

    session: str
    thread: str
    servers: list[Server]
    title: str = ""  # what the user calls it; "" unless `add_titles` has looked

    @property
    def id(self) -> str:
        """Its thread's id, or else its session's; empty if it is unknown."""
        return self.thread or self.session

    @property
    def project(self) -> str:
        """The project of most of its servers."""
        projects = [server.project for server in self.servers if server.project]
        return max(projects, key=projects.count, default="")

    @property
    def memory(self) -> Memory:
        """The memory of its servers."""
        return _measure(self.servers)


class HostProcess(NamedTuple):
    """One process of a host that has servers."""

    pid: int
    name: str
    title: str
    age: float | None
    session: str  # the current one, if the host records it
    threads: tuple[str, ...]  # the ones it has open
    sessions: list[Session]
    role: str = ""  # what this process is, if it is not the host's program in a terminal

    def __str__(self) -> str:
        """Return its name in messages."""
        return f"{printable(self.title)} (process {self.pid})"

    @property
    def servers(self) -> list[Server]:
        """All its servers."""
        return [server for session in self.sessions for server in session.servers]

    @property
    def absent(self) -> list[Server]:
        """Those of its servers that do not run: they were not started, or rest."""
        return [server for server in list_distinct(self.servers) if server.is_absent]

    @property
    def saved(self) -> int:
        """The memory in bytes that these would take, as far as it is known."""
        return sum(server.saved for server in self.absent)

    @property
    def memory(self) -> Memory:
        """The memory of its servers."""
        return _measure(self.servers)


class Census(NamedTuple):
    """All servers of living launches, and all other running servers."""

    hosts: list[HostProcess]
    ownerless: list[Server]  # provably
    sees_all: bool = True  # False: processes cannot be seen, so there may be any number


def _measure(servers: list[Server]) -> Memory:
    # One server may be below another (a host that is itself a server): count each process once.
    shares = {pid: share for server in servers for pid, share in server.shares.items()}
    return units.add_up(shares.values())


def take(table: ProcessTable, state: str, configured: Iterable[Configured]) -> Census:
    """Return all running servers with their hosts, from one look at all processes.

    `state` is the directory of our files, `configured` the servers in the hosts' files.
    """
    known = list(configured)
    population = Population(table)
    below: dict[int, list[Server]] = {}
    names: dict[int, str] = {}  # hosts' names from leases
    pools = server_pools.find_all(population, state)
    taken = {os.getpid(), *(pid for pool in pools.values() for pid in pool.processes)}
    ownerless = list(launched_servers.find_left(population, f"{state}/pools", known, pools))
    taken.update(pid for server in ownerless for pid in server.processes)
    launched = launched_servers.find_all(population, f"{state}/leases", known, pools)
    for host, name, server in launched:
        taken.update(server.processes)
        if server.why_ownerless:
            ownerless.append(server)
        else:
            below.setdefault(host, []).append(server)
            names[host] = name
    for host, server in other_servers.find_hosted(population, taken, known):
        below.setdefault(host, []).append(server)
    ownerless += other_servers.find_orphans(population, taken, known)
    described = [
        _describe_host(population, pid, names.get(pid, ""), below[pid]) for pid in sorted(below)
    ]
    return Census(count_shared_once(described), ownerless, table.SEES_ALL)


def count_shared_once(listed: list[HostProcess]) -> list[HostProcess]:
    """Return the hosts with the processes of a shared server only in the first row that it has.

    So sums are right, whichever servers are listed. The others have only their launchers. What
    is a pool's own is counted with the first of its servers.
    """
    counted: set[int] = set()

    def place(server: Server) -> Server:
        if server.pool is None:
            return server
        tree, branches = server.pool.processes, server.pool.branches
        others = {pid for one, tree in branches.items() if one != server.pid for pid in tree}
        own = tuple(pid for pid in server.processes if pid not in tree)
        kept = tuple(pid for pid in tree if pid not in others | counted)
        counted.update(kept)
        placed = own + kept
        return server if placed == server.processes else replace(server, processes=placed)

    return [
        host._replace(
            sessions=[
                session._replace(servers=[place(server) for server in session.servers])
                for session in host.sessions
            ]
        )
        for host in listed
    ]


def list_distinct(servers: Iterable[Server]) -> list[Server]:
    """Return the servers with each shared one once, which is otherwise in every launch's place."""
    found: dict[object, Server] = {}
    for server in servers:
        shared_as = server.shared_as or (server.pool.key if server.pool else None)
        found.setdefault(shared_as or id(server), server)
    return list(found.values())


def _describe_host(
    population: Population, pid: int, name: str, servers: list[Server]
) -> HostProcess:
    host = population.hosts.get(pid) or hosts.load(name)
    session = _read_session(population, host, pid)
    threads = host.list_open_threads(population.table, pid)
    groups: dict[tuple[str, str], list[Server]] = {}
    for one in servers:
        server, whose = one, (one.session, one.thread)
        # A launch with a server for each session says which one each serves.
        is_known = any(whose) and one.launch is not None and bool(one.launch.backend)
        if session and host.carries == "one session at a time" and not is_known:
            # The host's current session applies to all its servers, called or not: a lease
            # has the session of the last call, or of the start.
            whose = (session, "")
            if server.session and server.session != session:
                server = replace(server, earlier=server.session)
        elif server.launch is None:
            only = threads[0] if len(threads) == 1 else None
            whose = (only.session or only.id, only.id) if only else (session, "")
        groups.setdefault(whose, []).append(server)
    described = HostProcess(
        pid,
        host.name,
        _find_title(population, host, pid),
        population.table.started_seconds_ago(pid) if pid in population.processes else None,
        session,
        tuple(thread.id for thread in threads),
        [Session(*whose, members) for whose, members in sorted(groups.items())],
    )
    if host.name not in HOSTS:
        return described
    argv = population.table.read_argv(pid)
    return described._replace(role=HOSTS[host.name].sessions.name_role(argv))


def _find_title(population: Population, host: HostIdentity, pid: int) -> str:
    if host is not hosts.UNKNOWN:
        return host.title
    process = population.processes.get(pid)
    return process_titles.name_process(population.table, process) if process else "an unknown host"


def _read_session(population: Population, host: HostIdentity, pid: int) -> str:
    """Return the session in the host's own record; empty: it has none."""
    process = population.processes.get(pid)
    if process is None:
        return ""
    table = population.table
    environ = table.read_environ(pid)
    sighting = Sighting(table=table, process=process, environ=environ, cwd="", is_starter=True)
    callers = host.follow_callers(sighting)
    caller = None if callers.is_in_request else callers.read({})
    return (caller[0] or "") if caller else ""


# How much of a session's id must be given: less would match too many.
_SHORTEST_ID = 4


def select(census: Census, names: Collection[str], hosts: Collection[str]) -> Census:
    """Return what matches one of the names and, if hosts are given, belongs to one of them.

    A name is a server's, a host's, or the beginning of a session's or thread's id.
    """
    if not names and not hosts:
        return census
    # Some hosts are extensions of another, whose process starts their servers.
    of_hosts = {one for name in hosts if name in HOSTS for one in HOSTS[name].processes}
    chosen = [
        _narrow(host, names) for host in census.hosts if not of_hosts or host.name in of_hosts
    ]
    return census._replace(
        hosts=count_shared_once([host for host in chosen if host.sessions]),
        ownerless=[one for one in census.ownerless if not of_hosts and one.name in names],
    )


def is_empty(census: Census) -> bool:
    """Return whether a census has no server at all."""
    return not (census.hosts or census.ownerless)


def _narrow(host: HostProcess, names: Collection[str]) -> HostProcess:
    if not names or host.name in names:
        return host
    kept = [
        session._replace(servers=[one for one in session.servers if _matches(one, session, names)])
        for session in host.sessions
    ]
    return host._replace(sessions=[session for session in kept if session.servers])


def _matches(server: Server, session: Session, names: Collection[str]) -> bool:
    ids = (session.session, session.thread)
    return server.name in names or any(
        one.startswith(name) for name in names if len(name) >= _SHORTEST_ID for one in ids
    )


# How many characters of a title are kept: a first prompt may be a whole file.
_LONGEST_TITLE = 200


def add_titles(census: Census, table: ProcessTable) -> Census:
    """Return a census whose sessions have their titles, as far as their hosts record them."""
    described = []
    for host in census.hosts:
        records = HOSTS[host.name].sessions if host.name in HOSTS else None
        if records is None or not host.pid:
            described.append(host)
            continue
        seen = see_host(table, host.pid)
        sessions = [
            one._replace(title=_tidy(records.read_title(seen, one.session, one.thread)))
            for one in host.sessions
        ]
        described.append(host._replace(sessions=sessions))
    return census._replace(hosts=described)


def see_host(table: ProcessTable, pid: int) -> SeenHost:
    """Return what the process table shows of a host's process."""
    return SeenHost(pid, table.read_argv(pid), table.read_environ(pid), table.list_open_files(pid))


def _tidy(title: str) -> str:
    """Return a title in one line, without secrets: it may be all of a prompt."""
    masked = masking.mask_text(" ".join(title[: 4 * _LONGEST_TITLE].split()))
    whole = printable(masked)
    return whole if len(whole) <= _LONGEST_TITLE else f"{whole[: _LONGEST_TITLE - 1]}…"
