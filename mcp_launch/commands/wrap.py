"""`wrap` and `unwrap`: show what would change, ask, and write it."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch import state
from mcp_launch.commands import confirm
from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import (
    backups,
    diff,
    git_tracking,
    leftovers,
    planned_changes,
    replace_file,
    run_options,
    wrapped_files,
)
from mcp_launch.config_files.host_config import ANY_HOST, TRACKED, File, HostConfig
from mcp_launch.config_files.planned_changes import Change, Wish
from mcp_launch.config_files.site import Site
from mcp_launch.errors import FileRefused, LaunchError, UsageError, suggest, tell
from mcp_launch.hosts.configured import HOSTS, WRITTEN_IN
from mcp_launch.machine import installation, wrap_warnings
from mcp_launch.machine.survey import check_hosts, list_elsewhere, make_site

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from mcp_launch.config_files.replace_file import WrittenFile

_ANY_SERVERS = tuple(
    {
        servers: None
        for host in HOSTS.values()
        for file in host.list_files(Site("/", "/", {}))
        for servers in file.servers
        if servers
    }
)
_KINDS = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


class WrapRequest(NamedTuple):
    """What the user asked for."""

    names: list[str]
    hosts: list[str]
    files: list[str]
    is_sure: bool = False  # do not ask
    is_dry: bool = False  # only show
    options: tuple[str, ...] = ()  # options of `run` to write into the entries
    is_shared: bool = False  # also files that Git tracks
    is_everywhere: bool = False  # also every recorded file


def run(request: WrapRequest, environ: Mapping[str, str], *, is_wrapping: bool) -> int:
    """Wrap or unwrap, and return the exit code."""
    run_options.check([*request.options])
    site = make_site(environ)
    directory = state.find_directory(environ)
    state.secure(directory)
    console = Screen()
    launcher = installation.find(environ, site.home) if is_wrapping else ""
    refusals: list[LaunchError] = []
    files = list_files(request, site, directory)
    wish = Wish(launcher, tuple(request.names), request.options)
    changes = planned_changes.look_at_all(files, wish, refusals.append)
    changes = [_protect_tracked(change, request) for change in changes]
    if not is_wrapping and _is_about_all(request):
        refusals += wrapped_files.list_doubts(directory)
    for refused in refusals:
        tell(refused, sys.stderr)
    _check_names(request, files, changes)
    diff.show(console, changes, is_wrapping=is_wrapping)
    wanted = [change for change in changes if change.is_any]
    for warning in wrap_warnings.list_warnings(site, wanted, launcher):
        console.print(Text(f"Note: {warning}", "yellow"))
    is_declined = False
    if not wanted:
        console.print("There is nothing to change.")
    elif _is_agreed(console, request, wanted):
        refusals += write(console, wanted, directory)
    elif not request.is_dry:
        is_declined = True
        console.print("Nothing was changed.")
    if not is_wrapping:
        _tidy_as_asked(console, request, changes, directory, is_declined=is_declined)
        _show_still_wrapped(console, request, files, directory)
    elif not request.is_dry:
        _note_wrapped(changes, directory)
    return 1 if refusals else 0


def _is_about_all(request: WrapRequest) -> bool:
    return not (request.names or request.hosts or request.files)


def list_files(request: WrapRequest, site: Site, directory: str) -> list[tuple[HostConfig, File]]:
    """Return the files that a request concerns.

    Raises:
        UsageError: A host or file in the request does not exist.

    """
    check_hosts(request.hosts)
    known = [
        (host, file)
        for host in HOSTS.values()
        if not request.hosts or host.name in request.hosts
        for file in host.list_files(site)
    ]
    if request.files and request.is_everywhere:
        raise UsageError("--all and --file cannot be combined", fix="leave out one of them")
    if request.files:
        return [_find_file(path, known, directory) for path in request.files]
    found = [(host, file) for host, file in known if not file.is_outside]
    if request.is_everywhere:
        recorded = list_elsewhere(found, directory)
        found += [one for one in recorded if not request.hosts or one[0].name in request.hosts]
    return found


def _find_file(
    path: str, known: list[tuple[HostConfig, File]], directory: str
) -> tuple[HostConfig, File]:
    if os.path.realpath(path) in wrapped_files.list_gone(directory):
        raise UsageError(
            f"{path} was wrapped and is gone",
            fix="if you moved it, unwrap it where it is now: mcp-launch unwrap --file NEWPATH; "
            "if not, remove its record: mcp-launch unwrap --all",
        )
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path}", fix="check the path")
    for host, file in known:
        if os.path.realpath(file.path) == os.path.realpath(path):
            return host, file
    kind = _KINDS.get(os.path.splitext(path)[1], "json")
    host = WRITTEN_IN.get(kind, ANY_HOST)
    return host, File(path, "file", kind, _ANY_SERVERS)  # type: ignore[arg-type]


def _check_names(
    request: WrapRequest, files: list[tuple[HostConfig, File]], changes: list[Change]
) -> None:
    known = {entry.name for change in changes for entry in change.entries}
    for name in request.names:
        if name not in known:
            everything = planned_changes.look_at_all(files, Wish("", ()), lambda _: None)
            names = {entry.name for change in everything for entry in change.entries}
            raise UsageError(
                f"no file has a server named {name}",
                fix=f"{suggest(name, names)}mcp-launch wrap --dry-run lists them all",
            )


def _protect_tracked(change: Change, request: WrapRequest) -> Change:
    """Return the change, adapted if Git tracks the file, so that others get it, too.

    A path of this machine is of no use to them, and starting their servers through a launcher
    must be a deliberate decision. So such a file is wrapped only on request, and with the
    launcher's bare name. It can always be unwrapped.
    """
    is_asked_for = request.is_shared or bool(request.files)
    host, file, wish = change.host, change.file, change.wish
    if not wish.launcher or not (change.is_any or is_asked_for):
        return change
    if not git_tracking.is_tracked(file.path):
        return change
    if is_asked_for:
        return planned_changes.look(
            host, file, change.before, wish._replace(launcher=installation.NAME)
        )
    return planned_changes.look(host, file._replace(why_not=TRACKED), change.before, wish)


def _is_agreed(console: Console, request: WrapRequest, changes: list[Change]) -> bool:
    if request.is_dry:
        console.print("Nothing was changed (--dry-run).")
        return False
    count = len(changes)
    question = f"Change {count} file{'s' if count > 1 else ''}?"
    return confirm.is_agreed(console, question, is_sure=request.is_sure)


def write(console: Console, changes: list[Change], directory: str) -> list[LaunchError]:
    """Write every file that can be written; return the errors for the others."""
    refusals: list[LaunchError] = []
    is_any_changed = False
    for change in changes:
        host, file = change.host, change.file
        make = partial(_make, host, file, change.wish)  # from the text at that time
        try:
            written = replace_file.replace(host, file, make, directory)
        except LaunchError as error:
            refusals.append(error)
            continue
        if written is not None:
            is_any_changed = True
            for line in _describe_written(file, written):
                console.print(Text(line))
    for refused in refusals:
        tell(refused, sys.stderr)
    if is_any_changed:
        console.print("Restart running sessions to pick this up.")
    return refusals


def _make(host: HostConfig, file: File, wish: Wish, text: str) -> str:
    return planned_changes.look(host, file, text, wish).after


def _describe_written(file: File, written: WrittenFile) -> Iterator[str]:
    names = f" in place: it has {written.names} names (hard links)" if written.names > 1 else ""
    yield f"Changed {file.path}{names}"
    if written.copy:
        yield f"  a copy of the original is in {written.copy}"
    for copy in written.removed:
        yield f"  mcp-launch is not in it any more; removed its copy {copy}"


def _note_wrapped(changes: list[Change], directory: str) -> None:
    """Record files that were wrapped by hand, or before files were recorded."""
    for change in changes:
        if leftovers.is_wrapped_now(change.host, change.file):
            # Without a record, it can still be unwrapped from its own project.
            with contextlib.suppress(OSError, FileRefused), replace_file.keep_others_out(directory):
                wrapped_files.note(directory, change.host, change.file)


def _tidy_as_asked(
    console: Console,
    request: WrapRequest,
    changes: list[Change],
    directory: str,
    *,
    is_declined: bool,
) -> None:
    if not request.is_dry:
        tidy(console, changes, directory)
    # Missing files matter only to a user who unwraps everything.
    if not request.is_everywhere or not _is_about_all(request):
        return
    gone = wrapped_files.list_gone(directory)
    for path in gone:
        console.print(Text(f"Note: {replace_file.describe_gone(path)}", "yellow"))
    if request.is_dry or is_declined:
        return
    for path in replace_file.forget_gone(directory, gone):
        copy = backups.name_copy(directory, path)
        kept = f". A copy of the original stays in {copy}" if os.path.exists(copy) else ""
        note = f"Note: {path} will not be reported again unless it comes back{kept}"
        console.print(Text(note, "yellow"))


def tidy(console: Console, changes: list[Change], directory: str) -> None:
    """Remove the copies and records of files that are no longer wrapped, however that happened."""
    for change in changes:
        if not leftovers.is_free_now(change.host, change.file):
            continue
        if copy := replace_file.let_go(change.file, directory):
            console.print(Text(f"Removed {copy}, a copy of {change.file.path}"))
        old = os.path.realpath(change.file.path) + replace_file.OLD_COPY
        if os.path.lexists(old):
            note = f"Note: {old} is a copy made by mcp-launch 0.1.0, and may differ from the file. "
            console.print(Text(f"{note}Compare them, then remove the copy", "yellow"))


def _show_still_wrapped(
    console: Console, request: WrapRequest, files: list[tuple[HostConfig, File]], directory: str
) -> None:
    """Show which files elsewhere are still wrapped, if the user asked to unwrap everything."""
    if not _is_about_all(request) or request.is_everywhere:
        return
    elsewhere = list_elsewhere(files, directory)
    left = [file.path for host, file in elsewhere if leftovers.is_wrapped_now(host, file)]
    if left:
        count = "1 other file is" if len(left) == 1 else f"{len(left)} other files are"
        note = f"{count} still wrapped: {', '.join(left)}. To unwrap everything: "
        console.print(Text(f"{note}mcp-launch unwrap --all", "yellow"))
