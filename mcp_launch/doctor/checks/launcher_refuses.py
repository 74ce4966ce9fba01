"""Wrapped entries whose launch would fail before the server is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files import planned_changes, wrap
from mcp_launch.doctor.checks import contradictory_profiles
from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import Contradiction, LaunchError, ProfileRefused
from mcp_launch.launch import dotenv
from mcp_launch.machine import host_environment
from mcp_launch.machine.preview import predict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.launch.profile import Profile
    from mcp_launch.machine.preview import Preview
    from mcp_launch.machine.survey import Item, Survey


def check(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find what the launcher of an entry refuses (ML121)."""
    shape = planned_changes.find_shape(item.document, item.host, item.path)
    if shape and (correction := wrap.add_run(item.document, shape, item.words)):
        yield _refuse(item, "the word `run` is missing", f"write {correction}")
        return
    launch = predict(survey, item)
    if survey.site.platform == "win32" or not launch.situation.is_launched:
        return
    refused, wanted = launch.refused, launch.profile
    if refused is not None and not _is_reported(launch, refused):
        yield _refuse(item, refused.problem, refused.fix)
    if wanted is not None:
        yield from _look_for_files(item, launch, wanted)
        yield from _look_for_place(item, launch, wanted)


def _is_reported(launch: Preview, refused: LaunchError) -> bool:
    """Return whether the cause is a profile: ML013."""
    if isinstance(refused, Contradiction):
        return contradictory_profiles.is_of_profile(launch)
    return isinstance(refused, ProfileRefused)


def _refuse(item: Item, problem: str, fix: str) -> Finding:
    message = f"mcp-launch does not start '{item.name}': {problem}"
    return Finding("ML121", item.point("args"), message, fix)


def _look_for_files(item: Item, launch: Preview, wanted: Profile) -> Iterator[Finding]:
    """Find dotenv files that cannot be read."""
    refused = launch.dotenv_refused
    if refused is None:
        return
    for file in wanted.dotenv or [".env"]:
        is_known = launch.is_place_known or file[:1] in {"/", "~"}
        path = dotenv.locate(file, launch.found)
        if is_known and host_environment.is_solved(item, path) and path in refused.problem:
            yield _refuse(item, refused.problem, refused.fix)


def _look_for_place(item: Item, launch: Preview, wanted: Profile) -> Iterator[Finding]:
    """Find missing directories that depend on where the launcher is started."""
    refused, homes = launch.place_refused, launch.list_homes()
    # One that does not depend on it is another finding.
    is_judged = launch.is_place_known and wanted.cwd[0] not in "/~"
    if homes and wanted.strict:
        fix = "leave out --strict, or name a directory: --cwd DIR"
        yield _refuse(item, f"{item.host.title} starts it in {' or '.join(homes)} (--strict)", fix)
    elif refused and is_judged and host_environment.is_solved(item, wanted.cwd):
        yield _refuse(item, refused.problem, refused.fix)


OF_ITEMS = (check,)
