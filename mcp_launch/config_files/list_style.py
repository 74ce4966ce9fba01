"""How the words of a list are separated in a file, and what that says about the list.

New words are separated as the file separates its own. How a whole list is written also tells
`unwrap` what was there before `wrap`, so that it can restore the file byte for byte:

    a list of the launcher's words and a command      before `wrap`
    ["run", "--server", "a", "--", "x"]                no list
    ["run","--server","a","--","x"]                    no list, in a file without spaces
    [ "run", "--server", "a", "--", "x" ]              an empty list
    anything else                                      a list
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_launch.documents.document import Document
    from mcp_launch.documents.positions import Path

_TIGHT = ","
SPACED = ", "


def find_separator(document: Document, where: Path) -> str:
    """Return what to write between the words of a list: what is between its first two."""
    begin, _ = document.spots[where].value
    if (*where, 1) in document.spots:
        first, second = (document.spots[(*where, at)].value for at in (0, 1))
        between = document.text[first[1] : second[0]]
        return between if between.strip() == "," else SPACED  # or there is a comment in it
    if (*where, 0) in document.spots:
        before = document.text[begin + 1 : document.spots[(*where, 0)].value[0]]
        if "\n" in before and not before.strip():
            return f",{before}"
    return choose_separator(document, where[:-1])


def choose_separator(document: Document, entry: Path) -> str:
    """Return what to write between the words of a list in a file that has none like it."""
    for where in _list_lists(document, entry[:-1]):
        first, second = (document.spots.get((*where, at)) for at in (0, 1))
        if first is None or second is None or document.get(first.path) == "run":
            continue
        between = document.text[first.value[1] : second.value[0]]
        if between in {_TIGHT, SPACED}:
            return between
    return _TIGHT if document.kind == "json" and _has_tight_colons(document, entry) else SPACED


def _list_lists(document: Document, table: Path) -> Iterator[Path]:
    """Return the paths of the lists in the entries of a table of servers."""
    for name in _list_keys(document, table):
        for key in _list_keys(document, (*table, name)):
            if isinstance(document.get((*table, name, key)), list):
                yield (*table, name, key)


def _list_keys(document: Document, path: Path) -> Iterable[str | int]:
    found = document.get(path)
    return found if isinstance(found, dict) else range(len(found) if isinstance(found, list) else 0)


def _has_tight_colons(document: Document, entry: Path) -> bool:
    inner = [document.spots[*entry, key] for key in document.get(entry)]
    return bool(inner) and all(document.text[one.key[1] : one.value[0]] == ":" for one in inner)


def find_indent(document: Document, at: int) -> str:
    """Return a line end, and blanks up to the column of an element that begins a line."""
    line = document.text.rfind("\n", 0, at) + 1
    return find_line_end(document, line) + " " * (at - line)


def find_line_end(document: Document, line: int) -> str:
    """Return how the line before the one that begins here is ended."""
    return "\r\n" if document.text[line - 2 : line] == "\r\n" else "\n"


def is_plain(document: Document, where: Path) -> bool:
    """Return whether a list is written without spaces, but for one after each comma or none."""
    ways = (f"[{_join(document, where, separator)}]" for separator in (_TIGHT, SPACED))
    return _cut(document, where) in ways


def is_padded(document: Document, where: Path) -> bool:
    """Return whether a list is written with a space after each comma and inside each bracket."""
    return _cut(document, where) == f"[ {_join(document, where, SPACED)} ]"


def _cut(document: Document, where: Path) -> str:
    return document.cut(document.spots[where].value)


def _join(document: Document, where: Path, separator: str) -> str:
    elements = [document.spots[*where, at].value for at in range(len(document.get(where)))]
    return separator.join(map(document.cut, elements))
