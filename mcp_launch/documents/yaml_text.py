"""Read YAML, with PyYAML, and find the position of every value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from mcp_launch.documents.positions import Path, Spot, Unreadable

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json


def read(text: str) -> tuple[Json, list[Spot]]:
    """Return the value, and the position of each of its parts.

    Raises:
        Unreadable: This is not YAML.

    """
    try:
        value: Json = yaml.safe_load(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(error.problem or "it cannot be read", mark.index if mark else 0) from None
    except yaml.YAMLError as error:
        raise Unreadable(str(error).partition("\n")[0], getattr(error, "position", 0)) from None
    return value, _list_spots((), (0, 0), node, set()) if node else []


def _list_spots(path: Path, key: tuple[int, int], node: yaml.Node, seen: set[int]) -> list[Spot]:
    if id(node) in seen:
        return []  # an alias: its text is elsewhere, and already listed
    seen.add(id(node))
    spots = [Spot(path, key, (node.start_mark.index, node.end_mark.index))]
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            span = (name.start_mark.index, name.end_mark.index)
            spots += _list_spots((*path, str(name.value)), span, value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, element in enumerate(node.value):
            at = element.start_mark.index
            spots += _list_spots((*path, index), (at, at), element, seen)
    return spots
