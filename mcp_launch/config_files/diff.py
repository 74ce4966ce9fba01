"""What would change in a file: the command of each entry before and after, without its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import masking
from mcp_launch.config_files import planned_changes
from mcp_launch.config_files.host_config import list_entries
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.documents.document import read_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.planned_changes import Change, Entry


class EntryWords(NamedTuple):
    """The command of an entry before and after a change, with its secrets masked."""

    entry: Entry
    before: list[str]
    after: list[str]


def list_words(change: Change) -> Iterator[EntryWords]:
    """Return the commands of all entries of a file, also of those that stay as they are."""
    clean = _make_scrubber(change).clean
    later = planned_changes.look(
        change.host, change.file, change.after, Wish("", change.wish.names)
    ).entries
    for old, new in zip(change.entries, later, strict=True):
        masked = ([clean(word) for word in masking.mask(one.words)] for one in (old, new))
        yield EntryWords(old, *masked)


def _make_scrubber(change: Change) -> masking.Scrubber:
    """Return a scrubber for every secret in the entries, wherever else it may appear."""
    file = change.file
    documents = [
        read_document(file.kind, text, file.path) for text in (change.before, change.after)
    ]
    entries = [one.get(path) for one in documents for path in list_entries(one, file)]
    return masking.Scrubber(one for entry in entries for one in masking.list_in_value(entry))
