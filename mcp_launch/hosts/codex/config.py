"""Codex: TOML, for the user and for a project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import (
    MANAGED,
    PLUGIN,
    File,
    HostConfig,
    count_inside,
    find_plugin_files,
    list_upward,
)

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import Site

_SERVERS = (("mcp_servers",),)


def _list_files(site: Site) -> list[File]:
    home = site.find_home("CODEX_HOME", ".codex")
    return [
        find_own(site),
        *[File(path, "project", "toml", _SERVERS) for path in _list_of_project(site)],
        File("/etc/codex/managed_config.toml", "managed", "toml", _SERVERS, MANAGED),
        *[
            File(path, "plugin", servers=(("mcpServers",), ()), why_not=PLUGIN)
            for path in find_plugin_files(os.path.join(home, "plugins"), ".mcp.json")
        ],
    ]


def find_own(site: Site) -> File:
    """Return the user's own file."""
    home = site.find_home("CODEX_HOME", ".codex")
    return File(os.path.join(home, "config.toml"), "user", "toml", _SERVERS)


def _list_of_project(site: Site) -> list[str]:
    """Return the files of a project: up to its repository's root, or its own alone."""
    return list_upward(site, ".codex", "config.toml")[: count_inside(site)]


CONFIG = HostConfig("codex", "Codex", _list_files)
