"""What would change in a file, entry by entry, without its secrets.

Only the words of commands change, so only these are compared, each as its file spells it. Where
they are in the file, on one line or on many, does not matter for the decision to change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import masking
from mcp_launch.config_files import planned_changes, wrap
from mcp_launch.config_files.host_config import list_entries
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.documents.document import read_document
from mcp_launch.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcp_launch.config_files.planned_changes import Change, Entry
    from mcp_launch.documents.document import Document
    from mcp_launch.documents.positions import Path


class WrittenKey(NamedTuple):
    """One key of an entry and its value, as written in the file; every part is printable."""

    begin: str  # `args = [`
    words: tuple[str, ...]
    end: str = ""  # `]`

    def __str__(self) -> str:
        """Return the whole line."""
        return self.begin + ", ".join(self.words) + self.end


class EntryDiff(NamedTuple):
    """What changes in one entry."""

    entry: Entry
    removed: list[WrittenKey]
    added: list[WrittenKey]


class EntryWords(NamedTuple):
    """The command of an entry before and after a change, with its secrets masked."""

    entry: Entry
    before: list[str]
    after: list[str]


def compare(change: Change) -> Iterator[EntryDiff]:
    """Return what changes, for each entry in which something does."""
    before, after = _read_both(change)
    clean = _make_scrubber(change, before, after).clean
    for entry, path in zip(change.entries, _list_paths(change, before), strict=True):
        old, new = (_list_lines(change, document, path, clean) for document in (before, after))
        if old != new:
            removed = [line for key, line in old.items() if new.get(key) != line]
            added = [line for key, line in new.items() if old.get(key) != line]
            yield EntryDiff(entry, removed, added)


def list_words(change: Change) -> Iterator[EntryWords]:
    """Return the commands of all entries of a file, also of those that stay as they are."""
    before, after = _read_both(change)
    clean = _make_scrubber(change, before, after).clean
    later = planned_changes.look(
        change.host, change.file, change.after, Wish("", change.wish.names)
    ).entries
    for old, new in zip(change.entries, later, strict=True):
        masked = ([clean(word) for word in masking.mask(one.words)] for one in (old, new))
        yield EntryWords(old, *masked)


def _read_both(change: Change) -> tuple[Document, Document]:
    file = change.file
    before, after = (
        read_document(file.kind, text, file.path) for text in (change.before, change.after)
    )
    return before, after


def _make_scrubber(change: Change, *documents: Document) -> masking.Scrubber:
    """Return a scrubber for every secret in the entries, wherever else it may appear."""
    entries = [
        document.get(path) for document in documents for path in list_entries(document, change.file)
    ]
    return masking.Scrubber(one for entry in entries for one in masking.list_in_value(entry))


def _list_paths(change: Change, document: Document) -> Iterable[Path]:
    names = change.wish.names
    paths = list_entries(document, change.file)
    return [path for path in paths if not names or wrap.show_name(document, path) in names]


def _list_lines(
    change: Change, document: Document, entry: Path, clean: Callable[[str], str]
) -> dict[str, WrittenKey]:
    """Return the lines of an entry that a change may concern, by their keys."""
    shape = planned_changes.find_shape(document, change.host, entry)
    if shape is None:
        return {}
    words = masking.mask(wrap.list_words(document, entry, shape))
    command, args = entry + shape.command, entry + shape.args
    lines: dict[str, WrittenKey] = {}
    if shape.is_one_list:
        lines["command"] = _make_list(document, command, words[: len(document.get(command))], clean)
    else:
        [first] = _spell(document, [command], words[:1], clean)
        lines["command"] = WrittenKey(_begin(document, command), (first,))
        if document.get(args) is not None:
            lines["args"] = _make_list(document, args, words[1:], clean)
    variables = (*entry, "env_vars")
    if document.kind == "toml" and variables in document.spots:
        # With the comment in which the former list is kept.
        written = " ".join(document.cut(document.spots[variables].value).split())
        lines["env_vars"] = WrittenKey(_begin(document, variables), (printable(clean(written)),))
    return lines


def _make_list(
    document: Document, where: Path, words: list[str], clean: Callable[[str], str]
) -> WrittenKey:
    paths: list[Path] = [(*where, at) for at in range(len(words))]
    spelled = _spell(document, paths, words, clean)
    return WrittenKey(f"{_begin(document, where)}[", tuple(spelled), "]")


def _begin(document: Document, path: Path) -> str:
    """Return a key as it is written, up to its value."""
    spot = document.spots.get(path)  # None: the entry is a YAML alias
    key = document.cut(spot.key) if spot else str(path[-1])
    return printable(f"{key} = " if document.kind == "toml" else f"{key}: ")


def _spell(
    document: Document, paths: list[Path], masked: list[str], clean: Callable[[str], str]
) -> Iterator[str]:
    """Return words as they are written; those that hold a secret, masked."""
    for path, word in zip(paths, masked, strict=True):
        spot = document.spots.get(path)
        shown = clean(word)
        is_whole = spot is not None and shown == document.get(path)
        written = document.cut(spot.value) if spot and is_whole else document.spell(shown)
        yield printable(written)
