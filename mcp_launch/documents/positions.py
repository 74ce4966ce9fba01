"""Where a part of a configuration file stands in its text."""

from __future__ import annotations

from typing import NamedTuple

Path = tuple["str | int", ...]


class Spot(NamedTuple):
    """One value (or table) of a document, and the spans of its key and of itself."""

    path: Path
    key: tuple[int, int]  # of an element of an array: nothing, at its beginning
    value: tuple[int, int]  # of a [table] in TOML: nothing, behind its heading


class Unreadable(ValueError):
    """A text is not what it should be, at an offset."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


class Repeated(Unreadable):
    """A name stands twice in one object: hosts read that, and take the last."""


def locate(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of a place, both counted from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")
