"""Show the user everything that would change in a file, without its secrets.

Only the words of commands change. Where a file has lines, the lines that differ are shown;
where everything is on one line, the keys that differ, entry by entry.
"""

from __future__ import annotations

import difflib
import json
import shlex
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from mcp_launch import masking
from mcp_launch.config_files import planned_changes, wrap
from mcp_launch.config_files.host_config import TRACKED, list_entries
from mcp_launch.documents.document import Document
from mcp_launch.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from mcp_launch.config_files.planned_changes import Change
    from mcp_launch.documents.document import Edit
    from mcp_launch.documents.positions import Path

# Nobody reads a longer line: the change in it is shown by itself.
_LONGEST_LINE = 200

# How wide a tab is shown.
_TAB = 4

# Tables of an entry whose values are all masked: any of them may be a secret of the server.
_PRIVATE = ("env", "environment", "envs", "headers", "http_headers")


def show(console: Console, changes: list[Change], *, is_wrapping: bool) -> None:
    """Show every server that was considered, and everything that would change."""
    table = Table("host", "scope", "server", "command", "", box=None, header_style="bold")
    doing = Text("wrap" if is_wrapping else "unwrap", "green")
    for change in changes:
        for entry in change.entries:
            what = Text(f"skipped: {entry.why_not}", "dim") if entry.why_not else doing
            cells = (
                change.host.title,
                entry.scope,
                entry.name,
                shlex.join(masking.mask(entry.words)),
            )
            # Folded, not cut: two commands often differ only at their end.
            shown = [Text(printable(cell), overflow="fold", no_wrap=False) for cell in cells]
            table.add_row(*shown, what)
    if table.row_count:
        console.print(table, soft_wrap=False)
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for change in changes:
        for line in describe(change) if change.is_any else ():
            console.print(Text(line, styles.get(line[:1], "")))
        if change.file.why_not == TRACKED:
            how = "add --shared, or name it with --file"
            why = f"Skipped {change.file.path}: Git tracks it, so others get it, too. To wrap it, "
            console.print(Text(why + how, "yellow"))


def describe(change: Change) -> Iterator[str]:
    """Return the lines of a diff, each with its sign first, safe to print."""
    before, after = (
        Document(change.file.kind, text, change.file.path) for text in (change.before, change.after)
    )
    entries = [
        document.get(path) for document in (before, after) for path in _list(change, document)
    ]
    # A value may be on another line than its name.
    scrubber = masking.Scrubber(one for entry in entries for one in masking.list_in_value(entry))
    lines = list(_compare_lines(change, before, after))
    if any(len(line) > _LONGEST_LINE for line in lines):
        lines = list(_compare_entries(change, before, after))
    for line in (f"--- {change.file.path}", f"+++ {change.file.path}", *lines):
        shown = masking.mask_comment(scrubber.clean(line[1:]))
        yield printable(line[:1] + shown.expandtabs(_TAB))


def _list(change: Change, document: Document) -> list[Path]:
    return list(list_entries(document, change.file))


def _compare_lines(change: Change, before: Document, after: Document) -> Iterator[str]:
    # Not splitlines: to a host, only a line feed ends a line.
    old, new = (
        [line.removesuffix("\r") for line in _mask(change, document).split("\n")]
        for document in (before, after)
    )
    # No context lines: they may hold secrets. The first two lines name the files.
    yield from islice(difflib.unified_diff(old, new, n=0, lineterm=""), 2, None)


def _mask(change: Change, document: Document) -> str:
    """Return a document's text with its secrets masked."""
    edits: dict[tuple[int, int], Edit] = {}
    private: set[Path] = set()
    for path in _list(change, document):
        private |= {(*path, *key) for name in _PRIVATE for key in ((name,), ("command", name))}
        for span, word in _list_masked_words(change, document, path):
            edits[span] = (*span, document.spell(word))
    for path, spot in document.spots.items():
        is_private = any(path[:length] in private for length in range(1, len(path)))
        if is_private and not isinstance(document.get(path), dict | list):
            edits[spot.value] = (*spot.value, document.spell(masking.MASK))
    return document.apply(list(edits.values()))


def _list_masked_words(
    change: Change, document: Document, entry: Path
) -> Iterator[tuple[tuple[int, int], str]]:
    """Return the spans of a command's words that hold a secret, and their masked form."""
    shape = planned_changes.find_shape(document, change.host, entry)
    words = wrap.list_words(document, entry, shape) if shape else []
    if shape is None or not words:
        return
    command, args = entry + shape.command, entry + shape.args
    if shape.is_one_list:
        paths = [(*command, at) for at in range(len(words))]
    else:
        paths = [command, *[(*args, at) for at in range(len(words) - 1)]]
    for path, word, masked in zip(paths, words, masking.mask(words), strict=True):
        if word != masked and path in document.spots:
            yield document.spots[path].value, masked


def _compare_entries(change: Change, before: Document, after: Document) -> Iterator[str]:
    for path in _list(change, before):
        old, new = before.get(path), after.get(path)
        if old == new or not isinstance(old, dict) or not isinstance(new, dict):
            continue
        yield f" {'.'.join(map(str, path))} "
        for sign, one, other in (("-", old, new), ("+", new, old)):
            for key, value in one.items():
                if other.get(key) != value:
                    yield f"{sign}{_spell(key)}: {_spell(_hide(value))}"


def _hide(value: Any) -> Any:  # noqa: ANN401  # any value of a file
    """Return a part of an entry with its secrets masked."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return masking.mask(value)
    if isinstance(value, dict):
        return {
            key: dict.fromkeys(one, masking.MASK)
            if key in _PRIVATE and isinstance(one, dict)
            else _hide(one)
            for key, one in value.items()
        }
    return value


def _spell(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
