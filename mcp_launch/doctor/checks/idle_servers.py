"""Servers that run although nobody calls them, and how to save their memory."""

from __future__ import annotations

import time
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
from mcp_launch.machine import units
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Survey

# How long a server must not have been called to count as idle, in seconds.
IDLE_AFTER = 600.0

# From how many bytes on idle servers are worth a note.
TOO_MUCH = 500_000_000


class _Idle(NamedTuple):
    """A server that nobody calls."""

    target: Target
    memory: int  # bytes

    @property
    def server(self) -> Server:
        """The server itself."""
        return self.target.server


_START = Remedy("--start", "called", "start them with their first call")
_REST = Remedy(
    "--rest",
    "10m",
    "end them when they are idle, until the next call",
    "not for a server that keeps something in memory between calls: it would be lost",
)


def check(survey: Survey) -> Iterator[Finding]:
    """Find idle servers that take much memory in all (ML409)."""
    idle = sorted(_list_idle(survey), key=lambda one: -one.memory)
    total = sum(one.memory for one in idle)
    if total <= TOO_MUCH:
        return
    never = [one for one in idle if not _was_called(one.server)]
    others = [one for one in idle if _was_called(one.server)]
    fixes = [
        *list_fixes(survey, _START, [one.target for one in never]),
        *list_fixes(survey, _REST, [one.target for one in others]),
    ]
    yield Finding(
        "ML409",
        Subject(),
        f"{_count(idle)} not called in the last 10 minutes "
        f"{'takes' if len(idle) == 1 else 'take'} {units.tell_size(total)}: {_list_names(idle)}",
        "; ".join(fixes),
    )


def _list_idle(survey: Survey) -> Iterator[_Idle]:
    """Return the idle servers of ours; without those that already have the remedy."""
    everywhere = [server for host in survey.census.hosts for server in host.servers]
    in_use = {one.pool.key for one in everywhere if one.pool and not _is_idle(one)}
    for host in survey.census.hosts:
        if not survey.covers(host.name):
            continue
        for server in host.servers:
            if not _is_idle(server) or (server.pool and server.pool.key in in_use):
                continue
            if server.pool and server.pid not in server.processes:
                continue  # it is counted in another session
            target = find_target(survey, host.name, server)
            if not _is_remedied(survey, target):
                yield _Idle(target, _measure(server))


def _is_idle(server: Server) -> bool:
    """Return whether a server runs, and nobody has called it for a while."""
    launch = server.launch
    if launch is None or server.pid != launch.server or launch.wire == "direct":
        return False  # there is none, or calls do not pass through us
    called_ago = time.time() - launch.last_call if launch.last_call is not None else None
    # A server that is younger may be about to be called.
    return all(age is None or age >= IDLE_AFTER for age in (server.age, called_ago))


def _was_called(server: Server) -> bool:
    return server.launch is not None and bool(server.launch.calls)


def _is_remedied(survey: Survey, target: Target) -> bool:
    """Return whether a server runs although it has the remedy already.

    It was started before that, or something keeps it awake.
    """
    wanted = find_wanted(survey, target)
    if wanted is None:
        return False
    return bool(wanted.rest) or (wanted.start == "called" and not _was_called(target.server))


def _measure(server: Server) -> int:
    """Return what would be saved: everything but the launcher, which stays."""
    # What nobody uses is swapped out first.
    saved = [pid for pid in server.processes if pid != server.launcher]
    return sum(server.shares[pid].amount + units.measure_swapped(pid) for pid in saved)


def _list_names(idle: list[_Idle]) -> str:
    """Return the servers by name, each with its memory in all."""
    amounts: dict[str, list[int]] = {}
    for one in idle:
        amounts.setdefault(one.server.name, []).append(one.memory)
    ordered = sorted(amounts.items(), key=lambda one: -sum(one[1]))
    return ", ".join(
        f"{printable(name)} {units.tell_size(sum(parts))}"
        f"{f' ({len(parts)} servers)' if len(parts) > 1 else ''}"
        for name, parts in ordered
    )


def _count(idle: list[_Idle]) -> str:
    return f"{len(idle)} server{'' if len(idle) == 1 else 's'}"
