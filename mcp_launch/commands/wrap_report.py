"""What `wrap`, `unwrap` and `uninstall` say: to a person as it happens, to a program at the end."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mcp_launch import masking
from mcp_launch.commands.output import print_paragraph, print_row
from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import diff, git_tracking, skip_reasons
from mcp_launch.config_files.host_config import ANY_HOST, PERHAPS_TRACKED, TRACKED
from mcp_launch.errors import printable, tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.config_files.diff import EntryWords
    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.config_files.planned_changes import Change, Entry
    from mcp_launch.config_files.replace_file import WrittenFile
    from mcp_launch.errors import LaunchError

# What is said of a file that is skipped because of Git.
_OF_GIT = {
    TRACKED: "Git tracks it, so others get it, too",
    PERHAPS_TRACKED: "others may get it, too: it is in a repository, and Git is missing or gave no "
    "answer",
}


class WrapReport:
    """Everything that one command has said so far."""

    def __init__(
        self, *, is_wrapping: bool, is_verbose: bool = False, is_json: bool = False
    ) -> None:
        self.is_wrapping = is_wrapping
        self.is_verbose = is_verbose
        self.is_json = is_json
        # With JSON on stdout, a person who is asked sees everything else on stderr.
        self.console = Screen(is_stderr=is_json)
        self.warnings: list[str] = []
        self.errors: list[LaunchError] = []
        self.written: dict[str, WrittenFile] = {}  # by the path of the file
        self.is_dry = False

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
        if self.is_verbose:
            self._list_skipped(skipped)
        for change, entry in skipped:
            if skip_reasons.needs_attention(entry.why_not, is_wrapping=self.is_wrapping):
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
        if written.copy and self.is_verbose:
            self.say(f"a copy of the original is in {written.copy}", indent=2)
        for copy in written.removed if self.is_verbose else ():
            self.say(f"mcp-launch is not in it any more; removed its copy {copy}", indent=2)

    def show_next(self) -> None:
        """Say where the copies are, and what to do next, if anything was changed."""
        if not self.written:
            return
        kept = {os.path.dirname(one.copy) for one in self.written.values() if one.copy}
        removed = [copy for one in self.written.values() for copy in one.removed]
        for directory in kept if not self.is_verbose else ():
            self.say(f"Copies of the originals are in {directory}")
        if removed and not self.is_verbose:
            copies = "1 copy" if len(removed) == 1 else f"{len(removed)} copies"
            self.say(f"Removed {copies} in {os.path.dirname(removed[0])}: no longer needed.")
        self.say("Restart running sessions to pick this up.")
        if self.is_wrapping:
            self.say("To check: mcp-launch doctor. To undo: mcp-launch unwrap.")

    def describe_files(self, changes: list[Change]) -> list[dict[str, Any]]:
        """Return what was done to each file, for programs."""
        return [
            self._describe_file(change) for change in changes if change.entries or change.is_any
        ]

    def _describe_file(self, change: Change) -> dict[str, Any]:
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
        what = "wrap" if self.is_wrapping else "unwrap"
        if entry.why_not:
            status = "skipped"
        elif change.file.path in self.written:
            status = f"{what}ped"
        else:
            status = f"would {what}" if self.is_dry else "not written"
        return {
            "server": entry.name,
            "scope": entry.scope if change.host is not ANY_HOST else None,
            "status": status,
            "reason": entry.why_not or None,
            "before": found.before,
            "after": found.after,
        }

    def describe_errors(self) -> list[dict[str, str]]:
        """Return the errors, for programs."""
        return [{"message": one.problem, "fix": one.fix} for one in self.errors]


def _name_file(host: HostConfig, file: File) -> str:
    return file.path if host is ANY_HOST else f"{file.path} ({host.title}, {file.scope})"


def _name_entry(change: Change, entry: Entry) -> str:
    return f"{shlex.quote(entry.name)} in {change.file.path}"
