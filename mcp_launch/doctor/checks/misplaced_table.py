"""Servers under a key that another host reads, but this one does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import FileRefused
from mcp_launch.machine.survey import point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.machine.survey import Survey

# The names that hosts and people use for the table of servers.
_TABLES = ("mcpServers", "mcp_servers", "mcp-servers", "servers", "context_servers", "mcp")

# Keys of a server that other tables do not have.
_OF_SERVERS = ("command", "url")


def check(survey: Survey) -> Iterator[Finding]:
    """Find tables of servers that a host ignores (ML102)."""
    for host, file in survey.files:
        if not file.why_not and host.quirks.ignores_unknown_tables:
            yield from _look(survey, host, file)


def _look(survey: Survey, host: HostConfig, file: File) -> Iterator[Finding]:
    try:
        document = survey.read(file)
    except FileRefused:
        return  # ML101 reports it
    found = document.get(())
    if host.quirks.keys.is_file_skipped(file.scope, found):
        return  # the whole file is, which ML122 reports
    wanted = [str(pattern[0]) for pattern in file.servers if pattern]
    for key, table in found.items() if isinstance(found, dict) else ():
        servers = _list_servers(table) if key in _TABLES and key not in wanted else []
        if servers:
            yield Finding(
                "ML102",
                point(host, file, document, (key, servers[0])),
                f"{host.title} does not know the key {key}, and ignores the servers under it",
                f"write {wanted[0]} instead",
            )


def _list_servers(table: object) -> list[str]:
    """Return the names of the entries that look like servers."""
    return [
        name
        for name, entry in (table.items() if isinstance(table, dict) else ())
        if isinstance(entry, dict) and any(key in entry for key in _OF_SERVERS)
    ]


OF_ALL = (check,)
