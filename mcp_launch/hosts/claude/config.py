"""Claude Code: one file for the user and for each project's private servers, one in a project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import (
    ANY,
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

_MANAGED = {
    "darwin": "/Library/Application Support/ClaudeCode",
    "win32": "C:\\Program Files\\ClaudeCode",
}


def _list_files(site: Site) -> list[File]:
    managed = os.path.join(_MANAGED.get(site.platform, "/etc/claude-code"), "managed-mcp.json")
    return [
        find_own(site),
        # Of one name, it takes the nearest.
        *[
            File(path, "project", is_outside=above >= count_inside(site))
            for above, path in enumerate(list_upward(site, ".mcp.json"))
        ],
        File(managed, "managed", why_not=MANAGED),
        *[
            File(path, "plugin", servers=(("mcpServers",), ()), why_not=PLUGIN)
            for path in find_plugin_files(find_plugins(site), ".mcp.json")
        ],
    ]


def find_own(site: Site) -> File:
    """Return the user's own file, in which the private servers of all projects are too."""
    own = os.path.join(site.environ.get("CLAUDE_CONFIG_DIR") or site.home, ".claude.json")
    servers = (("mcpServers",), ("projects", ANY, "mcpServers"))
    return File(own, "user", servers=servers, lock=f"{own}.lock")


def list_managed_settings(site: Site) -> list[str]:
    """Return the files in which an organisation may allow servers by their command."""
    directory = _MANAGED.get(site.platform, "/etc/claude-code")
    return [os.path.join(directory, "managed-settings.json")]


def find_plugins(site: Site) -> str:
    """Return where plugins are installed."""
    return os.path.join(site.find_home("CLAUDE_CONFIG_DIR", ".claude"), "plugins")


CONFIG = HostConfig("claude", "Claude Code", _list_files)
