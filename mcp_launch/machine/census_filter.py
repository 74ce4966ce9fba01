"""Narrow a census to some servers, hosts or sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine.running import count_shared_once

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Census, HostProcess, Session

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
