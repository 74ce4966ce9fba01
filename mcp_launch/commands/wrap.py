"""`wrap` and `unwrap`: show what would change, ask, and write it."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import state
from mcp_launch.commands import output
from mcp_launch.commands.output import print_json
from mcp_launch.commands.wrap_report import WrapReport
from mcp_launch.config_files import (
    backups,
    entry_script,
    git_tracking,
    planned_changes,
    replace_file,
    run_options,
    wrapped_files,
)
from mcp_launch.config_files import wrap as wrap_entry
from mcp_launch.config_files.host_config import ANY_HOST, PERHAPS_TRACKED, TRACKED, File, HostConfig
from mcp_launch.config_files.planned_changes import Change, Wish
from mcp_launch.config_files.site import Site
from mcp_launch.errors import FileRefused, LaunchError, UsageError, suggest
from mcp_launch.hosts.configured import HOSTS, WRITTEN_IN
from mcp_launch.launch import options, profile, sharing
from mcp_launch.machine import installation, wrap_warnings
from mcp_launch.machine.survey import check_hosts, list_elsewhere, list_known_files, make_site

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    is_everywhere: bool = False  # also every recorded file
    is_verbose: bool = False  # name every skipped server
    is_json: bool = False

    @property
    def is_about_all(self) -> bool:
        """Whether it is not narrowed to some servers, hosts or files."""
        return not (self.names or self.hosts or self.files)


class Edited(NamedTuple):
    """What was found in the files and, unless it was a dry run or declined, written."""

    report: WrapReport
    changes: list[Change]
    still_wrapped: list[str]  # files elsewhere


def run(request: WrapRequest, environ: Mapping[str, str], *, is_wrapping: bool) -> int:
    """Wrap or unwrap, and return the exit code."""
    edited = edit(request, environ, is_wrapping=is_wrapping)
    if request.is_json:
        _print_json(*edited)
    return 1 if edited.report.errors else 0


def edit(request: WrapRequest, environ: Mapping[str, str], *, is_wrapping: bool) -> Edited:
    """Show what would change, ask, and write it."""
    run_options.check([*request.options])
    site = make_site(environ)
    directory = state.find_directory(environ)
    state.secure(directory)
    report = _open_report(request, is_wrapping=is_wrapping)
    program = installation.find(environ, site.home) if is_wrapping else ""
    launcher = entry_script.locate(directory) if is_wrapping else ""
    files = list_files(request, site, directory)
    wish = Wish(launcher, tuple(request.names), request.options)
    changes = planned_changes.look_at_all(files, wish, report.refuse)
    changes = [_protect_tracked(change, request) for change in changes]
    if not is_wrapping and request.is_about_all:
        try:
            wrapped_files.check(directory)
        except FileRefused as refused:
            report.refuse(refused)
    _check_names(request, files, changes)
    wanted = [change for change in changes if change.is_any]
    _refuse_contradictions(wanted, environ)
    _show(report, changes, files)
    for warning in wrap_warnings.list_warnings(site, wanted, program):
        report.warn(warning)
    is_agreed = bool(wanted) and _is_agreed(report, request, wanted)
    if is_wrapping and not request.is_dry and (is_agreed or _names(changes, launcher)):
        is_agreed = _install_script(report, directory) and is_agreed
    if is_agreed:
        write(report, wanted, directory)
    still_wrapped: list[str] = []
    if not is_wrapping:
        _tidy_as_asked(report, request, changes, directory)
        still_wrapped = _show_still_wrapped(report, request, files, directory)
    elif not request.is_dry:
        _note_wrapped(changes, directory)
    return Edited(report, changes, still_wrapped)


def _names(changes: list[Change], launcher: str) -> bool:
    """Return whether an entry has this launcher already."""
    return any(entry.words[:1] == [launcher] for change in changes for entry in change.entries)


def _install_script(report: WrapReport, directory: str) -> bool:
    """Write the script that entries start, unless it is up to date; return False if it failed."""
    try:
        if entry_script.install(directory):
            report.say(f"Wrote {entry_script.locate(directory)}, which wrapped entries start")
    except FileRefused as error:
        report.refuse(error)
        return False
    return True


def _open_report(request: WrapRequest, *, is_wrapping: bool) -> WrapReport:
    report = WrapReport(
        is_wrapping=is_wrapping, is_verbose=request.is_verbose, is_json=request.is_json
    )
    report.is_dry = request.is_dry
    is_asked = output.can_ask() and not (request.is_sure or request.is_dry)
    report.console.quiet = request.is_json and not is_asked
    return report


def _show(report: WrapReport, changes: list[Change], files: list[tuple[HostConfig, File]]) -> None:
    report.show_changes(changes)
    if any(change.entries for change in changes):
        report.show_skipped(changes)
    else:
        report.show_where(files)


def _print_json(report: WrapReport, changes: list[Change], still_wrapped: list[str]) -> None:
    document = {
        "version": 1,
        "is_dry_run": report.is_dry,
        "changed": bool(report.written),
        "files": report.describe_files(changes),
        "warnings": report.warnings,
        "errors": report.describe_errors(),
    }
    if not report.is_wrapping:
        document["still_wrapped"] = still_wrapped
    print_json(document)


def list_files(request: WrapRequest, site: Site, directory: str) -> list[tuple[HostConfig, File]]:
    """Return the files that a request concerns.

    Raises:
        UsageError: A host or file in the request does not exist.

    """
    check_hosts(request.hosts)
    wanted = [host for host in HOSTS.values() if not request.hosts or host.name in request.hosts]
    known = list_known_files(wanted, site)
    if request.files and request.is_everywhere:
        raise UsageError("--all and --file cannot be combined", fix="leave out one of them")
    if request.files:
        return [_find_file(path, known, directory) for path in request.files]
    found = [(host, file) for host, file in known if not file.is_outside]
    if request.is_everywhere:
        recorded = list_elsewhere(found, directory)
        found += [one for one in recorded if not request.hosts or one[0].name in request.hosts]
    once: dict[tuple[str, str], tuple[HostConfig, File]] = {}  # the project may be the home
    for host, file in found:
        once.setdefault((host.name, os.path.realpath(file.path)), (host, file))
    return list(once.values())


def _find_file(
    path: str, known: list[tuple[HostConfig, File]], directory: str
) -> tuple[HostConfig, File]:
    if os.path.realpath(path) in wrapped_files.list_gone(directory):
        raise UsageError(
            f"{path} was wrapped and is gone",
            fix="if you moved it, unwrap it where it is now: mcp-launch unwrap --file NEWPATH; "
            "if it was deleted, there is nothing left to do",
        )
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path}", fix="check the path")
    for host, file in known:
        if os.path.realpath(file.path) == os.path.realpath(path):
            return host, file
    kind = _KINDS.get(os.path.splitext(path)[1], "json")
    host = WRITTEN_IN.get(kind, ANY_HOST)
    return host, File(path, "file", kind, _ANY_SERVERS, has_lists=True)  # type: ignore[arg-type]


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
                fix=f"{suggest(name, names)}mcp-launch list shows all servers",
            )


def _protect_tracked(change: Change, request: WrapRequest) -> Change:
    """Return the change, adapted if Git tracks the file, so that others get it, too.

    A path of this machine is of no use to them, and starting their servers through a launcher
    must be a deliberate decision. So such a file is wrapped only on request, and with the
    launcher's bare name. It can always be unwrapped.
    """
    is_asked_for = bool(request.files)
    host, file, wish = change.host, change.file, change.wish
    if not wish.launcher or not (change.is_any or is_asked_for):
        return change
    tracked = git_tracking.judge(file.path)
    if tracked == "no":
        return change
    if is_asked_for:
        return planned_changes.look(
            host, file, change.before, wish._replace(launcher=installation.NAME)
        )
    why_not = TRACKED if tracked == "yes" else PERHAPS_TRACKED
    return planned_changes.look(host, file._replace(why_not=why_not), change.before, wish)


def _refuse_contradictions(changes: list[Change], environ: Mapping[str, str]) -> None:
    """Refuse options that `run` would reject together with those that an entry has already.

    Raises:
        UsageError: An entry would not start any more.

    """
    around = {name: value for name, value in environ.items() if not options.is_own_variable(name)}
    for change in changes:
        for entry in change.entries:
            refused = _find_contradiction(entry.after, around)
            if refused is not None and _find_contradiction(entry.words, around) is None:
                raise UsageError(
                    f"{entry.name} in {change.file.path} would not start with these options: "
                    f"{refused.problem}",
                    fix=f"{refused.fix} (after -- here, or in the entry or its profile); nothing "
                    "was changed",
                )


def _find_contradiction(words: Sequence[str], environ: Mapping[str, str]) -> UsageError | None:
    """Return why `run` would reject an entry's options and those of its profile."""
    at = wrap_entry.find_run([*words])
    if at is None:
        return None
    own = [*words[at:]]
    try:
        wanted = profile.load(own, environ)
    except LaunchError:
        # Without the files: one may be invalid, which others report.
        wanted = profile.read_options(own)
    try:
        sharing.check(wanted)
    except UsageError as refused:
        return refused
    return None


def _is_agreed(report: WrapReport, request: WrapRequest, changes: list[Change]) -> bool:
    if request.is_dry:
        report.say("Nothing was changed (--dry-run).")
        return False
    count = len(changes)
    question = f"Change {count} file{'s' if count > 1 else ''}?"
    if output.is_agreed(report.console, question, is_sure=request.is_sure):
        return True
    report.say("Nothing was changed.")
    return False


def write(report: WrapReport, changes: list[Change], directory: str) -> None:
    """Write every file that can be written; report the errors of the others."""
    refusals: list[LaunchError] = []
    for change in changes:
        host, file = change.host, change.file
        make = partial(_make, host, file, _narrow(change))  # from the text at that time
        try:
            written = replace_file.replace(host, file, make, directory)
        except LaunchError as error:
            refusals.append(error)
            continue
        if written is not None:
            report.show_written(change, written)
    for refused in refusals:
        report.refuse(refused)
    report.show_next()


def _narrow(change: Change) -> Wish:
    """Return the wish, to wrap only what was shown: a host may have added servers since."""
    if not change.wish.launcher:
        return change.wish
    shown = [entry.name for entry in change.entries if not entry.why_not]
    return change.wish._replace(names=tuple(shown))


def _make(host: HostConfig, file: File, wish: Wish, text: str) -> str:
    return planned_changes.look(host, file, text, wish).after


def _note_wrapped(changes: list[Change], directory: str) -> None:
    """Record files that were wrapped by hand, or before files were recorded."""
    for change in changes:
        if planned_changes.is_wrapped_now(change.host, change.file):
            # Without a record, it can still be unwrapped from its own project.
            with contextlib.suppress(OSError, FileRefused), replace_file.keep_others_out(directory):
                wrapped_files.note(directory, change.host, change.file)


def _tidy_as_asked(
    report: WrapReport, request: WrapRequest, changes: list[Change], directory: str
) -> None:
    if not request.is_dry:
        tidy(report, changes, directory)
    # Missing files matter only to a user who unwraps everything.
    if not request.is_everywhere or not request.is_about_all:
        return
    gone = wrapped_files.list_gone(directory)
    for path in gone:
        copy = backups.name_copy(directory, path)
        kept = f". A copy of the original is in {copy}" if os.path.exists(copy) else ""
        report.warn(f"{replace_file.describe_gone(path)}{kept}")


def tidy(report: WrapReport, changes: list[Change], directory: str) -> None:
    """Remove the copies and records of files that are no longer wrapped, however that happened."""
    for change in changes:
        if not planned_changes.is_free_now(change.host, change.file):
            continue
        if copy := replace_file.let_go(change.file, directory):
            report.say(f"Removed {copy}, a copy of {change.file.path}")


def _show_still_wrapped(
    report: WrapReport, request: WrapRequest, files: list[tuple[HostConfig, File]], directory: str
) -> list[str]:
    """Return which files elsewhere are still wrapped, if the user asked to unwrap everything."""
    if not request.is_about_all or request.is_everywhere:
        return []
    elsewhere = list_elsewhere(files, directory)
    left = [file.path for host, file in elsewhere if planned_changes.is_wrapped_now(host, file)]
    if left:
        count = "1 other file is" if len(left) == 1 else f"{len(left)} other files are"
        note = f"{count} still wrapped: {', '.join(left)}. To unwrap everything: "
        report.say(f"{note}mcp-launch unwrap --all", "yellow")
    return left
