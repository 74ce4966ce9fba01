"""The user's file of profiles, with the places of everything in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch.documents import toml
from mcp_launch.documents.positions import locate_path
from mcp_launch.errors import ProfileRefused
from mcp_launch.launch import profile_file, profile_tables
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from mcp_launch.documents.positions import Path, Spot
    from mcp_launch.machine.survey import Survey


class ProfileFile(NamedTuple):
    """The user's file."""

    path: str
    text: str
    spots: dict[Path, Spot]
    defaults: dict[str, Any] | None
    servers: dict[str, dict[str, Any]]

    def point(self, server: str, where: Path) -> Subject:
        """Return the place of a key, or of what it is in."""
        line, column = locate_path(self.text, self.spots, where)
        return Subject(server=server, file=self.path, line=line, column=column)


def read(survey: Survey) -> ProfileFile | None:
    """Return the user's file; None if there is none, or it cannot be used (ML013)."""
    path = profile_tables.locate(survey.environ)
    try:
        content = profile_tables.read_text(path)
        if content is None:
            return None
        parsed = profile_file.parse(content, path)
    except ProfileRefused:
        return None
    text = content.decode()
    spots = {spot.path: spot for spot in toml.read(text)[1]}
    return ProfileFile(path, text, spots, parsed["defaults"], parsed["servers"])
