"""`mcp-launch uninstall`: unwrap every file, delete our state, say how to remove the program.

Only files that are provably ours, by name, type and owner, are removed; anything else in our
directories stays and is listed. Copies are removed last, and only if every file could be
unwrapped: until then they are needed to restore the files.
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

from mcp_launch import state, system
from mcp_launch.commands import confirm
from mcp_launch.commands import wrap as wrap_command
from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import (
    backups,
    diff,
    planned_changes,
    replace_file,
    wrap,
    wrapped_files,
    write_file,
)
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.errors import LaunchError, tell
from mcp_launch.launch import profile
from mcp_launch.machine import wrap_warnings
from mcp_launch.machine.survey import make_site
from mcp_launch.state import leases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.config_files.planned_changes import Change
    from mcp_launch.system import ProcessTable


class _Place(NamedTuple):
    """A directory of ours, and the names of our files in it."""

    name: str  # below our state directory; empty: that directory itself
    files: re.Pattern[str]


# The drafts among these are an earlier version's; today's are called the same everywhere.
_LAUNCH = r"[0-9a-f]{16,40}"
_DRAFT = r"draft-[0-9a-f]{32}"

_PLACES = (
    _Place("leases", re.compile(rf"{_LAUNCH}\.json|\.{_LAUNCH}\.json\.\d+")),
    _Place("logs", re.compile(rf"{_LAUNCH}\.log(\.1)?")),
    _Place("profiles", re.compile(r"[0-9a-f]{8,64}\.json|tmp[a-z0-9_]{8}")),
    _Place("handshakes", re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}\.jsonl")),
    _Place("runners", re.compile(r"[0-9a-f]{16}")),
    _Place("nowhere", re.compile(r"(?!)")),  # where Codex lists tools: nothing of ours is in it
)
_OWN = _Place("", re.compile(r"crash-\d+\.txt"))
_LAST = (
    _Place("backups", backups.NAME),
    _Place("", re.compile(rf"wrap\.lock|wrapped\.json(\.unreadable|\.{_DRAFT})?")),
)


def run(environ: Mapping[str, str], *, is_sure: bool, is_dry: bool = False) -> int:
    """Unwrap all files and remove our state; return 1 if something is left."""
    console = Screen()
    site, directory = make_site(environ), state.find_directory(environ)
    state.secure(directory)
    everything = wrap_command.WrapRequest([], [], [], is_everywhere=True)
    files = wrap_command.list_files(everything, site, directory)
    changes, refusals, notes = _look_at_files(files, directory)
    for refused in refusals:
        tell(refused, sys.stderr)
    wanted = [change for change in changes if change.is_any]
    diff.show(console, wanted, is_wrapping=False)
    notes += wrap_warnings.list_warnings(site, wanted, "")
    gone = [*wrapped_files.list_gone(directory), *wrapped_files.list_forgotten(directory)]
    notes += _describe_gone(directory, gone)
    for note in notes:
        console.print(Text(f"Note: {note}", "yellow"))
    launches = _look_at_launches(system.open_table(), directory)
    obstacles = [*_describe_stuck(changes), *_describe_unreachable(directory)]
    obstacles += _describe_unrecorded(directory, changes, gone)
    obstacles += _describe_running(launches.living)
    if is_dry or not is_sure:  # otherwise they are shown at the end
        _show_obstacles(console, obstacles)
    has_state = _announce(console, directory, is_clean=not (refusals or obstacles))
    if is_dry:
        console.print("Nothing was changed (--dry-run).")
        return 0
    if not wanted and not has_state:
        console.print("There is nothing to undo.")
    elif not confirm.is_agreed(console, _ask(len(wanted), has_state=has_state), is_sure=is_sure):
        console.print("Nothing was changed.")
        return 0
    if wanted:
        refusals += wrap_command.write(console, wanted, directory)
    _forget_gone(console, directory, gone)
    wrap_command.tidy(console, changes, directory)
    launches = _look_at_launches(system.open_table(), directory)
    left = [*_describe_still_wrapped(changes), *_describe_unreachable(directory)]
    left += _describe_unrecorded(directory, changes, gone)
    is_clean = not (left or refusals or [*wrapped_files.list_files(directory)])
    if os.path.isdir(directory):
        _remove_state(console, directory, launches, is_clean=is_clean)
    left += _describe_running(launches.living)
    return _conclude(console, environ, left, is_done=is_clean)


class _Looked(NamedTuple):
    """What was found in the hosts' files."""

    changes: list[Change]
    refusals: list[LaunchError]  # files that may be wrapped but cannot be read
    notes: list[str]  # about other files that cannot be read


def _look_at_files(files: list[tuple[HostConfig, File]], directory: str) -> _Looked:
    looked = _Looked([], [], [])
    recorded = {os.path.realpath(file.path) for _, file in wrapped_files.list_files(directory)}
    for host, file in files:
        refusals: list[LaunchError] = []
        looked.changes.extend(
            planned_changes.look_at_all([(host, file)], Wish(""), refusals.append)
        )
        path = os.path.realpath(file.path)
        has_copy = os.path.lexists(backups.name_copy(directory, path))
        if path in recorded or has_copy or _mentions_us(path):
            looked.refusals.extend(refusals)
        else:
            looked.notes.extend(
                f"{refused.problem}. mcp-launch has not changed this file, so it is skipped"
                for refused in refusals
            )
    return looked


def _mentions_us(path: str) -> bool:
    """Return whether a file may have been wrapped by hand, or before files were recorded."""
    try:
        return "mcp-launch" in planned_changes.read_file(path)
    except LaunchError:
        return False  # unknown; nothing of ours indicates that we changed it


def _describe_gone(directory: str, gone: list[str]) -> Iterator[str]:
    for path in gone:
        copy = backups.name_copy(directory, path)
        also = f" and its copy {copy} will be removed" if os.path.lexists(copy) else ""
        yield f"{replace_file.describe_gone(path)}. Otherwise its record{also} will be removed"


def _forget_gone(console: Console, directory: str, gone: list[str]) -> None:
    """Forget the files that are still missing, and remove their copies, as announced."""
    for path in replace_file.forget_gone(directory, gone):
        if copy := backups.drop(directory, path):
            console.print(Text(f"Removed {copy}, a copy of {path}, which is gone"))


def _describe_stuck(changes: list[Change]) -> Iterator[str]:
    """Return a line for each entry that starts mcp-launch and cannot be unwrapped."""
    for change in changes:
        for entry in change.entries:
            if entry.why_not and _names_us(entry.words):
                yield f"{entry.name} in {change.file.path} starts mcp-launch: {entry.why_not}"


def _describe_unreachable(directory: str) -> Iterator[str]:
    """Return a line for each recorded file in a directory that we may not enter."""
    for _, file in wrapped_files.list_files(directory):
        if not os.path.exists(file.path) and not wrapped_files.is_gone(os.path.realpath(file.path)):
            yield f"{file.path} was wrapped and cannot be reached: make its directory accessible"


def _describe_unrecorded(directory: str, changes: list[Change], gone: list[str]) -> Iterator[str]:
    """Return a line for each sign that files without a record may be wrapped."""
    for doubt in wrapped_files.list_doubts(directory):
        yield f"{doubt.problem}. {doubt.fix}"
    recorded = [file for _, file in wrapped_files.list_files(directory)]
    known = {os.path.realpath(file.path) for file in (*recorded, *(one.file for one in changes))}
    copies = {backups.name_copy(directory, path) for path in (*known, *gone)}
    for copy in backups.list_copies(directory):
        if copy not in copies:
            yield (
                f"{copy} is a copy of a wrapped file that is not recorded. If that file is still "
                "wrapped, run mcp-launch unwrap --file FILE; if not, remove the copy"
            )


def _show_obstacles(console: Console, obstacles: list[str]) -> None:
    for obstacle in obstacles:
        console.print(Text(obstacle, "red"))


def _announce(console: Console, directory: str, *, is_clean: bool) -> bool:
    """Announce what will happen to our state; return False if there is none."""
    if not os.path.isdir(directory):
        return False
    if is_clean:
        plan = f"{directory} will be removed (logs, leases, handshakes, trust, copies of files)."
    else:
        plan = (
            f"Logs, leases, handshakes and trust in {directory} will be removed unless a launch "
            "needs them; copies of files stay until every file is unwrapped."
        )
    console.print(Text(plan))
    return True


def _ask(count: int, *, has_state: bool) -> str:
    files = f"{count} file{'' if count == 1 else 's'}"
    if not has_state:
        return f"Unwrap {files}?"
    return f"Unwrap {files} and remove that?" if count else "Remove that?"


class _Launches(NamedTuple):
    """The launches that have leases."""

    living: set[str]  # one of their processes is running
    kept: set[str]  # those, and all that are not provably over


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


def _describe_still_wrapped(changes: list[Change]) -> Iterator[str]:
    """Return a line for each entry that still starts mcp-launch."""
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


def _describe_running(living: set[str]) -> Iterator[str]:
    if living:
        are = "1 launch is" if len(living) == 1 else f"{len(living)} launches are"
        yield (
            f"{are} still running (mcp-launch ps): close those sessions, then run this again "
            "before you remove the program"
        )


def _remove_state(console: Console, directory: str, launches: _Launches, *, is_clean: bool) -> None:
    """Remove our files, except those of running launches and copies that may be needed."""
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
        why = f"{directory} stays, because these files may not be ours: {', '.join(left)}"
        console.print(Text(why, "yellow"))
    else:
        console.print(Text(f"{directory} stays: some files in it are still needed", "yellow"))


def _empty(directory: str, place: _Place, kept: set[str]) -> None:
    for entry in _list_own(directory):
        launch = entry.name.lstrip(".").partition(".")[0]
        is_ours = place.files.fullmatch(entry.name) and launch not in kept
        if is_ours or write_file.is_abandoned(entry.name):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def _list_own(directory: str) -> list[os.DirEntry[str]]:
    """Return the user's regular files in a directory that is the user's and not a link."""
    try:
        if not stat.S_ISDIR(os.lstat(directory).st_mode) or not state.is_users(os.lstat(directory)):
            return []
        with os.scandir(directory) as entries:
            return [
                entry
                for entry in entries
                if entry.is_file(follow_symlinks=False)
                and state.is_users(entry.stat(follow_symlinks=False))
            ]
    except OSError:
        return []  # there is none


def _list_left(directory: str) -> list[str]:
    found = []
    for here, directories, files in os.walk(directory):
        names = files if here == directory else files or ([] if directories else [""])
        found += [os.path.relpath(os.path.join(here, name), directory) for name in names]
    return sorted(found)


def _conclude(
    console: Console, environ: Mapping[str, str], left: list[str], *, is_done: bool
) -> int:
    for problem in left:
        console.print(Text(problem, "red"))
    config = profile.locate_user_file(environ)
    if os.path.lexists(config):
        console.print(Text(f"Your own profiles stay: {config}"))
    if left or not is_done:
        advice = "Do not remove mcp-launch yet: see above, then run mcp-launch uninstall again"
        console.print(Text(advice, "red"))
        return 1
    console.print(Text(f"To remove the program: {choose_removal_command()}"))
    return 0


def choose_removal_command(prefix: str = sys.prefix, executable: str = sys.executable) -> str:
    """Return the command that removes the program, depending on how it was installed."""
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return "uv tool uninstall mcp-launch"
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return "pipx uninstall mcp-launch"
    python = shlex.quote(executable)
    if find_spec("pip") is None:
        return f"uv pip uninstall --python {python} mcp-launch"
    return f"{python} -m pip uninstall mcp-launch"
