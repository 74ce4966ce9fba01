"""Codex's own file: where it is, and which projects it trusts.

Seen on Codex 0.166. It looks a project up by real paths: the directory, the root of its Git
repository, the repository of which it is a worktree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import Approval, File, list_roots, read_of_project
from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import Source, State
    from mcp_launch.config_files.site import Site

# Where the servers are in a file.
SERVERS = (("mcp_servers",),)


def find_own(site: Site) -> File:
    """Return the user's own file."""
    home = site.find_home("CODEX_HOME", ".codex")
    return File(os.path.join(home, "config.toml"), "user", "toml", SERVERS)


class ProjectTrust(Approval):
    """It reads a project's file only if its user trusts the project."""

    asks = "of the project"

    def find_state(self, source: Source, file: File, name: str) -> State:
        """Return how far it trusts the project of a file."""
        del name  # all servers of a file are the same to it
        own = find_own(source.site)
        for root in _list_roots(file):
            level = read_of_project(source, own, root).get("trust_level")
            if isinstance(level, str):
                return "approved" if level == "trusted" else "rejected"
        return "pending"

    def tell_why_not(self, source: Source, file: File, name: str) -> str:
        """Return why it does not start a server; "" if it does."""
        is_trusted = self.find_state(source, file, name) == "approved"
        return "" if is_trusted else f"Codex does not trust {_list_roots(file)[-1]}"

    def explain(self, source: Source, file: File, names: list[str]) -> tuple[str, str] | None:
        """Return why it does not read a file, and what to do."""
        own, root = find_own(source.site), _list_roots(file)[-1]
        state = self.find_state(source, file, "")
        if state == "approved" or _is_unreadable(source, own):
            return None
        why = f"Codex does not trust {root}"
        if state == "rejected":
            why = f"{own.path} marks {root} as untrusted"
        message = f"{why}: it does not read this file, and does not start {', '.join(names)}"
        written = f'[projects."{root}"] trust_level = "trusted" into {own.path}'
        return message, f"if you trust it, run codex in {root} and confirm; that writes {written}"


def _list_roots(file: File) -> list[str]:
    """Return the directories that it may trust to read a file of a project."""
    return list_roots(os.path.dirname(os.path.dirname(file.path)))


def _is_unreadable(source: Source, own: File) -> bool:
    """Return whether the user's file exists but cannot be read."""
    try:
        source.read(own)
    except FileRefused:
        return os.path.lexists(own.path)
    return False
