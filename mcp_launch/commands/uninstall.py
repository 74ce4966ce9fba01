"""`mcp-launch uninstall`: unwrap every file, delete our state, say how to remove the program.

The state is deleted only if no file is wrapped any more, no launch is running, and all that is in
its directory has names of ours: MCP_LAUNCH_HOME can be any directory, even the home. What is in the
way is named, and everything stays until it is out of the way: the copies of files are in there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mcp_launch import state, system
from mcp_launch.commands import output
from mcp_launch.commands.app import Dry, Json, Yes, app
from mcp_launch.commands.output import print_json
from mcp_launch.errors import InFile, LaunchError, name_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.commands.edit_files import Edited, EditReport

# How many files that are not ours are named.
_NAMED = 5


@app.command("uninstall")
def uninstall(*, yes: Yes = False, dry_run: Dry = False, as_json: Json = False) -> int:
    """Remove mcp-launch from every host's file and delete its state, but not the program itself.

    Exit code: 0, or 1 if something is in the way (with --dry-run: would be).

    \b
    Examples:
      mcp-launch uninstall --dry-run   what would be unwrapped and removed
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import edit_files
    from mcp_launch.launch import profile_tables

    directory = state.find_directory(os.environ)
    request = edit_files.EditRequest(
        [], [], [], is_sure=yes, is_dry=dry_run, is_everywhere=True, is_json=as_json
    )
    edited = edit_files.edit(request)
    report = edited.report
    obstacles = list(_list_obstacles(edited, directory))
    if not dry_run:
        obstacles += _list_still_wrapped(directory)
    is_removed = False
    if os.path.isdir(directory) and not obstacles:
        for path, copy in _list_last_copies(directory):
            report.warn(f"{path} was wrapped and is gone; so will be {copy}, its copy")
        what = f"{directory} (records of calls, logs, leases, handshakes, copies of files)"
        if dry_run:
            report.say(f"{what} would be removed.")
        elif output.is_agreed(report.console, f"Remove {what}?", is_sure=yes):
            obstacles += _remove(directory)
            is_removed = not obstacles
            if is_removed:
                report.say(f"Removed {directory}")
    config = profile_tables.locate(os.environ)
    _conclude(report, config, obstacles)
    if as_json:
        found = edit_files.describe(request, edited)
        print_json(
            {
                **found,
                "changed": found["changed"] or is_removed,
                "state": {"directory": directory, "is_removed": is_removed},
                "profiles": config if os.path.lexists(config) else None,
                "obstacles": obstacles,
                "remove_program": choose_removal_command(),
            }
        )
    return 1 if obstacles else 0


def _conclude(report: EditReport, config: str, obstacles: list[str]) -> None:
    for obstacle in obstacles:
        report.say(obstacle, "red")
    if os.path.lexists(config):
        report.say(f"Your own profiles stay: {config}")
    if obstacles:
        advice = "Do not remove mcp-launch yet: see above, then run mcp-launch uninstall again"
        report.say(advice, "red")
    else:
        report.say(f"To remove the program: {choose_removal_command()}")


def _list_obstacles(edited: Edited, directory: str) -> Iterator[str]:
    """Return what is in the way of removing our state, whether or not the files are unwrapped."""
    from mcp_launch.config_files import backups, wrap, wrapped_files
    from mcp_launch.config_files.skip_reasons import OTHERWISE
    from mcp_launch.state import leases, pools

    for error in edited.report.errors:
        if _may_name_us(error):
            yield f"{error.problem}. {error.fix}"
    for change in edited.changes:
        for entry in change.entries:
            if entry.why_not and wrap.find_run(entry.words) is not None:
                by_hand = ": change it by hand" if entry.why_not == OTHERWISE else ""
                where = f"{shlex.quote(entry.name)} in {change.file.path}"
                yield f"{where} starts mcp-launch, {entry.why_not}{by_hand}"
    known = {os.path.realpath(change.file.path) for change in edited.changes}
    known |= {os.path.realpath(file.path) for _, file in wrapped_files.list_files(directory)}
    known |= {*wrapped_files.list_gone(directory)}
    copies = {backups.name_copy(directory, path) for path in known}
    for copy in {*backups.list_copies(directory)} - copies:
        yield (
            f"{copy} is a copy of a wrapped file that is not recorded. If that file is still "
            "wrapped, run mcp-launch unwrap --file FILE; if not, remove the copy"
        )
    table = system.open_table()
    launches = leases.read_all(f"{directory}/leases").values()
    shared = pools.read_all(f"{directory}/pools").values()
    left = [one for one in launches if not leases.is_stale(table, one)]
    left += [one for one in shared if not pools.is_stale(table, one)]
    if left:
        are = "1 launch is" if len(left) == 1 else f"{len(left)} launches are"
        yield (
            f"{are} still running (mcp-launch ps): close those sessions, then run this again "
            "before you remove the program"
        )
    if foreign := _list_foreign(directory):
        more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
        yield (
            f"{directory} stays, because this may not be of mcp-launch: "
            f"{', '.join(foreign[:_NAMED])}{more}. Move it away, or remove the directory yourself"
        )


def _may_name_us(error: LaunchError) -> bool:
    """Return whether an error is about a file that may start us; a recorded one counts anyway."""
    from mcp_launch.config_files import planned_changes

    path = error.path if isinstance(error, InFile) else ""
    try:
        return not path or "mcp-launch" in planned_changes.read_file(path)
    except LaunchError:
        return False  # nothing indicates that we changed it


def _list_last_copies(directory: str) -> Iterator[tuple[str, str]]:
    """Return the wrapped files that are gone, each with its copy."""
    from mcp_launch.config_files import backups, wrapped_files

    for path in wrapped_files.list_gone(directory):
        copy = backups.name_copy(directory, path)
        if os.path.lexists(copy):
            yield path, copy


def _list_still_wrapped(directory: str) -> Iterator[str]:
    from mcp_launch.config_files import wrapped_files

    for _, file in wrapped_files.list_files(directory):
        if not wrapped_files.is_gone(os.path.realpath(file.path)):
            yield f"{file.path} is still wrapped, or cannot be read"


def _name_ours() -> re.Pattern[str]:
    """Return what there may be in our state directory, by its path in there."""
    from mcp_launch.config_files import backups, entry_script
    from mcp_launch.launch import profile_tables
    from mcp_launch.state import calls

    return re.compile(
        "|".join(
            (
                r"leases(/[0-9a-f]{16,40}\.json)?",
                r"logs(/[0-9a-f]{16,40}\.log(\.1)?)?",
                r"handshakes(/[0-9a-f]{32}-[0-9a-f]{16}\.jsonl)?",
                r"runners(/[0-9a-f]{16})?",
                r"pools(/[0-9a-f]{4,64}\.(json|sock|lock))?",
                rf"calls(/{calls.NAME})?",
                r"exports(/[0-9a-f]{16}\.json)?",
                r"nowhere",  # where Codex lists tools
                rf"backups(/{backups.NAME.pattern})?",
                r"([a-z]+/)?\.mcp-launch-draft-\d+-[0-9a-f]{32}",
                r"crash-\d+\.txt|wrap\.lock|wrapped\.json",
                re.escape(profile_tables.KEPT),
                re.escape(entry_script.NAME),
            )
        ),
        re.DOTALL,
    )


def _list_foreign(directory: str) -> list[str]:
    """Return what may not be ours, relative to our state directory."""
    if os.path.isdir(directory) and not state.is_users(os.stat(directory)):
        return [directory]
    found, ours = [], _name_ours()
    for here, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = os.path.relpath(os.path.join(here, name), directory)
            if not ours.fullmatch(path):
                found.append(path)
                directories[:] = [one for one in directories if one != name]
    return sorted(found)


def _remove(directory: str) -> Iterator[str]:
    """Remove our state directory; return why that failed."""
    from mcp_launch.config_files import entry_script

    try:
        # The script comes last: an entry that nobody knows of may name it.
        for name in sorted(os.listdir(directory), key=lambda name: name == entry_script.NAME):
            path = os.path.join(directory, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        os.rmdir(directory)
    except OSError as error:
        yield f"{directory} could not be removed: {name_reason(error)}"


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
