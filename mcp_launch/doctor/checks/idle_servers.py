"""Servers that run although nobody calls them, and how to save their memory."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import LaunchError, printable
from mcp_launch.launch import profile
from mcp_launch.machine import units
from mcp_launch.machine.preview import predict
from mcp_launch.machine.subject import Subject
from mcp_launch.machine.wrap_hint import FOR_EVERYONE, SHARED, find_reach

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.launch.profile import Profile
    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Item, Survey

# How long a server must not have been called to count as idle, in seconds.
IDLE_AFTER = 600.0

# From how many bytes on idle servers are worth a note.
TOO_MUCH = 500_000_000


class _Idle(NamedTuple):
    """A server that nobody calls."""

    server: Server
    item: Item | None  # its entry, if it is in a file of this user or this project
    memory: int  # bytes


class _Remedy(NamedTuple):
    """An option that would save the memory of some servers."""

    option: str
    value: str
    what: str  # for a person
    warning: str = ""


_START = _Remedy("--start", "called", "start them with their first call")
_REST = _Remedy(
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
    path = profile.locate_user_file(survey.environ)
    fixes = [*_list_fixes(_START, never, path), *_list_fixes(_REST, others, path)]
    yield Finding(
        "ML409",
        Subject(),
        f"{_count(idle)} not called in the last 10 minutes "
        f"{'takes' if len(idle) == 1 else 'take'} {units.tell_size(total)}: {_list_names(idle)}",
        "; ".join(fixes),
    )


def _list_idle(survey: Survey) -> Iterator[_Idle]:
    """Return the idle servers of ours; without those that already have the remedy."""
    for host in survey.census.hosts:
        if not survey.covers(host.name):
            continue
        for server in host.servers:
            item = _find_entry(survey, host.name, server)
            if _is_idle(server) and not _is_remedied(survey, server, item):
                yield _Idle(server, item, _measure(server))


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


def _find_entry(survey: Survey, host: str, server: Server) -> Item | None:
    for item in survey.servers:
        if item.is_wrapped and (item.running_as, item.name) == (host, server.name):
            return item
    return None


def _is_remedied(survey: Survey, server: Server, item: Item | None) -> bool:
    """Return whether a server runs although it has the remedy already.

    It was started before that, or something keeps it awake.
    """
    wanted = predict(survey, item).profile if item else _load_profile(survey, server.name)
    if wanted is None:
        return False
    return bool(wanted.rest) or (wanted.start == "called" and not _was_called(server))


def _load_profile(survey: Survey, name: str) -> Profile | None:
    """Return what the user's own file says of a server whose entry is elsewhere."""
    try:
        words = [f"--server={name}", "--", "its command"]
        return profile.load(words, survey.environ, is_launch=False)
    except LaunchError:
        return None  # it is invalid, which other checks report


def _measure(server: Server) -> int:
    """Return what would be saved: everything but the launcher, which stays."""
    # What nobody uses is swapped out first.
    saved = [pid for pid in server.processes if pid != server.launcher]
    return sum(server.shares[pid].amount + units.measure_swapped(pid) for pid in saved)


def _list_fixes(remedy: _Remedy, idle: list[_Idle], path: str) -> Iterator[str]:
    """Return what applies a remedy: a command, or a profile in the user's file `path`."""
    commands: dict[str, list[str]] = {}
    left: list[str] = []
    for one in idle:
        names = commands.setdefault(_choose_command(one.item), []) if one.item else left
        if one.server.name not in names:
            names.append(one.server.name)
    for command, names in commands.items():
        notes = [remedy.warning, FOR_EVERYONE if command.endswith(SHARED) else ""]
        note = "; ".join(filter(None, notes))
        yield (
            f"{remedy.what}: {command}{shlex.join(names)} -- {remedy.option} {remedy.value}"
            f"{f' ({note})' if note else ''}"
        )
    if left:
        key, tables = remedy.option.removeprefix("--"), map(profile.name_table, left)
        yield (
            f'{remedy.what}: write {key} = "{remedy.value}" under {", ".join(tables)} in '
            f"{path}{f' ({remedy.warning})' if remedy.warning else ''}"
        )


def _choose_command(item: Item) -> str:
    """Return the beginning of the command that changes an entry."""
    reach = find_reach(item)
    if reach == "file":
        return f"mcp-launch wrap --file {shlex.quote(item.file.path)} "
    return f"mcp-launch wrap {SHARED if reach == 'shared' else ''}"


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
