"""Configuration of the hosts that need nothing but a place to look: one entry each.

To have `wrap` and `doctor` know another such host, add an entry to `SIMPLE`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import File, HostConfig, in_home, in_project
from mcp_launch.config_files.wrap import Shape

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import Site

# Cline's file is in the storage that VS Code gives its extensions.
_CLINE = ("Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings")

# opencode's second version moved the servers one level down, among settings of `mcp` itself.
_OPENCODE_SERVERS = (("mcp", "servers"), ("mcp",))

_ZED_SERVERS = (("context_servers",),)


def _list_cline_files(site: Site) -> list[File]:
    default = os.path.join(site.applications, *_CLINE, "cline_mcp_settings.json")
    return [File(site.environ.get("CLINE_MCP_SETTINGS_PATH") or default, "user")]


def _list_opencode_files(site: Site) -> list[File]:
    user = os.path.join(site.find_home("XDG_CONFIG_HOME", ".config"), "opencode")
    return [
        File(os.path.join(directory, name), scope, servers=_OPENCODE_SERVERS)
        for directory, scope in ((user, "user"), (in_project(site), "project"))
        for name in ("opencode.json", "opencode.jsonc")
    ]


def _list_zed_files(site: Site) -> list[File]:
    user = os.path.join(site.find_home("XDG_CONFIG_HOME", ".config"), "zed", "settings.json")
    project = in_project(site, ".zed", "settings.json")
    return [
        File(user, "user", servers=_ZED_SERVERS),
        File(project, "project", servers=_ZED_SERVERS),
    ]


SIMPLE = (
    HostConfig(
        "claude-desktop",
        "Claude Desktop",
        lambda site: [
            File(os.path.join(site.applications, "Claude", "claude_desktop_config.json"), "user")
        ],
        starts_anywhere=True,
    ),
    HostConfig(
        "cursor",
        "Cursor",
        lambda site: [
            File(in_home(site, ".cursor", "mcp.json"), "user"),
            File(in_project(site, ".cursor", "mcp.json"), "project"),
        ],
        starts_anywhere=True,
    ),
    HostConfig(
        "gemini",
        "Gemini CLI",
        lambda site: [
            File(in_home(site, ".gemini", "settings.json"), "user"),
            File(in_project(site, ".gemini", "settings.json"), "project"),
        ],
    ),
    # The command and its arguments are one list.
    HostConfig("opencode", "opencode", _list_opencode_files, (Shape(is_one_list=True),)),
    # Before 2025 the command was a table of its own.
    HostConfig(
        "zed", "Zed", _list_zed_files, (Shape(), Shape(("command", "path"), ("command", "args")))
    ),
    HostConfig(
        "windsurf",
        "Windsurf",
        lambda site: [File(in_home(site, ".codeium", "windsurf", "mcp_config.json"), "user")],
        starts_anywhere=True,
    ),
    HostConfig("cline", "Cline", _list_cline_files, starts_anywhere=True),
    HostConfig(
        "copilot",
        "Copilot CLI",
        lambda site: [
            File(in_home(site, ".copilot", "mcp-config.json"), "user"),
            File(in_project(site, ".github", "mcp.json"), "repository"),
        ],
    ),
)
