"""The profile files that launches use, with the places of everything in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch.documents import toml
from mcp_launch.documents.positions import locate_path
from mcp_launch.errors import ProfileRefused
from mcp_launch.launch import profile, profile_file
from mcp_launch.machine.subject import Subject
from mcp_launch.state import profile_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.documents.positions import Path, Spot
    from mcp_launch.machine.survey import Survey


class ProfileFile(NamedTuple):
    """A profile file that launches use."""

    path: str
    text: str
    spots: dict[Path, Spot]
    defaults: dict[str, Any] | None
    servers: dict[str, dict[str, Any]]

    def point(self, server: str, where: Path) -> Subject:
        """Return the place of a key, or of what it is in."""
        line, column = locate_path(self.text, self.spots, where)
        return Subject(server=server, file=self.path, line=line, column=column)


def list_files(survey: Survey) -> Iterator[ProfileFile]:
    """Return the user's file and the project's, unless they are not used: ML013, ML014."""
    project = os.path.join(os.path.realpath(survey.site.project), profile.PROJECT_FILE)
    paths = {profile.locate_user_file(survey.environ): False, project: True}
    for path, is_projects in paths.items():
        try:
            content = profile_cache.read_file(path)
            refused: dict[str, ProfileRefused] | None = None if is_projects else {}
            parsed = profile_file.parse(content, path, is_projects=is_projects, refused=refused)
            if is_projects:
                profile.refuse_foreign(path)
            else:
                profile.refuse_if_others_can_write(path, os.stat(path))
        except (OSError, ProfileRefused):
            continue
        if not is_projects or _is_trusted(survey, path, content):
            text = content.decode()
            spots = {spot.path: spot for spot in toml.read(text)[1]}
            yield ProfileFile(path, text, spots, parsed["defaults"], parsed["servers"])


def _is_trusted(survey: Survey, path: str, content: bytes) -> bool:
    kept = profile_cache.read(path, survey.environ)
    return bool(kept and kept["trusted"] and kept["digest"] == profile_cache.digest(content))
