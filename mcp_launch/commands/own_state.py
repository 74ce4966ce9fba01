"""Remove what mcp-launch keeps of its own: logs, leases, records, copies.

Only files that are provably ours, by name, type and owner, are removed; anything else in our
directories stays and is listed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import state
from mcp_launch.config_files import backups, entry_script, write_file
from mcp_launch.errors import LaunchError
from mcp_launch.launch import ended, profile_tables
from mcp_launch.state import calls, leases, pools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.system import ProcessTable


class _Place(NamedTuple):
    """A directory of ours, and the names of our files in it."""

    name: str  # below our state directory; empty: that directory itself
    files: re.Pattern[str]


_LAUNCH = r"[0-9a-f]{16,40}"

_PLACES = (
    _Place("leases", re.compile(rf"{_LAUNCH}\.json")),
    _Place("logs", re.compile(rf"{_LAUNCH}\.log(\.1)?")),
    _Place("handshakes", re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}\.jsonl")),
    _Place("runners", re.compile(r"[0-9a-f]{16}")),
    _Place("pools", re.compile(r"[0-9a-f]{4,64}\.(json|sock|lock)")),
    _Place("calls", re.compile(calls.NAME)),
    _Place("exports", re.compile(r"[0-9a-f]{16}\.json")),
    _Place("nowhere", re.compile(r"(?!)")),  # where Codex lists tools: nothing of ours is in it
)
_OWN = _Place("", re.compile(rf"crash-\d+\.txt|{re.escape(profile_tables.KEPT)}"))
_LAST = (
    _Place("backups", backups.NAME),
    _Place("", re.compile(r"wrap\.lock|wrapped\.json(\.unreadable)?")),
    _Place("", re.compile(entry_script.NAME)),  # last: until here, an entry may name it
)


def renew_script(environ: Mapping[str, str]) -> None:
    """Renew the script that wrapped entries start, if there is one: an upgrade may have moved us.

    If that is not possible, `wrap` and `doctor` say so.
    """
    with contextlib.suppress(LaunchError):
        entry_script.renew(state.find_directory(environ))


class Launches(NamedTuple):
    """The launches that have leases."""

    living: set[str]  # one of their processes is running
    kept: set[str]  # those, and all that are not provably over; also the keys of such pools


def look_at_launches(table: ProcessTable, directory: str) -> Launches:
    """Return which launches need their files."""
    launches = Launches(set(), set())
    for path, record in ended.read_living(table, os.path.join(directory, "leases")).items():
        launch = os.path.basename(path).removesuffix(".json")
        launches.kept.add(launch)
        parts = record.get("processes")
        recorded = parts.values() if isinstance(parts, dict) else ()
        if "same" in [leases.judge(table, one) for one in recorded]:
            launches.living.add(launch)
    for path, record in pools.read_all(os.path.join(directory, "pools")).items():
        if not pools.is_stale(table, record):
            launches.kept.add(os.path.basename(path).removesuffix(pools.RECORD))
    return launches


def remove(directory: str, launches: Launches, *, is_clean: bool) -> list[str]:
    """Remove our files, except those of running launches and copies; return what is left."""
    # A launch that is on standby goes on by way of the script.
    kept = launches.kept | ({entry_script.NAME} if launches.living else set())
    places = [*_PLACES, _OWN, *(_LAST if is_clean else ())]
    for place in places:
        where = os.path.join(directory, place.name) if place.name else directory
        _empty(where, place, kept)
    for name in (*(place.name for place in places if place.name), ""):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(directory, name) if name else directory)
    return _list_left(directory)


def _empty(directory: str, place: _Place, kept: set[str]) -> None:
    for entry in _list_own(directory):
        launch = entry.name.lstrip(".").partition(".")[0]
        is_ours = place.files.fullmatch(entry.name) and launch not in kept
        if is_ours or write_file.is_abandoned(entry.name):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def _list_own(directory: str) -> list[os.DirEntry[str]]:
    """Return the user's files and sockets in a directory that is the user's and not a link."""
    try:
        if not stat.S_ISDIR(os.lstat(directory).st_mode) or not state.is_users(os.lstat(directory)):
            return []
        with os.scandir(directory) as entries:
            return [
                entry
                for entry in entries
                if _is_file_or_socket(status := entry.stat(follow_symlinks=False))
                and state.is_users(status)
            ]
    except OSError:
        return []  # there is none


def _is_file_or_socket(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISSOCK(status.st_mode)


def _list_left(directory: str) -> list[str]:
    found = []
    for here, directories, files in os.walk(directory):
        names = files if here == directory else files or ([] if directories else [""])
        found += [os.path.relpath(os.path.join(here, name), directory) for name in names]
    return sorted(found)
