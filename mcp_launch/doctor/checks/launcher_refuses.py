"""Wrapped entries whose launch would fail before the server is started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import LaunchError, ProfileRefused
from mcp_launch.launch.context import find_project_root
from mcp_launch.launch.place import PLACES
from mcp_launch.machine import foresight, host_environment
from mcp_launch.values import Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.launch.profile import Profile
    from mcp_launch.machine.survey import Item, Survey


def check(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find what the launcher of an entry refuses (ML121)."""
    if survey.site.platform == "win32" or not item.is_wrapped:
        return
    try:
        wanted = foresight.read_profile(survey, item, host_environment.give(survey, item))
    except LaunchError as refused:
        # ML013 reports this project's invalid profile file.
        is_reported = foresight.find_project(survey, item) == survey.site.project
        if not (is_reported and isinstance(refused, ProfileRefused)):
            yield _refuse(item, refused.problem, refused.fix)
        return
    yield from _look_for_files(survey, item, wanted)
    yield from _look_for_place(survey, item, wanted.cwd)
    homes = foresight.list_homes(survey, item, wanted)
    if homes and wanted.strict:
        fix = "leave out --strict, or name a directory: --cwd DIR"
        yield _refuse(item, f"{item.host.title} starts it in {' or '.join(homes)} (--strict)", fix)


def _refuse(item: Item, problem: str, fix: str) -> Finding:
    message = f"mcp-launch does not start {item.name}: {problem}"
    return Finding("ML121", item.point("args"), message, fix)


def _look_for_files(survey: Survey, item: Item, wanted: Profile) -> Iterator[Finding]:
    """Find dotenv files that do not exist."""
    place = _find_place(survey, item)
    for file in wanted.dotenv:
        path = survey.site.home + file[1:] if file == "~" or file.startswith("~/") else file
        is_known = os.path.isabs(path) or bool(place)
        if is_known and host_environment.is_solved(item, path):
            path = os.path.join(place, path)
            if not os.path.exists(path):
                problem = f"the dotenv file {path} does not exist"
                yield _refuse(item, problem, "create it, or name the right file with --dotenv FILE")


def _look_for_place(survey: Survey, item: Item, wanted: str) -> Iterator[Finding]:
    """Find missing directories that depend on where the launcher is started."""
    place = _find_place(survey, item)
    if not place or not host_environment.is_solved(item, wanted):
        return
    if wanted == "project_root":
        root = find_project_root(place)
        if isinstance(root, Missing):
            fix = "use --cwd session, or put an empty .mcp-launch.toml at the project's root"
            yield _refuse(item, f"there is no project root: {'; '.join(root.searched)}", fix)
    elif wanted not in PLACES and wanted[0] not in "/~":
        directory = os.path.normpath(os.path.join(place, wanted))
        if not os.path.isdir(directory):
            problem = f"its directory {directory} (--cwd) does not exist"
            yield _refuse(item, problem, "create it, or name another directory: --cwd DIR")


def _find_place(survey: Survey, item: Item) -> str:
    """Return the directory in which an entry's command is started; "" if there are several."""
    if item.is_of_project or item.path[0] == "projects":
        places = foresight.list_places(survey, item)
        return places[0] if len(places) == 1 else ""
    return ""


OF_ITEMS = (check,)
