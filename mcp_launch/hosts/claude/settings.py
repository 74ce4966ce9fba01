"""Claude Code's own files of settings: where they are, and which servers they let it start.

Seen on Claude Code 2.1.325. It looks a project up by real paths: the directory, the root of its
Git repository, the repository of which it is a worktree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mcp_launch.config_files import planned_changes
from mcp_launch.config_files.host_config import (
    ANY,
    OFF,
    Approval,
    File,
    list_roots,
    read_of_project,
)
from mcp_launch.documents import jsonc
from mcp_launch.documents.positions import Unreadable
from mcp_launch.errors import FileRefused, LaunchError
from mcp_launch.hosts.claude import find_managed_directory

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import Source, State
    from mcp_launch.config_files.site import Site
    from mcp_launch.documents.positions import Path

_REJECTED = "disabledMcpjsonServers"


def find_own(site: Site) -> File:
    """Return the user's own file, which also has the private servers of all projects."""
    own = os.path.join(site.environ.get("CLAUDE_CONFIG_DIR") or site.home, ".claude.json")
    servers = (("mcpServers",), ("projects", ANY, "mcpServers"))
    return File(own, "user", servers=servers, lock=f"{own}.lock")


def find_managed(site: Site) -> str:
    """Return the directory of an organisation's files."""
    return find_managed_directory(site.platform)


def list_managed_settings(site: Site) -> list[str]:
    """Return the files in which an organisation may allow servers by command."""
    return [os.path.join(find_managed(site), "managed-settings.json")]


def list_settings(site: Site) -> list[str]:
    """Return the files whose `env` replaces what its process was started with.

    It expands entries and finds commands by them, and servers get them.
    """
    return [find_own(site).path, _find_users(site), *list_managed_settings(site)]


def list_project_settings(project: str) -> list[str]:
    """Return the files whose `env` reaches the servers only."""
    names = ("settings.json", "settings.local.json")
    return [os.path.join(project, ".claude", name) for name in names]


def _list_user_files(site: Site) -> list[str]:
    """Return the settings that count whether the project is trusted or not."""
    return [*list_managed_settings(site), _find_users(site)]


def _find_users(site: Site) -> str:
    return os.path.join(site.find_home("CLAUDE_CONFIG_DIR", ".claude"), "settings.json")


def list_allowlists(site: Site) -> list[str]:
    """Return the managed settings that allow servers by their exact command."""
    found = []
    for path in list_managed_settings(site):
        allowed = _read_json(path).get("allowedMcpServers")
        rules = allowed if isinstance(allowed, list) else []
        if any(isinstance(rule, dict) and "serverCommand" in rule for rule in rules):
            found.append(path)
    return found


def _read_json(path: str) -> dict[str, Any]:
    """Return what a file of settings says; nothing if it cannot be read."""
    try:
        value, _ = jsonc.read(planned_changes.read_file(path))
    except (LaunchError, Unreadable):
        return {}
    return value if isinstance(value, dict) else {}


class ServerApproval(Approval):
    """It asks for each server of a project's file before it starts it in a terminal."""

    asks = "of each server"

    def find_state(self, source: Source, file: File, name: str) -> State:
        """Return what the settings say of a server."""
        del file  # all files of a project are the same to it
        settings = _read_settings(source)
        if any(_has(one, _REJECTED, name) for one in settings.values()):
            return "rejected"
        if not _is_trusted(source):
            settings = {path: settings[path] for path in _list_user_files(source.site)}
        return "approved" if any(_approves(one, name) for one in settings.values()) else "pending"

    def tell_why_not(self, source: Source, file: File, name: str) -> str:
        """Return why it does not start a server; "" if it does."""
        reasons = {"pending": "you have not approved it in Claude Code", "rejected": OFF}
        return reasons.get(self.find_state(source, file, name), "")

    def explain(self, source: Source, file: File, names: list[str]) -> tuple[str, str] | None:
        """Return why it does not start a server, and what to do."""
        [name] = names
        project, settings = source.site.project, _read_settings(source)
        approving = [path for path, one in settings.items() if _approves(one, name)]
        rejecting = [path for path, one in settings.items() if _has(one, _REJECTED, name)]
        state = self.find_state(source, file, name)
        if state == "rejected" and approving:
            message = (
                f"{approving[0]} approves {name}, but {rejecting[0]} disables it, and that wins"
            )
            return message, f"if you want it, remove it from {_REJECTED} in {rejecting[0]}"
        if state != "pending":
            return None
        message = f"Claude Code does not start {name} in a terminal until you approve it"
        if approving:
            message += f"; {approving[0]} approves it, but only once you trust {project}"
        return message, f"review it, then run claude in {project} and answer its question"

    def tell_why_off(
        self, source: Source, path: Path, words: list[str], *, is_of_project: bool
    ) -> str:
        """Return why it leaves out a server that it could start; "" if it does not."""
        own, name = find_own(source.site), str(path[-1])
        is_private = path[0] == "projects"
        if is_private and not os.path.isdir(str(path[1])):
            return "its project is gone"
        homes = [str(path[1])] if is_private else _list_names(source.site.project)
        known = [read_of_project(source, own, home) for home in homes]
        denied = ({"serverName": name}, {"serverCommand": words})
        is_rejected = is_of_project and self.find_state(source, own, name) == "rejected"
        if is_rejected or any(_has(one, "disabledMcpServers", name) for one in known):
            return OFF
        return OFF if any(_denies(one, denied) for one in _read_settings(source).values()) else ""


def _read_settings(source: Source) -> dict[str, dict[str, Any]]:
    """Return all that may approve or forbid servers, by the files it is in."""
    site, own = source.site, find_own(source.site)
    files = [*_list_user_files(site), *list_project_settings(site.project)]
    found: dict[str, dict[str, Any]] = {}
    for path in files:
        try:
            said = source.read(File(path, "settings")).get(())
        except FileRefused:
            said = None  # it does not exist, or is invalid
        found[path] = said if isinstance(said, dict) else {}
    return found | {own.path: read_of_project(source, own, site.project)}


def _is_trusted(source: Source) -> bool:
    own, project = find_own(source.site), source.site.project
    said = (read_of_project(source, own, root) for root in (project, *list_roots(project)))
    return any(one.get("hasTrustDialogAccepted") is True for one in said)


def _list_names(project: str) -> list[str]:
    """Return the keys under which it keeps what it knows of a project."""
    roots = list_roots(project)
    return roots[-1:] if len(roots) > 1 else [project, *roots]


def _approves(settings: dict[str, Any], name: str) -> bool:
    is_open = settings.get("enableAllProjectMcpServers") is True
    return is_open or _has(settings, "enabledMcpjsonServers", name)


def _has(settings: dict[str, Any], key: str, name: str) -> bool:
    names = settings.get(key)
    return isinstance(names, list) and name in names


def _denies(settings: dict[str, Any], denied: tuple[dict[str, Any], ...]) -> bool:
    rules = settings.get("deniedMcpServers")
    return isinstance(rules, list) and any(rule in denied for rule in rules)
