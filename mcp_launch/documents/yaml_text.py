"""Read YAML, with PyYAML, and find the position of every value.

An alias stands for a part that is written elsewhere. That part has one position, and changing it
changes all that use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from mcp_launch.documents.positions import Path, Spot, Unreadable

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json

# How many parts a document may have with every alias expanded: ten that hold ten that hold
# ten… are a few lines of text, but nobody could compare two of them.
_MOST = 1_000_000


def read(text: str) -> tuple[Json, dict[Path, Spot]]:
    """Return the value, and the position of each of its parts.

    Raises:
        Unreadable: This is not YAML, or its aliases stand for too much.

    """
    try:
        value: Json = yaml.safe_load(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(error.problem or "it cannot be read", mark.index if mark else 0) from None
    except yaml.YAMLError as error:
        raise Unreadable(str(error).partition("\n")[0], getattr(error, "position", 0)) from None
    spots: dict[Path, Spot] = {}
    if node and _note_spots(spots, {}, (), (0, 0), node) > _MOST:
        raise Unreadable("its aliases stand for too much text", 0)
    return value, spots


def _note_spots(
    spots: dict[Path, Spot],
    sizes: dict[int, int],
    path: Path,
    key: tuple[int, int],
    node: yaml.Node,
) -> int:
    """Note where the parts of a node are; return how many they are with every alias expanded."""
    if id(node) in sizes:
        return sizes[id(node)]  # an alias: its text is elsewhere, and already listed
    sizes[id(node)] = _MOST + 1  # while it is read: what contains itself has no end
    spots[path] = Spot(path, key, (node.start_mark.index, node.end_mark.index))
    size = 1
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            span = (name.start_mark.index, name.end_mark.index)
            size += _note_spots(spots, sizes, (*path, str(name.value)), span, value)
    elif isinstance(node, yaml.SequenceNode):
        for index, element in enumerate(node.value):
            at = element.start_mark.index
            size += _note_spots(spots, sizes, (*path, index), (at, at), element)
    sizes[id(node)] = size
    return size
