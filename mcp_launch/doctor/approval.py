"""Whether a project's servers may be started: Codex trusts projects, Claude Code each server.

Seen on Codex 0.166 and Claude Code 2.1.325. Trust is looked up by real paths: the directory,
the root of its Git repository, the repository of which it is a worktree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from mcp_launch.consequences import read_json
from mcp_launch.doctor.finding import Finding, Subject
from mcp_launch.errors import FileRefused
from mcp_launch.settings import HOSTS, claude

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.doctor.survey import Item, Survey
    from mcp_launch.settings.host import File, Site

    State = Literal["approved", "pending", "rejected"]

# The files in a project's .claude.
_SETTINGS = ("settings.json", "settings.local.json")

# Stands between a repository and what it knows of its worktrees.
_WORKTREES = "/.git/worktrees/"


def check_trust(survey: Survey) -> Iterator[Finding]:
    """Look for servers of a project that Codex does not trust (ML109)."""
    items = [
        item
        for item in survey.items
        if item.host.name == "codex" and item.is_of_project and item.entry.get("enabled", True)
    ]
    level = read_trust(survey)
    user = _find_own(survey.site, "codex").path
    is_unknown = any(refusal.file.path == user for refusal in survey.refusals)
    if not items or level == "trusted" or is_unknown:
        return
    root = _list_roots(survey.site.project)[-1]
    names = ", ".join(item.name for item in items)
    said = f"{user} says that {root} is untrusted" if level else f"Codex does not trust {root}"
    yield Finding(
        "ML109",
        Subject("codex", "", "project", items[0].file.path),
        f"{said}: it does not read this file, and does not start {names}",
        f"if you trust it, run codex in {root} and say so; that writes "
        f'[projects."{root}"] trust_level = "trusted" into {user}',
    )


def read_trust(survey: Survey) -> str:
    """Return how far Codex trusts the project; nothing if it was not asked yet."""
    for root in _list_roots(survey.site.project):
        level = _read_own(survey, "codex", root).get("trust_level")
        if isinstance(level, str):
            return level
    return ""


def _read_own(survey: Survey, host: str, project: str) -> dict[str, Any]:
    """Return what the user's own file of a host says of a project."""
    own = _find_own(survey.site, host)
    try:
        found = survey.read(own).get(("projects", project))
    except FileRefused:
        return {}  # it is not there, or that it makes no sense is told elsewhere
    return found if isinstance(found, dict) else {}


def _find_own(site: Site, host: str) -> File:
    files: list[File] = HOSTS[host].list_files(site)
    return next(file for file in files if file.scope == "user")


def _list_roots(project: str) -> list[str]:
    """Return the directories by which a project may be trusted, the nearest first."""
    directory = os.path.realpath(project)
    roots = [directory]
    while not os.path.exists(os.path.join(directory, ".git")):
        above = os.path.dirname(directory)
        if above == directory:
            return roots
        directory = above
    roots.append(directory)
    try:
        with open(os.path.join(directory, ".git"), encoding="utf-8") as file:
            repository, mark, _ = file.read().removeprefix("gitdir: ").partition(_WORKTREES)
    except (OSError, ValueError):
        return roots  # a directory: it is the repository itself
    return [*roots, repository] if mark else roots


def check_approval(survey: Survey) -> Iterator[Finding]:
    """Look for servers of a project that Claude Code asks about (ML110)."""
    for item in survey.items:
        if item.host.name == "claude" and item.is_of_project:
            yield from _tell(survey, item)


def find_state(survey: Survey, name: str) -> State:
    """Return whether Claude Code starts a server of the project's .mcp.json in a terminal."""
    sources = _read_settings(survey)
    if any(_lists(settings, "disabledMcpjsonServers", name) for settings in sources.values()):
        return "rejected"
    if not _is_trusted(survey):
        sources = {path: sources[path] for path in _list_user_files(survey.site)}
    return "approved" if any(_approves(one, name) for one in sources.values()) else "pending"


def _is_trusted(survey: Survey) -> bool:
    roots = [survey.site.project, *_list_roots(survey.site.project)]
    return any(
        _read_own(survey, "claude", root).get("hasTrustDialogAccepted") is True for root in roots
    )


def _tell(survey: Survey, item: Item) -> Iterator[Finding]:
    sources = _read_settings(survey)
    approving = [path for path, settings in sources.items() if _approves(settings, item.name)]
    project = survey.site.project
    state = find_state(survey, item.name)
    if state == "rejected" and approving:
        [rejecting, *_] = [
            path
            for path, settings in sources.items()
            if _lists(settings, "disabledMcpjsonServers", item.name)
        ]
        message = f"{approving[0]} approves {item.name}, and {rejecting} disables it, which counts"
        fix = f"take it out of disabledMcpjsonServers in {rejecting}, if you want it"
        yield Finding("ML110", item.point(), message, fix)
    elif state == "pending":
        message = f"Claude Code does not start {item.name} in a terminal before you approve it"
        if approving:
            message += f"; {approving[0]} does, but counts only once you trust {project}"
        fix = f"look at it, then run claude in {project} and answer what it asks"
        yield Finding("ML110", item.point(), message, fix)


def _read_settings(survey: Survey) -> dict[str, dict[str, Any]]:
    """Return all that may approve servers, by the files it is in."""
    project = survey.site.project
    files = _list_user_files(survey.site)
    files += [os.path.join(project, ".claude", name) for name in _SETTINGS]
    own = _find_own(survey.site, "claude").path
    return {path: read_json(path) for path in files} | {own: _read_own(survey, "claude", project)}


def _list_user_files(site: Site) -> list[str]:
    """Return the settings that count whether the project is trusted or not."""
    home = site.find_home("CLAUDE_CONFIG_DIR", ".claude")
    return [*claude.list_managed_settings(site), os.path.join(home, "settings.json")]


def _approves(settings: dict[str, Any], name: str) -> bool:
    is_open = settings.get("enableAllProjectMcpServers") is True
    return is_open or _lists(settings, "enabledMcpjsonServers", name)


def _lists(settings: dict[str, Any], key: str, name: str) -> bool:
    names = settings.get(key)
    return isinstance(names, list) and name in names


OF_ALL = (check_trust, check_approval)
