"""The profile of an entry in a host's file, and whether it applies to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.errors import ProfileRefused
from mcp_launch.launch import profile_tables

if TYPE_CHECKING:
    from mcp_launch.machine.survey import Item, Survey


class EntryProfile(NamedTuple):
    """The profile of one name."""

    name: str
    is_refused: bool  # it is invalid, or the whole file is
    is_used: bool  # the entry's launch uses it, or would if it were wrapped by that name

    def __str__(self) -> str:
        """Return it as shown to a person."""
        text = "invalid" if self.is_refused else "yes"
        return text if self.is_used else f"{text} (not used)"


def find_profile(survey: Survey, item: Item) -> EntryProfile | None:
    """Return the profile for an entry: that of its `--server`, or of its own name."""
    given = item.options.get("--server", [])
    name = given[-1] if given else item.name
    is_used = bool(given) or not item.is_wrapped
    try:
        file = profile_tables.read(survey.environ)
    except ProfileRefused:
        return EntryProfile(name, is_refused=True, is_used=is_used)
    if name not in file.list_names():
        return None
    return EntryProfile(name, name in file.refused, is_used)
