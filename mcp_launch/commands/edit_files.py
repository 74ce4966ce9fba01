"""What `wrap`, `unwrap` and `uninstall` do: show what would change, ask, and write it.

Imported late: it knows every host and every format of their files.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch import masking, state
from mcp_launch.commands import output
from mcp_launch.commands.output import print_json, print_paragraph, print_row
from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import (
    backups,
    diff,
    entry_script,
    git_tracking,
    planned_changes,
    replace_file,
    run_options,
    skip_reasons,
    wrapped_files,
)
from mcp_launch.config_files import wrap as wrap_entry
from mcp_launch.config_files.host_config import ANY_HOST, PERHAPS_TRACKED, TRACKED, File, HostConfig
from mcp_launch.config_files.planned_changes import Change, Wish
from mcp_launch.config_files.site import Site
from mcp_launch.errors import FileRefused, LaunchError, UsageError, printable, suggest, tell
from mcp_launch.hosts.configured import HOSTS, WRITTEN_IN
from mcp_launch.launch import options, profile, sharing
from mcp_launch.machine import installation, units, wrap_warnings
from mcp_launch.machine.survey import check_hosts, list_elsewhere, list_known_files, make_site

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_launch.config_files.diff import EntryWords
    from mcp_launch.config_files.planned_changes import Entry
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


# What is said of a file that is skipped because of Git.
_OF_GIT = {
    TRACKED: "Git tracks it, so others get it, too",
    PERHAPS_TRACKED: "others may get it, too: it is in a repository, and Git is missing or gave no "
    "answer",
}


class EditRequest(NamedTuple):
    """What the user asked for."""

    names: list[str]
    hosts: list[str]
    files: list[str]
    options: Sequence[str] = ()  # options of `run` to write into the entries
    is_wrapping: bool = False
    is_sure: bool = False  # do not ask
    is_dry: bool = False  # only show
    is_everywhere: bool = False  # also every recorded file
    is_verbose: bool = False  # name every skipped server
    is_json: bool = False

    @property
    def is_about_all(self) -> bool:
        """Whether it is not narrowed to some servers, hosts or files."""
        return not (self.names or self.hosts or self.files)


class Edited(NamedTuple):
    """What was found in the files and, unless it was a dry run or declined, written."""

    report: EditReport
    changes: list[Change]
    still_wrapped: list[str]  # files elsewhere


def run(request: EditRequest) -> int:
    """Wrap or unwrap, and return the exit code."""
    edited = edit(request)
    if request.is_json:
        _print_json(request, edited)
    return 1 if edited.report.errors else 0


def edit(request: EditRequest) -> Edited:
    """Show what would change, ask, and write it."""
    environ, is_wrapping = os.environ, request.is_wrapping
    run_options.check([*request.options])
    site = make_site(environ)
    directory = state.find_directory(environ)
    state.secure(directory)
    report = EditReport(request)
    program = installation.find(environ, site.home) if is_wrapping else ""
    launcher = entry_script.locate(directory) if is_wrapping else ""
    files = _list_files(request, site, directory)
    wish = Wish(launcher, tuple(request.names), tuple(request.options))
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
        _write(report, wanted, directory)
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


def _install_script(report: EditReport, directory: str) -> bool:
    """Write the script that entries start, unless it is up to date; return False if it failed."""
    try:
        if entry_script.install(directory):
            report.say(f"Wrote {entry_script.locate(directory)}, which wrapped entries start")
    except FileRefused as error:
        report.refuse(error)
        return False
    return True


def _show(report: EditReport, changes: list[Change], files: list[tuple[HostConfig, File]]) -> None:
    report.show_changes(changes)
    if any(change.entries for change in changes):
        report.show_skipped(changes)
    else:
        report.show_where(files)


def _print_json(request: EditRequest, edited: Edited) -> None:
    still_wrapped = {} if request.is_wrapping else {"still_wrapped": edited.still_wrapped}
    print_json({**describe(request, edited), **still_wrapped})


def describe(request: EditRequest, edited: Edited) -> dict[str, Any]:
    """Return what was done, for programs."""
    report = edited.report
    return {
        "version": 1,
        "is_dry_run": request.is_dry,
        "changed": bool(report.written),
        "files": [report.describe_file(one) for one in edited.changes if one.entries or one.is_any],
        "warnings": report.warnings,
        "errors": [{"message": one.problem, "fix": one.fix} for one in report.errors],
    }


def _list_files(request: EditRequest, site: Site, directory: str) -> list[tuple[HostConfig, File]]:
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
    request: EditRequest, files: list[tuple[HostConfig, File]], changes: list[Change]
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


def _protect_tracked(change: Change, request: EditRequest) -> Change:
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


def _is_agreed(report: EditReport, request: EditRequest, changes: list[Change]) -> bool:
    if request.is_dry:
        report.say("Nothing was changed (--dry-run).")
        return False
    question = f"Change {units.count(len(changes), 'file')}?"
    if output.is_agreed(report.console, question, is_sure=request.is_sure):
        return True
    report.say("Nothing was changed.")
    return False


def _write(report: EditReport, changes: list[Change], directory: str) -> None:
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
    report: EditReport, request: EditRequest, changes: list[Change], directory: str
) -> None:
    if not request.is_dry:
        _tidy(report, changes, directory)
    # Missing files matter only to a user who unwraps everything.
    if not request.is_everywhere or not request.is_about_all:
        return
    gone = wrapped_files.list_gone(directory)
    for path in gone:
        copy = backups.name_copy(directory, path)
        kept = f". A copy of the original is in {copy}" if os.path.exists(copy) else ""
        report.warn(f"{replace_file.describe_gone(path)}{kept}")


def _tidy(report: EditReport, changes: list[Change], directory: str) -> None:
    """Remove the copies and records of files that are no longer wrapped, however that happened."""
    for change in changes:
        if not planned_changes.is_free_now(change.host, change.file):
            continue
        if copy := replace_file.let_go(change.file, directory):
            report.say(f"Removed {copy}, a copy of {change.file.path}")


def _show_still_wrapped(
    report: EditReport, request: EditRequest, files: list[tuple[HostConfig, File]], directory: str
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


class EditReport:
    """What is said: to a person as it happens, to a program at the end."""

    def __init__(self, request: EditRequest) -> None:
        self._request = request
        # With JSON on stdout, a person who is asked sees everything else on stderr.
        self.console = Screen(is_stderr=request.is_json)
        is_asked = output.can_ask() and not (request.is_sure or request.is_dry)
        self.console.quiet = request.is_json and not is_asked
        self.warnings: list[str] = []
        self.errors: list[LaunchError] = []
        self.written: dict[str, WrittenFile] = {}  # by the path of the file

    def say(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Print a line for a person."""
        print_paragraph(self.console, text, style, indent=indent)

    def warn(self, text: str) -> None:
        """Print a warning, and keep it."""
        self.warnings.append(text)
        self.say(f"Note: {text}", "yellow")

    def refuse(self, error: LaunchError) -> None:
        """Print an error, and keep it."""
        self.errors.append(error)
        tell(error, sys.stderr)

    def show_changes(self, changes: Iterable[Change]) -> None:
        """Show everything that would change, file by file."""
        for change in changes:
            if change.is_any:
                self.say(_name_file(change.host, change.file), "bold")
                for one in diff.list_words(change):
                    if not one.entry.why_not:
                        self._show_entry(change, one)
                self.console.print()

    def _show_entry(self, change: Change, found: EntryWords) -> None:
        entry = found.entry
        where = f" ({entry.scope})" if entry.scope != change.file.scope else ""
        self.say(f"{shlex.quote(entry.name)}{where}", indent=2)
        for sign, style, words in (("-", "red", found.before), ("+", "green", found.after)):
            line = Text(printable(masking.join(words)), style)
            print_row(self.console, Text(f"    {sign} ", style), line)

    def show_skipped(self, changes: list[Change]) -> None:
        """Sum up what stays as it is; name only what the user should look at."""
        skipped = [
            (change, entry) for change in changes for entry in change.entries if entry.why_not
        ]
        counts = skip_reasons.count(entry.why_not for _, entry in skipped)
        is_any = any(change.is_any for change in changes)
        if counts:
            self.say(f"{'Skipped' if is_any else 'Nothing to change'}: {', '.join(counts)}.")
        elif not is_any:
            self.say("Nothing to change.")
        if self._request.is_verbose:
            self._list_skipped(skipped)
        for change, entry in skipped:
            if skip_reasons.needs_attention(entry.why_not, is_wrapping=self._request.is_wrapping):
                self.say(f"Skipped {_name_entry(change, entry)}: {entry.why_not}", "yellow")
        for change in changes:
            if change.file.why_not in _OF_GIT and change.entries:
                self._offer_shared(change)

    def _list_skipped(self, skipped: list[tuple[Change, Entry]]) -> None:
        groups: dict[str, list[str]] = {}
        for change, entry in skipped:
            host = "" if change.host is ANY_HOST else f" ({change.host.title})"
            label = skip_reasons.name(entry.why_not)
            groups.setdefault(label, []).append(printable(shlex.quote(entry.name) + host))
        for label in skip_reasons.sort(groups):
            names = ", ".join(dict.fromkeys(groups[label]))
            self.say(f"{label}: {names}", "dim", indent=2)

    def _offer_shared(self, change: Change) -> None:
        wish = change.wish
        words = ["mcp-launch", "wrap", "--file", change.file.path, *wish.names]
        words += ["--", *wish.options] if wish.options else []
        self.say(
            f"Skipped {change.file.path}: {_OF_GIT[change.file.why_not]}. To wrap it, "
            f"too: {shlex.join(words)}",
            "yellow",
        )

    def show_where(self, files: list[tuple[HostConfig, File]]) -> None:
        """Say where servers were looked for, as none was found."""
        self.say("No MCP servers were found. These files were looked for:")
        places: dict[str, list[str]] = {}
        for host, file in files:
            if not file.why_not:
                places.setdefault(host.title, []).append(file.path)
        for title, paths in places.items():
            self.say(f"{title}: {', '.join(dict.fromkeys(paths))}", indent=2)

    def show_written(self, change: Change, written: WrittenFile) -> None:
        """Say that a file was changed."""
        path = change.file.path
        self.written[path] = written
        self.say(f"Changed {path}")
        if written.copy and self._request.is_verbose:
            self.say(f"a copy of the original is in {written.copy}", indent=2)
        for copy in written.removed if self._request.is_verbose else ():
            self.say(f"mcp-launch is not in it any more; removed its copy {copy}", indent=2)

    def show_next(self) -> None:
        """Say where the copies are, and what to do next, if anything was changed."""
        if not self.written:
            return
        kept = {os.path.dirname(one.copy) for one in self.written.values() if one.copy}
        removed = [copy for one in self.written.values() for copy in one.removed]
        for directory in kept if not self._request.is_verbose else ():
            self.say(f"Copies of the originals are in {directory}")
        if removed and not self._request.is_verbose:
            copies = "1 copy" if len(removed) == 1 else f"{len(removed)} copies"
            self.say(f"Removed {copies} in {os.path.dirname(removed[0])}: no longer needed.")
        self.say("Restart running sessions to pick this up.")
        if self._request.is_wrapping:
            self.say("To check: mcp-launch doctor. To undo: mcp-launch unwrap.")

    def describe_file(self, change: Change) -> dict[str, Any]:
        """Return what was done to a file, for programs."""
        file = change.file
        written = self.written.get(file.path)
        is_known = change.host is not ANY_HOST
        return {
            "host": change.host.name if is_known else None,
            "scope": file.scope if is_known else None,
            "file": file.path,
            "is_tracked": git_tracking.is_tracked(file.path),
            "is_changed": written is not None,
            "copy": written.copy or None if written else None,
            "removed_copies": list(written.removed) if written else [],
            "entries": [self._describe_entry(change, one) for one in diff.list_words(change)],
        }

    def _describe_entry(self, change: Change, found: EntryWords) -> dict[str, Any]:
        entry = found.entry
        what = "wrap" if self._request.is_wrapping else "unwrap"
        if entry.why_not:
            status = "skipped"
        elif change.file.path in self.written:
            status = f"{what}ped"
        else:
            status = f"would {what}" if self._request.is_dry else "not written"
        return {
            "server": entry.name,
            "scope": entry.scope if change.host is not ANY_HOST else None,
            "status": status,
            "reason": entry.why_not or None,
            "before": found.before,
            "after": found.after,
        }


def _name_file(host: HostConfig, file: File) -> str:
    return file.path if host is ANY_HOST else f"{file.path} ({host.title}, {file.scope})"


def _name_entry(change: Change, entry: Entry) -> str:
    return f"{shlex.quote(entry.name)} in {change.file.path}"
