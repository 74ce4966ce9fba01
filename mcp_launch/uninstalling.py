"""`mcp-launch uninstall`: out of every file, then our own state, then how to remove the program.

Nothing is removed that is not known to be ours by its name, its kind and its owner; what else
lies in our directories stays, and is named. Copies go last, and only when every file could be
unwrapped: until then they are the way back.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch import asking, consequences, editing, state, system
from mcp_launch.config_files import backups, diff, planned_changes, wrap
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.errors import LaunchError, tell
from mcp_launch.launch import profile_files
from mcp_launch.screen import Screen
from mcp_launch.state import leases, wrapped_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from mcp_launch.config_files.planned_changes import Change
    from mcp_launch.system import ProcessTable


class _Place(NamedTuple):
    """A directory of ours, and what files of ours are called in it."""

    name: str  # below our state directory; empty: that directory itself
    files: re.Pattern[str]


_LAUNCH = r"[0-9a-f]{16,40}"
_DRAFT = r"draft-[0-9a-f]{32}"

_PLACES = (
    _Place("leases", re.compile(rf"{_LAUNCH}\.json|\.{_LAUNCH}\.json\.\d+")),
    _Place("logs", re.compile(rf"{_LAUNCH}\.log(\.1)?")),
    _Place("profiles", re.compile(r"[0-9a-f]{8,64}\.json|tmp[a-z0-9_]{8}")),
    _Place("nowhere", re.compile(r"(?!)")),  # where Codex lists tools: nothing of ours is in it
)
_OWN = _Place("", re.compile(r"crash-\d+\.txt"))
_LAST = (
    _Place("backups", backups.NAME),
    _Place("", re.compile(rf"wrap\.lock|wrapped\.json(\.unreadable|\.{_DRAFT})?")),
)


def run(environ: Mapping[str, str], *, is_sure: bool, is_dry: bool = False) -> int:
    """Unwrap everything, remove our state, say how to remove the rest; 1 if something is left."""
    console = Screen()
    site, directory = editing.make_site(environ), state.find_directory(environ)
    everything = editing.Request([], [], [], is_everywhere=True)
    files = editing.list_files(everything, site, directory)
    refusals: list[LaunchError] = []
    changes = planned_changes.look_at_all(files, Wish(""), refusals.append)
    for refused in refusals:
        tell(refused, sys.stderr)
    wanted = [change for change in changes if change.is_any]
    diff.show(console, wanted, is_wrapping=False)
    for warning in consequences.list_warnings(site, wanted, ""):
        console.print(Text(f"Note: {warning}", "yellow"))
    console.print(Text(f"What mcp-launch keeps in {directory} is removed (logs, leases, trust)."))
    if is_dry:
        console.print("Nothing was changed (--dry-run).")
        return 0
    count = f"{len(wanted)} file{'' if len(wanted) == 1 else 's'}"
    if not asking.is_agreed(console, f"Unwrap {count} and remove all that?", is_sure=is_sure):
        console.print("Nothing was changed.")
        return 0
    if wanted:
        refusals += editing.write(console, wanted, directory)
    editing.tidy(console, changes, directory)
    launches = _look_at_launches(system.open_table(), directory)
    recorded = [file.path for _, file in wrapped_files.list_files(directory)]
    stays = list(_tell_still_wrapped(changes))
    stays += [
        f"{path} was wrapped, and is not there now" for path in recorded if not os.path.exists(path)
    ]
    is_clean = not (stays or refusals or recorded)
    _remove_state(console, directory, launches, is_clean=is_clean)
    stays += _tell_living(launches.living)
    return _conclude(console, environ, stays, is_done=is_clean)


class _Launches(NamedTuple):
    """What the leases say, as far as it matters here."""

    living: set[str]  # a process of theirs is there
    kept: set[str]  # those, and whatever is not proven dead


def _look_at_launches(table: ProcessTable, directory: str) -> _Launches:
    launches = _Launches(set(), set())
    for path, record in leases.read_all(os.path.join(directory, "leases")).items():
        launch = os.path.basename(path).removesuffix(".json")
        if not leases.is_stale(table, record):
            launches.kept.add(launch)
        parts = record.get("processes")
        recorded = parts.values() if isinstance(parts, dict) else ()
        if launch in launches.kept and "same" in [leases.judge(table, one) for one in recorded]:
            launches.living.add(launch)
    return launches


def _tell_still_wrapped(changes: list[Change]) -> Iterator[str]:
    """Name the entries that will not start without us."""
    for change in changes:
        if not change.is_any and not any(_names_us(entry.words) for entry in change.entries):
            continue
        try:
            now = planned_changes.look(
                change.host, change.file, planned_changes.read_file(change.file.path), Wish("")
            )
        except LaunchError as error:
            yield error.problem
            continue
        for entry in now.entries:
            if _names_us(entry.words):
                why = entry.why_not or "it could not be unwrapped"
                yield f"{entry.name} in {change.file.path} still starts mcp-launch: {why}"


def _names_us(words: list[str]) -> bool:
    return wrap.find_run(words) is not None


def _tell_living(living: set[str]) -> Iterator[str]:
    if living:
        are = "1 launch is" if len(living) == 1 else f"{len(living)} launches are"
        yield (
            f"{are} still running (mcp-launch ps): close those sessions, then run this again "
            "before you remove the program"
        )


def _remove_state(console: Console, directory: str, launches: _Launches, *, is_clean: bool) -> None:
    """Remove what is ours, but nothing of the living, and no copy that may be needed."""
    places = [*_PLACES, _OWN, *(_LAST if is_clean else ())]
    for place in places:
        where = os.path.join(directory, place.name) if place.name else directory
        _empty(where, place, launches.kept)
    for name in (*(place.name for place in places if place.name), ""):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(directory, name) if name else directory)
    left = _list_left(directory)
    if not left:
        console.print(Text(f"Removed {directory}"))
    elif is_clean and not launches.living:
        told = f"{directory} stays: these are not known to be needless: {', '.join(left)}"
        console.print(Text(told, "yellow"))
    else:
        console.print(Text(f"{directory} stays, with what is still needed", "yellow"))


def _empty(directory: str, place: _Place, kept: set[str]) -> None:
    for entry in _list_own(directory):
        launch = entry.name.lstrip(".").partition(".")[0]
        if place.files.fullmatch(entry.name) and launch not in kept:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def _list_own(directory: str) -> list[os.DirEntry[str]]:
    """Return the plain files of this user in a directory that is this user's, and no link."""
    try:
        if not stat.S_ISDIR(os.lstat(directory).st_mode) or not _is_own(os.lstat(directory)):
            return []
        with os.scandir(directory) as entries:
            return [
                entry
                for entry in entries
                if entry.is_file(follow_symlinks=False)
                and _is_own(entry.stat(follow_symlinks=False))
            ]
    except OSError:
        return []  # there is none


def _is_own(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _list_left(directory: str) -> list[str]:
    found = []
    for here, directories, files in os.walk(directory):
        names = files if here == directory else files or ([] if directories else [""])
        found += [os.path.relpath(os.path.join(here, name), directory) for name in names]
    return sorted(found)


def _conclude(
    console: Console, environ: Mapping[str, str], stays: list[str], *, is_done: bool
) -> int:
    for problem in stays:
        console.print(Text(problem, "red"))
    config = profile_files.locate_user_file(environ)
    if os.path.lexists(config):
        console.print(Text(f"Your own profiles stay: {config}"))
    if stays or not is_done:
        told = "mcp-launch is not to be removed yet: see above, then run mcp-launch uninstall again"
        console.print(Text(told, "red"))
        return 1
    console.print(Text(f"To remove the program: {tell_how_to_remove()}"))
    return 0


def tell_how_to_remove(prefix: str = sys.prefix, executable: str = sys.executable) -> str:
    """Return the command that removes the program, as it was installed."""
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return "uv tool uninstall mcp-launch"
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return "pipx uninstall mcp-launch"
    python = shlex.quote(executable)
    if find_spec("pip") is None:
        return f"uv pip uninstall --python {python} mcp-launch"
    return f"{python} -m pip uninstall mcp-launch"
