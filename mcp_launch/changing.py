"""What wrapping or unwrapping would change, file by file: looked at first, written later."""

from __future__ import annotations

import copy
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import wrapping
from mcp_launch.document import Document
from mcp_launch.errors import FileRefused
from mcp_launch.settings.host import list_entries, tell_why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_launch.document import Edit
    from mcp_launch.settings.host import File, Host
    from mcp_launch.spots import Path
    from mcp_launch.wrapping import Shape


# No configuration is; something else is meant.
_TOO_LARGE = 64 << 20


class Entry(NamedTuple):
    """One server of a file, and what becomes of it."""

    name: str
    scope: str
    words: list[str]  # its command as it is
    why_not: str  # why it stays as it is; empty: it is changed


class Change(NamedTuple):
    """One file, as it is and as it would be."""

    host: Host
    file: File
    before: str
    after: str
    entries: list[Entry]
    warnings: list[str]


class Wish(NamedTuple):
    """What is to be done, and to which servers."""

    launcher: str  # nothing: take it out
    names: tuple[str, ...] = ()  # none: all of them

    def make_edits(self, document: Document, entry: Path, shape: Shape) -> list[Edit]:
        """Return what to change in one entry."""
        if self.launcher:
            return wrapping.wrap(document, entry, shape, self.launcher)
        return wrapping.unwrap(document, entry, shape)


def read_file(path: str) -> str:
    """Return a file's text, with its line ends and all.

    Raises:
        FileRefused: It cannot be read.

    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _TOO_LARGE:
            raise FileRefused(f"{path} is no file, or too large", fix="look at it, or remove it")
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise FileRefused(f"{path} is not UTF-8", fix="save it as UTF-8") from None
    except OSError as error:
        raise FileRefused(
            f"{path} cannot be read: {error.strerror}", fix="make it readable"
        ) from None


def look(host: Host, file: File, text: str, wish: Wish) -> Change:
    """Return what would change in a file.

    Raises:
        FileRefused: It makes no sense.

    """
    document = Document(file.kind, text, file.path)
    entries: list[Entry] = []
    edits: list[Edit] = []
    warnings: list[str] = []
    for path in list_entries(document, file):
        name = str(path[-1])
        if wish.names and name not in wish.names:
            continue
        why_not, made = _judge(document, host, file, path, wish)
        shape = find_shape(document, host, path)
        words = wrapping.list_words(document, path, shape) if shape else []
        # Deeper than others are Claude Code's own servers of one project.
        scope = file.scope if path[0] != "projects" else f"local: {path[1]}"
        entries.append(Entry(name, scope, words, why_not))
        edits += made
        if made and wish.launcher:
            warnings += _warn(host, document, path)
    return Change(host, file, text, document.apply(edits), entries, warnings)


def change_one(host: Host, file: File, path: Path, wish: Wish, text: str) -> str:
    """Return a file's text with one entry changed.

    Raises:
        FileRefused: The file makes no sense, or the entry is better left alone.

    """
    document = Document(file.kind, text, file.path)
    why_not, edits = _judge(document, host, file, path, wish)
    if why_not:
        raise FileRefused(
            f"{path[-1]} in {file.path} stays as it is: {why_not}", fix="change it by hand"
        )
    return document.apply(edits)


def _judge(
    document: Document, host: Host, file: File, path: Path, wish: Wish
) -> tuple[str, list[Edit]]:
    """Return why an entry is left alone, or what to change in it."""
    shape = find_shape(document, host, path)
    words = wrapping.list_words(document, path, shape) if shape else []
    why_not = file.why_not or _tell_why_not(host, document.get(path), words, wish)
    if why_not or shape is None:
        return why_not, []
    is_wrapped = wrapping.is_wrapped(document, path, shape)
    if is_wrapped and wish.launcher and wrapping.is_launcher_gone(words):
        return "", wrapping.repoint(document, path, shape, wish.launcher)
    if is_wrapped == bool(wish.launcher):
        return "it is wrapped already" if is_wrapped else "it is not wrapped", []
    return _make_safe_edits(document, file, path, shape, wish)


def _tell_why_not(host: Host, entry: object, words: list[str], wish: Wish) -> str:
    # What was disabled after it was wrapped can be unwrapped all the same.
    why_not = tell_why_not(host, entry) if wish.launcher else ""
    if not why_not and not words:
        return "it has no command that can be understood"
    if wrapping.is_wrapped_otherwise(words):
        return "something else starts mcp-launch for it"
    return why_not


def _make_safe_edits(
    document: Document, file: File, path: Path, shape: Shape, wish: Wish
) -> tuple[str, list[Edit]]:
    """Return what to change, if the result means what it should and can be taken back."""
    strange = "it is written in a way that cannot be changed safely"
    try:
        edits = wish.make_edits(document, path, shape)
        if not edits:
            return "its command is in a profile", []
        after = Document(file.kind, document.apply(edits), file.path)
        if not _is_sound(document, after, path, shape, wish):
            return strange, []
        if wish.launcher and after.apply(wrapping.unwrap(after, path, shape)) != document.text:
            return strange, []
    except (FileRefused, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return strange, []
    return "", edits


def _is_sound(before: Document, after: Document, path: Path, shape: Shape, wish: Wish) -> bool:
    """Tell whether nothing but the words of one command has changed, and these as they should."""
    old = wrapping.list_words(before, path, shape)
    new = wrapping.list_words(after, path, shape)
    if wish.launcher:
        is_right = new[:2] == [wish.launcher, "run"] and new[-len(old) - 1 :] == ["--", *old]
    else:
        is_right = bool(new) and old[-len(new) :] == new
    return is_right and _drop(before, path, shape) == _drop(after, path, shape)


def _drop(document: Document, path: Path, shape: Shape) -> object:
    """Return what a document says but for one command."""
    value = copy.deepcopy(document.value)
    for key in (shape.command, shape.args, ("env_vars",)):
        table = value
        for step in (*path, *key[:-1]):
            table = table[step] if isinstance(table, dict) and step in table else None
        if isinstance(table, dict):
            table.pop(key[-1], None)
    return value


def find_shape(document: Document, host: Host, path: Path) -> Shape | None:
    """Return where an entry's command is; None if it has none that can be understood."""
    for shape in host.shapes:
        if wrapping.list_words(document, path, shape):
            return shape
    return None


def _warn(host: Host, document: Document, path: Path) -> list[str]:
    cwd = document.get((*path, "cwd"))
    if host.name == "codex" and isinstance(cwd, str) and not os.path.isabs(cwd):
        place = "from the directory in which its daemon happens to run"
        return [f"{path[-1]}: Codex takes its relative cwd {cwd} {place}; write an absolute one"]
    return []


def look_at_all(
    files: Iterable[tuple[Host, File]], wish: Wish, complain: Callable[[FileRefused], None]
) -> list[Change]:
    """Look at every file there is; one that cannot be read does not hide the others."""
    changes = []
    for host, file in files:
        if os.path.exists(file.path):
            try:
                changes.append(look(host, file, read_file(file.path), wish))
            except FileRefused as refused:
                complain(refused)
    return changes
