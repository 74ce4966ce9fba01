"""Write options of `run` into an entry that is already wrapped.

Only the words that change are touched: comments and line breaks between the others stay, and
`unwrap` still recognises what `wrap` wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files import list_style, run_options, wrap

if TYPE_CHECKING:
    from mcp_launch.config_files.wrap import Shape
    from mcp_launch.documents.document import Document, Edit
    from mcp_launch.documents.positions import Path


def amend(
    document: Document, entry: Path, shape: Shape, wanted: list[str]
) -> tuple[list[Edit], list[str]]:
    """Return the edits that give an entry these options, and its command after them.

    Raises:
        UsageError: Its current options are invalid.

    """
    words = wrap.list_words(document, entry, shape)
    own = words[2:]
    found = run_options.compare(own, wanted)
    where = entry + (shape.command if shape.is_one_list else shape.args)
    first = 2 if shape.is_one_list else 1  # the index of the first option in the list
    edits = [
        (*document.spots[(*where, first + at)].value, document.spell(word))
        for at, word in found.replaced.items()
    ]
    if found.added:
        edits.append(_insert(document, where, first + found.end, found.added))
    changed = [found.replaced.get(at, word) for at, word in enumerate(own)]
    changed[found.end : found.end] = found.added
    return edits, [*words[:2], *changed]


def _insert(document: Document, where: Path, at: int, words: list[str]) -> Edit:
    """Return the edit that inserts words into a list, at an index or after the last element."""
    spelled = [document.spell(word) for word in words]
    begin, _ = document.spots[where].value
    is_last = (*where, at) not in document.spots
    place = document.spots[(*where, at - 1)].value[1] if is_last else 0
    if document.text[begin] == "-":
        # YAML with one element per line: each is indented like the first.
        indent = list_style.find_indent(document, begin)
        if is_last:
            return (place, place, "".join(f"{indent}- {word}" for word in spelled))
        place = document.text.rindex("-", 0, document.spots[(*where, at)].value[0])
        return (place, place, "".join(f"- {word}{indent}" for word in spelled))
    comma = list_style.find_separator(document, where)
    if is_last:
        return (place, place, "".join(f"{comma}{word}" for word in spelled))
    place = document.spots[(*where, at)].value[0]
    return (place, place, "".join(f"{word}{comma}" for word in spelled))
