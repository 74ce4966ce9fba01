"""Which profiles exist for an entry in a host's file, and whether they apply to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.errors import ProfileRefused, ProfileUntrusted
from mcp_launch.launch import profile

if TYPE_CHECKING:
    from mcp_launch.machine.survey import Item, Survey


class EntryProfile(NamedTuple):
    """The profiles of one name."""

    name: str
    is_users: bool  # the user's file has one
    is_projects: bool  # the project's file has one
    is_refused: bool  # the project's is not trusted, or a file is invalid
    is_used: bool  # the entry's launch uses them, or would if it were wrapped by that name

    def __str__(self) -> str:
        """Return it as shown to a person; empty: there is none."""
        names = ["user"] if self.is_users else []
        if self.is_projects:
            names.append("not trusted" if self.is_refused else "project")
        elif self.is_refused:
            names.append("invalid")
        text = ", ".join(names)
        return text if self.is_used or not text else f"{text} (not used)"


def find_profile(survey: Survey, item: Item) -> EntryProfile:
    """Return the profiles for an entry: those of its `--server`, or of its own name."""
    given = item.options.get("--server", [])
    name = given[-1] if given else item.name
    is_users = is_refused = is_projects = False
    try:
        tables = profile.read_user_profile(name, survey.environ, is_launch=False)
        is_users = profile.name_table(name) in tables
    except ProfileRefused:
        is_refused = True
    try:
        place = _find_place(survey, item)
        is_projects = bool(
            profile.read_project_profile(name, survey.environ, place, is_launch=False)
        )
    except ProfileUntrusted as error:
        # Also raised for a file as a whole, which may have nothing to do with this server.
        is_projects = is_refused = f"the server {name}," in error.problem
    except ProfileRefused:
        is_projects = is_refused = True
    is_used = bool(given) or not item.is_wrapped
    return EntryProfile(name, is_users, is_projects, is_refused, is_used)


def _find_place(survey: Survey, item: Item) -> str:
    """Return the project in which an entry's server runs: Claude Code's private ones name it."""
    own = item.path[1] if item.path[0] == "projects" and len(item.path) > 1 else ""
    return own if isinstance(own, str) and os.path.isdir(own) else survey.site.project
