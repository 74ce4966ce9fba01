"""Compares two brokers, attribute by attribute, through all the objects that they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch.errors import LaunchError
from mcp_launch.launch.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

# What decides nothing, or is the same for any broker of one launch: what it was made with, what
# is looked up again if it is not known, and whether something that was done is scheduled.
_APART = {
    *[
        "settings",
        "_policies",
        "_rule",
        "_callers",
        "_plan_for",
        "_is_inside",
        "_is_directory",
        "identifying",
    ],
    *["_owner", "_divert", "_note_message", "_note_long_message", "_out"],
    *["pattern", "known", "_head", "_tail", "plan"],
    *["now", "lease_is_due", "_has_unsent"],
}


def list_differences(one: Any, other: Any, path: str = "broker") -> Iterator[str]:
    """Yield what differs between two brokers, or between parts of them."""
    if type(one) is not type(other) and not isinstance(one, LaunchError):
        yield f"{path}: {one!r} is not {other!r}"
    elif isinstance(one, (list, tuple)):
        yield from _compare_members(dict(enumerate(one)), dict(enumerate(other)), path)
    elif isinstance(one, dict):
        if list(one) != list(other):
            yield f"{path}: {list(one)} is not {list(other)}"
        else:
            yield from _compare_members(one, other, path)
    elif type(one).__module__.startswith("mcp_launch"):
        yield from _compare_members(_list_attributes(one), _list_attributes(other), path)
    elif one != other:
        yield f"{path}: {one!r} is not {other!r}"


def _compare_members(one: Any, other: Any, path: str) -> Iterator[str]:
    if len(one) != len(other):
        yield f"{path}: {one} is not {other}"
        return
    for name in one:
        yield from list_differences(one[name], other[name], f"{path}.{name}")


def _list_attributes(owner: object) -> dict[str, Any]:
    names = {name for kind in type(owner).__mro__ for name in getattr(kind, "__slots__", ())}
    names |= getattr(owner, "__dict__", {}).keys()
    if isinstance(owner, LaunchError):
        names = {"problem", "fix"}
    elif isinstance(owner, Context):
        names = {"session", "thread", "place"}
    return {name: getattr(owner, name) for name in sorted(names - _APART)}
