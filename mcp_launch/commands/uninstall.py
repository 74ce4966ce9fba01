"""`mcp-launch uninstall`: unwrap every file, delete our state, say how to remove the program.

Only files that are provably ours, by name, type and owner, are removed; anything else in our
directories stays and is listed. Copies are removed last, and only if every file could be
unwrapped: until then they are needed to restore the files.
"""

from __future__ import annotations

import os
import shlex
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import state, system
from mcp_launch.commands import output, own_state
from mcp_launch.commands import wrap as wrap_command
from mcp_launch.commands.output import print_json
from mcp_launch.commands.wrap_report import WrapReport
from mcp_launch.config_files import (
    backups,
    planned_changes,
    replace_file,
    wrap,
    wrapped_files,
)
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.config_files.skip_reasons import OTHERWISE
from mcp_launch.errors import LaunchError
from mcp_launch.launch import profile_tables
from mcp_launch.machine import wrap_warnings
from mcp_launch.machine.survey import make_site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.config_files.planned_changes import Change, Entry


class _Outcome(NamedTuple):
    """What `uninstall` has done, or would do."""

    changes: list[Change]
    obstacles: list[str]  # why the program must not be removed yet
    gone: list[str]  # wrapped files that are missing, as the user was told
    is_removed: bool = False  # our state directory
    kept: tuple[str, ...] = ()  # what is left in it, relative to it


def run(
    environ: Mapping[str, str], *, is_sure: bool, is_dry: bool = False, is_json: bool = False
) -> int:
    """Unwrap all files and remove our state; return 1 if something is or would be left."""
    report = WrapReport(is_wrapping=False, is_json=is_json)
    report.is_dry = is_dry
    report.console.quiet = is_json and (is_sure or is_dry or not output.can_ask())
    directory = state.find_directory(environ)
    state.secure(directory)
    looked = _look(report, environ, directory)
    if is_dry:
        _show_obstacles(report, looked.obstacles)
        _announce(report, directory, is_clean=not (report.errors or looked.obstacles))
        report.say("Nothing was changed (--dry-run).")
        outcome: _Outcome | None = looked
    else:
        outcome = _undo(report, directory, looked, is_sure=is_sure)
        if outcome is not None:
            _conclude(report, environ, outcome)
    if is_json:
        _print_json(report, environ, outcome or looked)
    return 1 if outcome is not None and (outcome.obstacles or report.errors) else 0


def _look(report: WrapReport, environ: Mapping[str, str], directory: str) -> _Outcome:
    """Look at everything, and show what would change."""
    site = make_site(environ)
    everything = wrap_command.WrapRequest([], [], [], is_everywhere=True)
    files = wrap_command.list_files(everything, site, directory)
    changes, refusals, notes = _look_at_files(files, directory)
    for refused in refusals:
        report.refuse(refused)
    wanted = [change for change in changes if change.is_any]
    report.show_changes(wanted)
    notes += wrap_warnings.list_warnings(site, wanted, "")
    gone = [*wrapped_files.list_gone(directory), *wrapped_files.list_forgotten(directory)]
    for note in (*notes, *_describe_gone(directory, gone)):
        report.warn(note)
    launches = own_state.look_at_launches(system.open_table(), directory)
    obstacles = [*_describe_stuck(changes), *_describe_unreachable(directory)]
    obstacles += _describe_unrecorded(directory, changes, gone)
    obstacles += _describe_running(launches.living)
    return _Outcome(changes, obstacles, gone)


def _undo(
    report: WrapReport, directory: str, looked: _Outcome, *, is_sure: bool
) -> _Outcome | None:
    """Ask, unwrap and remove; return None if the user declined."""
    if not is_sure:  # otherwise they are shown at the end
        _show_obstacles(report, looked.obstacles)
    is_clean = not (report.errors or looked.obstacles)
    has_state = _announce(report, directory, is_clean=is_clean)
    changes = looked.changes
    wanted = [change for change in changes if change.is_any]
    if not wanted and not has_state:
        report.say("There is nothing to undo.")
    elif not output.is_agreed(
        report.console, _ask(len(wanted), has_state=has_state), is_sure=is_sure
    ):
        report.say("Nothing was changed.")
        return None
    gone = looked.gone
    if wanted:
        wrap_command.write(report, wanted, directory)
    _forget_gone(report, directory, gone)
    wrap_command.tidy(report, changes, directory)
    launches = own_state.look_at_launches(system.open_table(), directory)
    left = [*_describe_still_wrapped(changes), *_describe_unreachable(directory)]
    left += _describe_unrecorded(directory, changes, gone)
    if not (left or report.errors):
        recorded = wrapped_files.list_files(directory)
        left += [f"{file.path} is still recorded as wrapped" for _, file in recorded]
    is_clean = not (left or report.errors)
    kept: list[str] = []
    if os.path.isdir(directory):
        kept = own_state.remove(directory, launches, is_clean=is_clean)
        _show_removed(report, directory, kept, is_clean=is_clean and not launches.living)
    left += _describe_running(launches.living)
    return _Outcome(changes, left, gone, is_removed=has_state and not kept, kept=tuple(kept))


def _print_json(report: WrapReport, environ: Mapping[str, str], outcome: _Outcome) -> None:
    config = profile_tables.locate(environ)
    print_json(
        {
            "version": 1,
            "is_dry_run": report.is_dry,
            "changed": bool(report.written or outcome.is_removed),
            "files": report.describe_files(outcome.changes),
            "state": {
                "directory": state.find_directory(environ),
                "is_removed": outcome.is_removed,
                "kept": list(outcome.kept),
            },
            "profiles": config if os.path.lexists(config) else None,
            "obstacles": outcome.obstacles,
            "warnings": report.warnings,
            "errors": report.describe_errors(),
            "remove_program": choose_removal_command(),
        }
    )


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


def _forget_gone(report: WrapReport, directory: str, gone: list[str]) -> None:
    """Forget the files that are still missing, and remove their copies, as announced."""
    for path in replace_file.forget_gone(directory, gone):
        if copy := backups.drop(directory, path):
            report.say(f"Removed {copy}, a copy of {path}, which is gone")


def _describe_stuck(changes: list[Change]) -> Iterator[str]:
    """Return a line for each entry that starts mcp-launch and cannot be unwrapped."""
    for change in changes:
        for entry in change.entries:
            if entry.why_not and _names_us(entry.words):
                yield _describe_stuck_entry(change, entry, "starts mcp-launch")


def _describe_stuck_entry(change: Change, entry: Entry, what: str) -> str:
    where = f"{shlex.quote(entry.name)} in {change.file.path}"
    if entry.why_not == OTHERWISE:
        return f"{where} {what} through another program: change it by hand"
    return f"{where} {what}: {entry.why_not or 'it could not be unwrapped'}"


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


def _show_obstacles(report: WrapReport, obstacles: list[str]) -> None:
    for obstacle in obstacles:
        report.say(obstacle, "red")


def _announce(report: WrapReport, directory: str, *, is_clean: bool) -> bool:
    """Announce what will happen to our state; return False if there is none."""
    if not os.path.isdir(directory):
        return False
    if is_clean:
        kinds = "records of calls, logs, leases, handshakes, copies of files"
        plan = f"{directory} will be removed ({kinds})."
    else:
        plan = (
            f"Records of calls, logs, leases and handshakes in {directory} will be removed "
            "unless a launch needs them; copies of files stay until every file is unwrapped."
        )
    report.say(plan)
    return True


def _ask(count: int, *, has_state: bool) -> str:
    files = f"{count} file{'' if count == 1 else 's'}"
    if not has_state:
        return f"Unwrap {files}?"
    return f"Unwrap {files} and remove that?" if count else "Remove that?"


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
                yield _describe_stuck_entry(change, entry, "still starts mcp-launch")


def _names_us(words: list[str]) -> bool:
    return wrap.find_run(words) is not None


def _describe_running(living: set[str]) -> Iterator[str]:
    if living:
        are = "1 launch is" if len(living) == 1 else f"{len(living)} launches are"
        yield (
            f"{are} still running (mcp-launch ps): close those sessions, then run this again "
            "before you remove the program"
        )


def _show_removed(report: WrapReport, directory: str, kept: list[str], *, is_clean: bool) -> None:
    if not kept:
        report.say(f"Removed {directory}")
    elif is_clean:
        names = ", ".join(kept)
        report.say(f"{directory} stays, because these files may not be ours: {names}", "yellow")
    else:
        report.say(f"{directory} stays: some files in it are still needed", "yellow")


def _conclude(report: WrapReport, environ: Mapping[str, str], outcome: _Outcome) -> None:
    _show_obstacles(report, outcome.obstacles)
    config = profile_tables.locate(environ)
    if os.path.lexists(config):
        report.say(f"Your own profiles stay: {config}")
    if outcome.obstacles or report.errors:
        advice = "Do not remove mcp-launch yet: see above, then run mcp-launch uninstall again"
        report.say(advice, "red")
    else:
        report.say(f"To remove the program: {choose_removal_command()}")


def choose_removal_command(
    prefix: str = sys.prefix,
    executable: str = sys.executable,
    find_module: Callable[[str], object] = find_spec,
) -> str:
    """Return the command that removes the program, depending on how it was installed."""
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return "uv tool uninstall mcp-launch"
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return "pipx uninstall mcp-launch"
    python = shlex.quote(executable)
    if find_module("pip") is None:
        return f"uv pip uninstall --python {python} mcp-launch"
    return f"{python} -m pip uninstall mcp-launch"
