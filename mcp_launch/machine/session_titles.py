"""The titles of the sessions in a census, from the hosts' own records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch import masking
from mcp_launch.config_files.session_records import SeenHost
from mcp_launch.errors import printable
from mcp_launch.hosts.configured import HOSTS

if TYPE_CHECKING:
    from mcp_launch.machine.running import Census
    from mcp_launch.system import ProcessTable

# How many characters of a title are kept: a first prompt may be a whole file.
_LONGEST = 200


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
    masked = masking.mask_text(" ".join(title[: 4 * _LONGEST].split()))
    whole = printable(masked)
    return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - 1]}…"
