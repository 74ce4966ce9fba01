"""Memory that running servers take, and that could be saved: idle servers, servers to share."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.doctor.check import Finding, check
from mcp_launch.errors import LaunchError, printable
from mcp_launch.launch import profile, profile_tables, sharing
from mcp_launch.machine import units
from mcp_launch.machine.preview import predict
from mcp_launch.machine.survey import Subject
from mcp_launch.machine.wrap_warnings import find_reach
from mcp_launch.protocol import get_member
from mcp_launch.state import leases
from mcp_launch.system import linux
from mcp_launch.values import find_home_directory, shorten_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_launch.launch.profile import Profile
    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Item, Survey
    from mcp_launch.protocol.json_text import Json

# How long a server must not have been called to count as idle, in seconds.
_IDLE_AFTER = 600.0

# From how many bytes on idle servers are worth a note.
_TOO_MUCH = 500_000_000

# From how many bytes on it is worth a note that they could be saved.
_WORTH_A_NOTE = 20_000_000

# What the leases say of connections that can be shared.
_ALLOWED, _PLAUSIBLE = "2026", "2025"


@check("ML409", "note", "servers take memory that could be saved")
def check_memory(survey: Survey) -> Iterator[Finding]:
    """Servers run that nobody calls, or sessions have servers of their own that could be one.

    Hosts start every server of every session at once, and most are never called. Those of
    mcp-launch that have run for at least ten minutes without a call are reported if they take more
    than 500 MB together, swapped memory included (servers with `--direct` are not counted, since
    their calls do not pass through mcp-launch). Several sessions in one directory that run the same
    server are reported if mcp-launch has seen nothing that speaks against one process for all of
    them: no requests to the host, and after the first call no changed list or updated resource.

    Start servers with their first call, end those that pause, or let the sessions of a project
    share one. All take effect in new sessions; `mcp-launch ps` then shows what they save.

        mcp-launch wrap docs audit -- --start called
        mcp-launch wrap docs -- --rest 10m
        mcp-launch wrap docs -- --share project

    Do not use `--rest` or `--share` for a server that keeps something in memory, such as a login, a
    directory or a browser. To hide the note for it: `ignore = ["ML409:browser"]`.
    """
    yield from _find_idle(survey)
    yield from _find_shareable(survey)


class _Remedy(NamedTuple):
    """An option that would save the memory of some servers."""

    option: str
    value: str
    what: str  # for a person
    warning: str = ""


class _Target(NamedTuple):
    """A running server, and where its options can be written."""

    server: Server
    item: Item | None  # its entry, if it is in a file of this user or this project


def _find_target(survey: Survey, host: str, server: Server) -> _Target:
    """Return a server of a host with its entry."""
    for item in survey.servers:
        if item.is_wrapped and (item.running_as, item.name) == (host, server.name):
            return _Target(server, item)
    return _Target(server, None)


def _find_wanted(survey: Survey, target: _Target) -> Profile | None:
    """Return what the next launch of a server would want; None if that is not known."""
    if target.item is not None:
        return predict(survey, target.item).profile
    try:
        # Its entry is elsewhere, so only the user's own file is known.
        words = [f"--server={target.server.name}", "--", "its command"]
        return profile.load(words, survey.environ)
    except LaunchError:
        return None  # it is invalid, which other checks report


def _list_fixes(survey: Survey, remedy: _Remedy, targets: Iterable[_Target]) -> Iterator[str]:
    """Return what applies a remedy: a command, or profiles in the user's file."""
    wrapped: dict[str, None] = {}
    left: dict[str, None] = {}
    for server, item in targets:
        is_own = item is not None and find_reach(item) == "own"
        (wrapped if is_own else left)[server.name] = None
    note = f" ({remedy.warning})" if remedy.warning else ""
    if wrapped:
        command = f"mcp-launch wrap {shlex.join(wrapped)} -- {remedy.option} {remedy.value}"
        yield f"{remedy.what}: {command}{note}"
    if left:
        key, tables = (
            remedy.option.removeprefix("--"),
            ", ".join(map(profile_tables.name_table, left)),
        )
        path = profile_tables.locate(survey.environ)
        yield f'{remedy.what}: write {key} = "{remedy.value}" under {tables} in {path}{note}'


class _Idle(NamedTuple):
    """A server that nobody calls."""

    target: _Target
    memory: int  # bytes

    @property
    def server(self) -> Server:
        """The server itself."""
        return self.target.server


_START = _Remedy("--start", "called", "start them with their first call")
_REST = _Remedy(
    "--rest",
    "10m",
    "end them when they are idle, until the next call",
    "not for a server that keeps something in memory between calls: it would be lost",
)


def _find_idle(survey: Survey) -> Iterator[Finding]:
    """Find idle servers that take much memory in all."""
    idle = sorted(_list_idle(survey), key=lambda one: -one.memory)
    total = sum(one.memory for one in idle)
    if total <= _TOO_MUCH:
        return
    never = [one for one in idle if not _was_called(one.server)]
    others = [one for one in idle if _was_called(one.server)]
    fixes = [
        *_list_fixes(survey, _START, [one.target for one in never]),
        *_list_fixes(survey, _REST, [one.target for one in others]),
    ]
    yield Finding(
        "ML409",
        Subject(),
        f"{units.count(len(idle), 'server')} not called in the last 10 minutes "
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
            target = _find_target(survey, host.name, server)
            if not _is_remedied(survey, target):
                yield _Idle(target, _measure(server))


def _is_idle(server: Server) -> bool:
    """Return whether a server runs, and nobody has called it for a while."""
    launch = server.launch
    if launch is None or server.pid != launch.server or launch.wire == "direct":
        return False  # there is none, or calls do not pass through us
    called_ago = time.time() - launch.last_call if launch.last_call is not None else None
    # A server that is younger may be about to be called.
    return all(age is None or age >= _IDLE_AFTER for age in (server.age, called_ago))


def _was_called(server: Server) -> bool:
    return server.launch is not None and bool(server.launch.calls)


def _is_remedied(survey: Survey, target: _Target) -> bool:
    """Return whether a server runs although it has the remedy already.

    It was started before that, or something keeps it awake.
    """
    wanted = _find_wanted(survey, target)
    if wanted is None:
        return False
    return bool(wanted.rest) or (wanted.start == "called" and not _was_called(target.server))


def _measure(server: Server) -> int:
    """Return what would be saved, in bytes: everything but the launcher, which stays."""
    # What nobody uses is swapped out first.
    saved = [pid for pid in server.processes if pid != server.launcher]
    return sum(server.shares[pid].amount + linux.measure_swapped(pid) for pid in saved)


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


_REMEDIES = {
    _ALLOWED: _Remedy("--share", "project", "let them share one, which its protocol allows"),
    _PLAUSIBLE: _Remedy(
        "--share",
        "project",
        "if it keeps no state for each client, let them share one",
        "nothing seen so far speaks against it, but only you can know",
    ),
}


class _Shareable(NamedTuple):
    """A server that another session could use, too."""

    target: _Target
    era: str  # of its connection
    memory: int  # bytes


def _find_shareable(survey: Survey) -> Iterator[Finding]:
    """Find servers that several sessions in one directory could share."""
    for (_, _, directory), alike in _group(survey).items():
        sizes = [one.memory for one in alike]
        saved = sum(sizes) - max(sizes)
        if len(alike) == 1 or saved < _WORTH_A_NOTE:
            continue
        place = shorten_home(directory, find_home_directory(survey.environ))
        name = alike[0].target.server.name
        is_allowed = all(one.era == _ALLOWED for one in alike)
        remedy = _REMEDIES[_ALLOWED if is_allowed else _PLAUSIBLE]
        yield Finding(
            "ML409",
            Subject(server=name),
            f"{len(alike)} sessions in {printable(place)} each run their own {printable(name)}: "
            f"one shared server would save about {units.tell_size(saved)}",
            "; ".join(_list_fixes(survey, remedy, [one.target for one in alike])),
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
                target = _find_target(survey, host.name, server)
                wanted = _find_wanted(survey, target)
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
