"""Servers of which each session has its own, although one could serve all of them.

Whether it could is in the leases of their launches (see `state.leases`): only they have seen what
the server and its hosts say to each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.doctor.checks.remedies import (
    Remedy,
    Target,
    find_target,
    find_wanted,
    list_fixes,
)
from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import printable
from mcp_launch.launch import sharing
from mcp_launch.machine import units
from mcp_launch.machine.subject import Subject
from mcp_launch.protocol import get_member
from mcp_launch.state import leases
from mcp_launch.values import find_home_directory, shorten_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Survey
    from mcp_launch.protocol.json_text import Json

# From how many bytes on it is worth a note that they could be saved.
WORTH_A_NOTE = 20_000_000

# What the leases say of connections that can be shared.
_ALLOWED, _PLAUSIBLE = "2026", "2025"

_REMEDIES = {
    _ALLOWED: Remedy("--share", "project", "let them share one, which its protocol allows"),
    _PLAUSIBLE: Remedy(
        "--share",
        "project",
        "if it keeps no state for each client, let them share one",
        "nothing seen so far speaks against it, but only you can know",
    ),
}


class _Shareable(NamedTuple):
    """A server that another session could use, too."""

    target: Target
    era: str  # of its connection
    memory: int  # bytes


def check(survey: Survey) -> Iterator[Finding]:
    """Find servers that several sessions in one directory could share (ML411)."""
    for (_, _, directory), alike in _group(survey).items():
        sizes = [one.memory for one in alike]
        saved = sum(sizes) - max(sizes)
        if len(alike) == 1 or saved < WORTH_A_NOTE:
            continue
        place = shorten_home(directory, find_home_directory(survey.environ))
        name = alike[0].target.server.name
        is_allowed = all(one.era == _ALLOWED for one in alike)
        remedy = _REMEDIES[_ALLOWED if is_allowed else _PLAUSIBLE]
        yield Finding(
            "ML411",
            Subject(server=name),
            f"{len(alike)} sessions in {printable(place)} each run their own {printable(name)}: "
            f"one shared server would save about {units.tell_size(saved)}",
            "; ".join(list_fixes(survey, remedy, [one.target for one in alike])),
        )


def _group(survey: Survey) -> dict[tuple[str, str, str], list[_Shareable]]:
    """Return the servers that could be shared, by host, command's mark and directory."""
    records = {
        str(record.get("launch")): record
        for record in leases.read_all(f"{survey.state}/leases").values()
    }
    groups: dict[tuple[str, str, str], list[_Shareable]] = {}
    for host in survey.census.hosts:
        for server in host.servers if survey.covers(host.name) else ():
            record = _find_record(server, records)
            mark, place = record.get("mark"), get_member(record, "context", "cwd", "value")
            era = record.get("shareable")
            if isinstance(mark, str) and isinstance(place, str) and era in _REMEDIES:
                target = find_target(survey, host.name, server)
                wanted = find_wanted(survey, target)
                if wanted is None or sharing.may_be_shared(wanted):
                    found = _Shareable(target, str(era), _measure(server))
                    groups.setdefault((host.name, mark, place), []).append(found)
    return groups


def _find_record(server: Server, records: dict[str, dict[str, Json]]) -> dict[str, Json]:
    """Return the lease of a server that runs for one session alone; empty: there is none."""
    launch = server.launch
    if launch is None or launch.backend or server.pool or server.pid != launch.server:
        return {}
    return records.get(launch.id, {})


def _measure(server: Server) -> int:
    """Return the memory of a server without its launcher, which stays."""
    own = {pid: share for pid, share in server.shares.items() if pid != server.launcher}
    return units.add_up(own.values()).amount
