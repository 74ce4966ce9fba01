"""The position of a part of a configuration file in its text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Path = tuple["str | int", ...]


class Spot(NamedTuple):
    """One value (or table) of a document, and the spans of its key and of itself."""

    path: Path
    key: tuple[int, int]  # of an array element: empty, at its beginning
    value: tuple[int, int]  # of a [table] in TOML: empty, after its header


class Unreadable(ValueError):
    """A text is not valid, at an offset."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


class Repeated(Unreadable):
    """A name appears twice in one object: hosts accept that, and use the last one."""


def locate(text: str, offset: int) -> tuple[int, int]:
    """Return the line and column of an offset, both counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def locate_path(text: str, spots: Mapping[Path, Spot], path: Path) -> tuple[int, int]:
    """Return the line and column of a path's key, or of the nearest one above that is written."""
    while path and path not in spots:
        path = path[:-1]
    return locate(text, spots[path].key[0] if path else 0)
