"""The places of a host's files as data: most hosts differ in nothing but paths and keys."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.config_files.host_config import File, in_project
from mcp_launch.config_files.host_quirks import Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcp_launch.config_files.site import Site
    from mcp_launch.documents.document import Kind
    from mcp_launch.documents.positions import Path

MCP_SERVERS: tuple[Path, ...] = (("mcpServers",),)

# The scopes of files that belong to a project.
_OF_PROJECTS = ("project", "workspace", "repository")

# How many files a pattern may find; a directory with more is something else.
_MOST_FILES = 100


class Place(NamedTuple):
    """Where a host has one file, or several beside each other, and what is in it."""

    directory: str  # below the home or, in the scope of a project, below the project
    names: tuple[str, ...]  # of files in it; `*` stands for any
    scope: str = "user"
    variable: str = ""  # names the directory instead
    below: str = ""  # the files are in this directory below the one that the variable names
    kind: Kind = "json"
    servers: tuple[Path, ...] = MCP_SERVERS
    has_lists: bool = False
    why_not: str = ""
    lives_in: str = ""

    def list_files(self, site: Site) -> list[File]:
        """Return its files on this machine; a name without `*` also if there is none."""
        base = self._find_base(site)
        paths = [path for name in self.names for path in _find(os.path.join(base, name))]
        return [
            File(
                path,
                self.scope,
                self.kind,
                self.servers,
                self.why_not,
                has_lists=self.has_lists,
                lives_in=self.lives_in,
            )
            for path in paths
        ]

    def _find_base(self, site: Site) -> str:
        if self.scope in _OF_PROJECTS:
            return in_project(site, self.directory)
        # An absolute directory is the system's.
        moved = site.find_home(self.variable, self.directory)
        return os.path.join(moved, self.below) if self.below else moved


def list_at(*places: Place) -> Callable[[Site], list[File]]:
    """Return a function that lists the files at all these places."""
    return lambda site: [file for place in places for file in place.list_files(site)]


def in_both(directory: str, name: str, **facts: Any) -> tuple[Place, Place]:  # noqa: ANN401  # of Place
    """Return the user's and the project's place, for a host that calls both the same."""
    return Place(directory, (name,), **facts), Place(directory, (name,), "project", **facts)


def wait(
    title: str, seconds: float, key: str = "", in_second: int = 1
) -> Callable[[Mapping[str, Any], Mapping[str, str]], list[Wait]]:
    """Return how long a host waits for a server, given the key of an entry that changes this."""

    def list_waits(entry: Mapping[str, Any], environ: Mapping[str, str]) -> list[Wait]:
        del environ  # it has no such setting, or we do not know it
        own = entry.get(key) if key else None
        is_set = isinstance(own, int | float) and not isinstance(own, bool) and own > 0
        patience = own / in_second if own is not None and is_set else seconds
        longer = f"set {key} in the entry to more than that" if key else "install the server"
        return [Wait(patience, f"{title} gives up after {patience:g} s", longer)]

    return list_waits


def _find(path: str) -> list[str]:
    if "*" not in path:
        return [path]
    before, _, after = path.partition("*")
    return sorted(glob.iglob(f"{glob.escape(before)}*{glob.escape(after)}"))[:_MOST_FILES]
