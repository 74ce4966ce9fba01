"""What the hosts' own files say of a project and its servers: trusted, approved, switched off.

Seen on Codex 0.166 and Claude Code 2.1.325. Trust is looked up by real paths: the directory,
the root of its Git repository, the repository of which it is a worktree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from mcp_launch.errors import FileRefused
from mcp_launch.hosts.claude import config as claude_config
from mcp_launch.hosts.codex import config as codex_config
from mcp_launch.machine.wrap_warnings import read_json

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import File
    from mcp_launch.config_files.site import Site
    from mcp_launch.machine.survey import Item, Survey

    State = Literal["approved", "pending", "rejected"]

# The files in a project's .claude.
_SETTINGS = ("settings.json", "settings.local.json")

# Stands between a repository and what it knows of its worktrees.
_WORKTREES = "/.git/worktrees/"

# Why a server that is in a file is not started.
OFF = "it is disabled"
HIDDEN = "a nearer .mcp.json has it too"
SKIPPED = "Claude Code skips it"


def read_trust(survey: Survey, file: File) -> str:
    """Return how far Codex trusts the directory of a project's file; nothing: it did not ask."""
    for root in list_roots(os.path.dirname(os.path.dirname(file.path))):
        level = _read_own(survey, codex_config.find_own(survey.site), root).get("trust_level")
        if isinstance(level, str):
            return level
    return ""


def _read_own(survey: Survey, own: File, project: str) -> dict[str, Any]:
    """Return what the user's own file of a host says of a project."""
    try:
        found = survey.read(own).get(("projects", project))
    except FileRefused:
        return {}  # it is not there, or that it makes no sense is told elsewhere
    return found if isinstance(found, dict) else {}


def list_roots(project: str) -> list[str]:
    """Return the directories by which a project may be known, the nearest first."""
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


def find_state(survey: Survey, name: str) -> State:
    """Return whether Claude Code starts a server of the project's .mcp.json in a terminal."""
    sources = survey.approvals
    if any(has(settings, "disabledMcpjsonServers", name) for settings in sources.values()):
        return "rejected"
    if not _is_trusted(survey):
        sources = {path: sources[path] for path in _list_user_files(survey.site)}
    return "approved" if any(approves(one, name) for one in sources.values()) else "pending"


def _is_trusted(survey: Survey) -> bool:
    own = claude_config.find_own(survey.site)
    roots = [survey.site.project, *list_roots(survey.site.project)]
    return any(_read_own(survey, own, root).get("hasTrustDialogAccepted") is True for root in roots)


def read_settings(survey: Survey) -> dict[str, dict[str, Any]]:
    """Return all that may approve Claude Code's servers, by the files it is in."""
    project = survey.site.project
    files = _list_user_files(survey.site)
    files += [os.path.join(project, ".claude", name) for name in _SETTINGS]
    own = claude_config.find_own(survey.site)
    return {path: read_json(path) for path in files} | {own.path: _read_own(survey, own, project)}


def _list_user_files(site: Site) -> list[str]:
    """Return the settings that count whether the project is trusted or not."""
    home = site.find_home("CLAUDE_CONFIG_DIR", ".claude")
    return [*claude_config.list_managed_settings(site), os.path.join(home, "settings.json")]


def approves(settings: dict[str, Any], name: str) -> bool:
    """Tell whether settings approve a project's server."""
    is_open = settings.get("enableAllProjectMcpServers") is True
    return is_open or has(settings, "enabledMcpjsonServers", name)


def has(settings: dict[str, Any], key: str, name: str) -> bool:
    """Tell whether a list of the settings has a name."""
    names = settings.get(key)
    return isinstance(names, list) and name in names


def tell_why_off(survey: Survey, item: Item) -> str:
    """Return why Claude Code leaves out a server that it could start; nothing if it does not."""
    if item.host.quirks.approval != "of each server":
        return ""
    is_private = item.path[0] == "projects"
    if is_private and not os.path.isdir(str(item.path[1])):
        return "its project is gone"
    homes = [str(item.path[1])] if is_private else _list_names(survey.site.project)
    own = claude_config.find_own(survey.site)
    if any(has(_read_own(survey, own, home), "disabledMcpServers", item.name) for home in homes):
        return OFF
    if any(_denies(settings, item) for settings in survey.approvals.values()):
        return OFF
    is_rejected = item.is_of_project and find_state(survey, item.name) == "rejected"
    return OFF if is_rejected else ""


def _list_names(project: str) -> list[str]:
    """Return the keys under which Claude Code keeps what it knows of a project."""
    roots = list_roots(project)
    return roots[-1:] if len(roots) > 1 else [project, *roots]


def _denies(settings: dict[str, Any], item: Item) -> bool:
    rules = settings.get("deniedMcpServers")
    denied = ({"serverName": item.name}, {"serverCommand": item.words})
    return isinstance(rules, list) and any(rule in denied for rule in rules)
