"""Codex: TOML, for the user and for a project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.settings.host import MANAGED, PLUGIN, File, Host, find_plugin_files, in_project

if TYPE_CHECKING:
    from mcp_launch.settings.host import Site

_SERVERS = (("mcp_servers",),)


def _list_files(site: Site) -> list[File]:
    home = site.find_home("CODEX_HOME", ".codex")
    return [
        File(os.path.join(home, "config.toml"), "user", "toml", _SERVERS),
        File(in_project(site, ".codex", "config.toml"), "project", "toml", _SERVERS),
        File("/etc/codex/managed_config.toml", "managed", "toml", _SERVERS, MANAGED),
        *[
            File(path, "plugin", servers=(("mcpServers",), ()), why_not=PLUGIN)
            for path in find_plugin_files(os.path.join(home, "plugins"), ".mcp.json")
        ],
    ]


HOST = Host("codex", "Codex", _list_files)
