"""YAML aliases: parts of a document that are written once and used in several places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_launch.documents.positions import Path

# How many parts a document may have with every alias expanded: ten that hold ten that hold
# ten… are a few lines of text, but too large for any memory.
_MOST = 1_000_000


def copy_without(value: Any, paths: Iterable[Path]) -> Any:  # noqa: ANN401  # any value of a file
    """Return a copy without some of its parts, and with every alias expanded.

    Otherwise a part that is dropped in one place would be gone from all of them.

    Raises:
        ValueError: Expanded, it would be too large.
        RecursionError: It contains itself.

    """
    copied = _copy(value, [_MOST])
    for path in paths:
        table = copied
        for step in path[:-1]:
            table = table[step] if _has(table, step) else None
        if isinstance(table, dict):
            table.pop(path[-1], None)
    return copied


def _has(table: Any, step: str | int) -> bool:  # noqa: ANN401
    if isinstance(table, list):
        return isinstance(step, int) and step < len(table)
    return isinstance(table, dict) and step in table


def _copy(value: Any, left: list[int]) -> Any:  # noqa: ANN401
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("too many parts")
    if isinstance(value, dict):
        return {key: _copy(one, left) for key, one in value.items()}
    if isinstance(value, list):
        return [_copy(one, left) for one in value]
    return value


def list_sharing(parts: Mapping[Path, Iterable[object]]) -> dict[Path, list[Path]]:
    """Return, for each entry that shares a table or list with others, these others."""
    marks = {
        path: {id(part) for part in own if isinstance(part, dict | list)}
        for path, own in parts.items()
    }
    return {
        path: sharing
        for path, own in marks.items()
        if (sharing := [one for one, others in marks.items() if one != path and own & others])
    }
