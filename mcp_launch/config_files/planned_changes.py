"""Plan what wrapping or unwrapping would change, file by file; `replace_file` writes it later."""

from __future__ import annotations

import os
import shlex
import stat
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.config_files import run_options, wrap
from mcp_launch.config_files.host_config import list_entries, tell_why_not
from mcp_launch.config_files.skip_reasons import (
    ALREADY_WRAPPED,
    IN_PROFILE,
    MALFORMED,
    NO_RUN,
    NOT_UNDERSTOOD,
    NOT_WRAPPED,
    OTHERWISE,
    UNSAFE,
)
from mcp_launch.documents.document import read_document
from mcp_launch.errors import FileRefused, LaunchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.config_files.wrap import Shape
    from mcp_launch.documents.document import Document, Edit
    from mcp_launch.documents.positions import Path


# No configuration is this large; the file is something else.
_TOO_LARGE = 64 << 20


# The exceptions that malformed entries can raise.
STRANGE = (LaunchError, LookupError, TypeError, ValueError, AttributeError, RecursionError)


class Entry(NamedTuple):
    """One server of a file, and what would happen to it."""

    name: str
    scope: str
    words: list[str]  # its current command
    why_not: str  # why it is skipped; empty: it is changed
    after: tuple[str, ...] = ()  # its new command, if options are written into it


class Wish(NamedTuple):
    """What to do, and to which servers."""

    launcher: str  # empty: unwrap
    names: tuple[str, ...] = ()  # empty: all of them
    options: tuple[str, ...] = ()  # options of `run` to write into the entries
    writes_path: bool = False  # the launcher's, also where an entry has only its name


class Change(NamedTuple):
    """One file, before and after the change."""

    host: HostConfig
    file: File
    before: str
    after: str
    entries: list[Entry]
    warnings: list[str]
    wish: Wish

    @property
    def is_any(self) -> bool:
        """Whether anything changes."""
        return self.after != self.before


class _Proposal(NamedTuple):
    """The proposed change of one entry."""

    path: Path
    shape: Shape
    edits: list[Edit]
    amended: tuple[str, ...] = ()  # its new command, if it was wrapped and stays wrapped


def read_file(path: str) -> str:
    """Return a file's text, with its line ends unchanged.

    Raises:
        FileRefused: It cannot be read.

    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _TOO_LARGE:
            raise FileRefused(
                f"{path} is not a regular file, or is too large",
                fix="replace it with a configuration file, or remove it",
            )
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise FileRefused(f"{path} is not UTF-8", fix="save it as UTF-8") from None
    except OSError as error:
        raise FileRefused(
            f"cannot read {path}: {error.strerror}", fix=f"chmod u+r {shlex.quote(path)}"
        ) from None


def look(host: HostConfig, file: File, text: str, wish: Wish) -> Change:
    """Return what would change in a file.

    Raises:
        FileRefused: The file is invalid.

    """
    document = read_document(file.kind, text, file.path)
    paths = [
        path
        for path in list_entries(document, file)
        if not wish.names or wrap.show_name(document, path) in wish.names
    ]
    proposals, reasons = _propose_all(document, host, file, paths, wish)
    after = _apply(document, proposals)
    new_words = _list_new_words(file, after, proposals) if wish.options else {}
    entries = []
    for path in paths:
        shape = find_shape(document, host, path)
        words = wrap.list_words(document, path, shape) if shape else []
        # Claude Code nests the local servers of a project one level deeper.
        scope = file.scope if path[0] != "projects" else f"local: {path[1]}"
        name, why_not = wrap.show_name(document, path), reasons.get(path, "")
        entries.append(Entry(name, scope, words, why_not, new_words.get(path, ())))
    warnings = [
        warning for one in proposals if wish.launcher for warning in _warn(host, document, one.path)
    ]
    return Change(host, file, text, after, entries, warnings, wish)


def _list_new_words(
    file: File, after: str, proposals: list[_Proposal]
) -> dict[Path, tuple[str, ...]]:
    """Return the commands that entries have after the change."""
    document = read_document(file.kind, after, file.path)
    return {one.path: (*wrap.list_words(document, one.path, one.shape),) for one in proposals}


def change_some(host: HostConfig, file: File, paths: Iterable[Path], wish: Wish, text: str) -> str:
    """Return a file's text with as many of these entries changed as is safe.

    Raises:
        FileRefused: The file is invalid, or none of these entries can be changed.

    """
    document = read_document(file.kind, text, file.path)
    proposals, reasons = _propose_all(document, host, file, paths, wish)
    if not proposals:
        why = "; ".join(
            f"{wrap.show_name(document, path)}: {why_not}" for path, why_not in reasons.items()
        )
        raise FileRefused(f"{file.path} was not changed: {why}", fix="change it by hand")
    return _apply(document, proposals)


def _apply(document: Document, proposals: list[_Proposal]) -> str:
    return document.apply([edit for one in proposals for edit in one.edits])


def _propose_all(
    document: Document, host: HostConfig, file: File, paths: Iterable[Path], wish: Wish
) -> tuple[list[_Proposal], dict[Path, str]]:
    """Return the changes that are safe, and why the other entries are skipped."""
    reasons: dict[Path, str] = {}
    proposals = []
    for path in paths:
        proposal = _propose(document, host, file, path, wish)
        if isinstance(proposal, str):
            reasons[path] = proposal
        else:
            proposals.append(proposal)
    # All at once, if they are safe together: a file may be large, and each check parses it again.
    if not _are_safe(document, file, proposals, wish):
        reasons |= {
            one.path: UNSAFE for one in proposals if not _are_safe(document, file, [one], wish)
        }
    return [one for one in proposals if one.path not in reasons], reasons


def _propose(
    document: Document, host: HostConfig, file: File, path: Path, wish: Wish
) -> _Proposal | str:
    """Return what to change in an entry, or why it is skipped."""
    shape = find_shape(document, host, path)
    words = wrap.list_words(document, path, shape) if shape else []
    why_not = file.why_not or _tell_why_not(host, document.get(path), words, wish)
    if shape is not None and wish.launcher and not why_not:
        correction = wrap.add_run(document, shape, words)
        why_not = f"{NO_RUN}: write {correction}" if correction else ""
    if why_not or shape is None:
        return why_not
    is_wrapped = wrap.is_wrapped(document, path, shape)
    if not is_wrapped and not wish.launcher:
        return NOT_WRAPPED
    try:
        if is_wrapped and wish.launcher:
            return _amend(document, path, shape, wish)
        if wish.launcher:
            edits = wrap.wrap(document, path, shape, wish.launcher, wish.options)
        else:
            edits = wrap.unwrap(document, path, shape)
    except UsageError as error:
        return f"{NOT_UNDERSTOOD}: {error.problem}"
    except STRANGE:
        return UNSAFE
    return _Proposal(path, shape, edits) if edits else IN_PROFILE


def _amend(document: Document, path: Path, shape: Shape, wish: Wish) -> _Proposal | str:
    """Return what to change in an entry that is already wrapped, or why it is skipped."""
    words = wrap.list_words(document, path, shape)
    has_command = bool(run_options.list_command(words[2:]))
    # Without a command it was written by hand, and unwrap skips it: add only what is asked for.
    needs_name = has_command and not run_options.has(words[2:], "--server")
    named = wrap.name_entry(document, path) if needs_name else []
    edits, amended = wrap.amend(document, path, shape, [*named, *wish.options])
    is_named = wish.writes_path and not os.path.isabs(words[0])
    if is_named or wrap.is_launcher_misplaced(words, wish.launcher):
        edits += wrap.repoint(document, path, shape, wish.launcher)
        amended[0] = wish.launcher
    if not edits:
        return ALREADY_WRAPPED if has_command else IN_PROFILE
    return _Proposal(path, shape, edits, tuple(amended))


def _tell_why_not(host: HostConfig, entry: object, words: list[str], wish: Wish) -> str:
    # An entry that was disabled after it was wrapped can still be unwrapped.
    why_not = tell_why_not(host, entry) if wish.launcher or not words else ""
    if not why_not and not words:
        return MALFORMED
    if wrap.is_wrapped_otherwise(words):
        return OTHERWISE
    return why_not


def _are_safe(document: Document, file: File, proposals: list[_Proposal], wish: Wish) -> bool:
    """Return whether the result means what it should, and can be undone byte for byte."""
    try:
        after = read_document(file.kind, _apply(document, proposals), file.path)
        if not all(_is_right(document, after, one, wish) for one in proposals):
            return False
        if _drop(document, proposals) != _drop(after, proposals):
            return False  # something other than the words of a command has changed
        if not wish.launcher:
            return True
        back = [edit for one in proposals for edit in wrap.unwrap(after, one.path, one.shape)]
        bare = [edit for one in proposals if one.amended for edit in _strip(document, one)]
        return after.apply(back) == document.apply(bare)
    except STRANGE:
        return False


def _strip(document: Document, proposal: _Proposal) -> list[Edit]:
    """Return the edits that unwrap an entry, or the proposed ones if it has no command."""
    return wrap.unwrap(document, proposal.path, proposal.shape) or proposal.edits


def _is_right(before: Document, after: Document, proposal: _Proposal, wish: Wish) -> bool:
    """Return whether the words of a command have changed as they should."""
    old, new = (
        wrap.list_words(document, proposal.path, proposal.shape) for document in (before, after)
    )
    if proposal.amended:
        return new == list(proposal.amended)
    if wish.launcher:
        is_ours = new[:2] == [wish.launcher, "run"]
        return is_ours and run_options.list_command(new[2:]) == old
    return bool(new) and old[-len(new) :] == new


def _drop(document: Document, proposals: list[_Proposal]) -> object:
    """Return a document's value without the commands of these proposals."""
    paths = [
        (*one.path, *key)
        for one in proposals
        for key in (one.shape.command, one.shape.args, ("env_vars",))
    ]
    return document.copy_without(paths)


def find_shape(document: Document, host: HostConfig, path: Path) -> Shape | None:
    """Return where an entry's command is; None if it is missing or malformed."""
    for shape in host.shapes:
        if wrap.list_words(document, path, shape):
            return shape
    return None


def _warn(host: HostConfig, document: Document, path: Path) -> list[str]:
    cwd = document.get((*path, "cwd"))
    if host.quirks.cwd == "absolute" and isinstance(cwd, str) and not os.path.isabs(cwd):
        name = wrap.show_name(document, path)
        place = "against the directory in which its daemon happens to run"
        return [f"{name}: {host.title} resolves the relative cwd {cwd} {place}; make it absolute"]
    return []


def look_at_all(
    files: Iterable[tuple[HostConfig, File]], wish: Wish, complain: Callable[[FileRefused], None]
) -> list[Change]:
    """Return the changes of all existing files; `complain` gets each file that cannot be read."""
    changes = []
    for host, file in files:
        if os.path.exists(file.path):
            try:
                changes.append(look(host, file, read_file(file.path), wish))
            except FileRefused as refused:
                complain(refused)
    return changes


# Whether a file still has wrapped entries; while it does, we keep its copy and record.


def holds_ours(host: HostConfig, file: File, text: str) -> bool:
    """Return whether a file's text has a wrapped entry that can be unwrapped.

    An entry whose command is in a profile does not count: `unwrap` skips it, so nothing is kept.
    """
    try:
        return _holds_ours(host, file, text)
    except STRANGE:
        return False


def _holds_ours(host: HostConfig, file: File, text: str) -> bool:
    document = read_document(file.kind, text, file.path)
    return any(_is_ours(document, host, path) for path in list_entries(document, file))


def _is_ours(document: Document, host: HostConfig, path: Path) -> bool:
    shape = find_shape(document, host, path)
    if shape is None or not wrap.is_wrapped(document, path, shape):
        return False
    try:
        return bool(wrap.unwrap(document, path, shape))
    except STRANGE:
        return True  # it cannot be unwrapped, but it is wrapped


def is_wrapped_now(host: HostConfig, file: File) -> bool:
    """Return whether a file has wrapped entries now; False if it cannot be read."""
    try:
        return holds_ours(host, file, read_file(file.path))
    except FileRefused:
        return False


def is_free_now(host: HostConfig, file: File) -> bool:
    """Return whether a file provably has no wrapped entries now."""
    try:
        return not _holds_ours(host, file, read_file(file.path))
    except STRANGE:
        return False  # it is gone, or is just being edited
