"""What would be started for an entry, with what and where; nothing is started for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts
from mcp_launch.errors import LaunchError, SourceMissing
from mcp_launch.launch import environment, profile
from mcp_launch.machine import host_environment
from mcp_launch.values import name_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.launch.profile import Profile
    from mcp_launch.machine.survey import Item, Survey


class Launch(NamedTuple):
    """One server, as its host would start it."""

    command: list[str]  # the server's own; none if it is out of reach
    given: Mapping[str, str]  # what the host gives, to the server or to the launcher before it
    environ: Mapping[str, str]  # what the server itself gets
    places: list[str]  # the directories in one of which it is started; none: nobody knows
    profile: Profile | None = None  # what a wrapped entry asks for


def foresee(survey: Survey, item: Item) -> Launch:
    """Return what would be started."""
    given = host_environment.give(survey, item)
    places = list_places(survey, item)
    if not item.is_wrapped:
        return Launch(_spell_out(survey, item, item.command), given, given, places)
    try:
        wanted = read_profile(survey, item, given)
    except LaunchError:
        return Launch([], given, given, places)  # which is told of the entry, or of the file
    command = _spell_out(survey, item, wanted.command)
    environ = _select(survey, item, wanted, given)
    return Launch(command, given, environ, _move(survey, wanted.cwd, places), wanted)


def has_cwd(item: Item) -> bool:
    """Tell whether a `cwd` in the entry counts."""
    return item.host.quirks.cwd in {"honoured", "absolute"}


def list_places(survey: Survey, item: Item) -> list[str]:
    """Return the directories in one of which a host starts an entry's command."""
    site = survey.site
    project = find_project(survey, item)
    cwd = item.entry.get("cwd")
    if has_cwd(item) and isinstance(cwd, str) and cwd:
        cwd = host_environment.expand(survey, item, cwd)
        if item.host.quirks.cwd == "absolute" and not os.path.isabs(cwd):
            return []  # from wherever its daemon runs
        if item.host.quirks.texts.expands_tilde and cwd.startswith("~"):
            cwd = site.home + cwd[1:]
        return [os.path.join(project, cwd)]
    # Some start the servers of all projects in a place of their own, and do not say in which.
    return ["/", site.home, project] if item.host.starts_anywhere else [project]


def list_homes(survey: Survey, item: Item, wanted: Profile) -> list[str]:
    """Return those places that are a home or `/`, if `--cwd` leaves it to the host which it is.

    Of an entry that is not a project's nobody knows where its host is started, unless that
    host starts servers in places of its own.
    """
    is_known = item.host.starts_anywhere or item.is_of_project or item.path[0] == "projects"
    if wanted.cwd not in {"session", "project_root"} or not is_known:
        return []
    home, title = survey.site.home, item.host.title
    return [place for place in list_places(survey, item) if name_home(place, home, [], title)]


def find_project(survey: Survey, item: Item) -> str:
    """Return the project for which an entry is looked at."""
    return item.scope.partition("local: ")[2] or survey.site.project


def _spell_out(survey: Survey, item: Item, command: list[str]) -> list[str]:
    """Return a command as its host understands it; nothing if the host knows more than we do."""
    words = [host_environment.expand(survey, item, word) for word in command]
    if item.host.quirks.texts.expands_tilde:
        home = survey.site.home
        words = [home + word[1:] if word.startswith("~/") else word for word in words]
    is_known = bool(words) and host_environment.is_solved(item, words[0]) and "\0" not in words[0]
    return words if is_known else []


def read_profile(survey: Survey, item: Item, given: Mapping[str, str]) -> Profile:
    """Return what a wrapped entry asks the launcher for.

    Raises:
        LaunchError: The launcher would refuse it.

    """
    project = find_project(survey, item)
    words = [host_environment.expand(survey, item, word) for word in item.words[2:]]
    return profile.load(words, given, lambda: project, is_launch=False)


def list_kept_back(
    survey: Survey, item: Item, wanted: Profile, given: Mapping[str, str]
) -> dict[str, str]:
    """Return what `--pass-env` keeps back of what a host gives, each with the reason."""
    title = item.host.title
    is_known = not hosts.load(item.host.name).adds_variables
    theirs = host_environment.read_host(survey, item.host) if is_known else {}
    return environment.list_kept_back(
        given,
        wanted.pass_env,
        lambda name, text: environment.compare(name, text, theirs, title),
    )


def _select(
    survey: Survey, item: Item, wanted: Profile, given: Mapping[str, str]
) -> dict[str, str]:
    """Return what the launcher leaves of what it gets, and what it adds for certain."""
    kept_back = list_kept_back(survey, item, wanted, given)
    environ = {name: text for name, text in given.items() if name not in kept_back}
    for name, text in wanted.literals.items():
        try:
            environ[name] = environment.expand(text, name, given)
        except SourceMissing:
            continue  # the launch stops there, which is said of the variable it lacks
    for name, variable in wanted.env.items():
        borrowed = given.get(variable.sought) if variable.source == "local" else ""
        value = variable.default if borrowed is None else borrowed
        if value is not None:
            environ[name] = value
    return environ


def _move(survey: Survey, wanted: str, places: list[str]) -> list[str]:
    """Return where `--cwd` puts a server that would start in one of these places."""
    if wanted in {"session", "keep"}:
        return places
    if wanted == "project_root":
        return [survey.site.project]
    if wanted == "~" or wanted.startswith("~/"):
        wanted = survey.site.home + wanted[1:]
    return [os.path.join(place, wanted) for place in places] or [wanted]
