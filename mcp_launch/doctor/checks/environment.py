"""All checks of what a server gets when its host starts it: program, variables, directory."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from mcp_launch.doctor.checks import (
    launcher_refuses,
    leaked_variables,
    program_not_found,
    remote_servers,
)
from mcp_launch.doctor.finding import Finding
from mcp_launch.machine import host_environment, preview_inputs
from mcp_launch.machine.preview import predict
from mcp_launch.machine.wrap_hint import tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey

# Options of uv that name the project's directory.
_OF_UV = ("--directory", "--project")


def check_directory(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find directories in an entry that do not exist (ML207)."""
    launch = predict(survey, item)
    wanted = launch.profile.cwd if launch.profile else "session"
    if wanted not in {"session", "project_root", "keep"}:
        absolute = [place for place in launch.places if wanted[0] in "/~"]
        yield from _report(item, "--cwd", absolute)
    cwd, key = item.cwd, item.host.quirks.cwd_key
    if preview_inputs.has_cwd(item) and isinstance(cwd, str):
        places = [*launch.situation.places]
        is_certain = cwd[:1] in {"/", "~"} and host_environment.is_solved(item, cwd)
        yield from _report(item, key, places if is_certain else [])
    yield from _report(item, "uv --directory", _find_uv(launch.command))


def check_home(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find wrapped entries that their host starts in a home or in `/` (ML208)."""
    launch = predict(survey, item)
    if launch.profile is None or launch.profile.strict:
        return  # not wrapped, or refused, which is another finding
    homes = launch.list_homes()
    if homes:
        yield Finding(
            "ML208",
            item.point("args"),
            f"{item.host.title} starts '{item.name}' in {' or '.join(homes)}, not in a project",
            f"if it works on files, give it a directory: {tell_how(item, '--cwd DIR')}",
        )


def _report(item: Item, setting: str, places: list[str]) -> Iterator[Finding]:
    for place in places[:1]:
        if not os.path.isdir(place):
            what = "is not a directory" if os.path.exists(place) else "does not exist"
            subject = item.point(setting if setting in item.entry else "args")
            yield Finding(
                "ML207",
                subject,
                f"{place} ({setting}) {what}, so the server does not start",
                f"create it, or correct {setting}",
            )


def _find_uv(command: list[str]) -> list[str]:
    """Return the absolute directories in which uv should look for a project."""
    if not command or os.path.basename(command[0]) not in {"uv", "uvx"}:
        return []
    pairs = pairwise(command)
    return [place for option, place in pairs if option in _OF_UV and os.path.isabs(place)]


OF_ITEMS = (
    launcher_refuses.check,
    program_not_found.check,
    leaked_variables.check_needed,
    check_directory,
    check_home,
)
OF_ALL = (leaked_variables.check_credentials, *remote_servers.OF_ALL)
