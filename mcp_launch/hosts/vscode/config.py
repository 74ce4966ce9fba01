"""VS Code: one file for the user, one in a workspace; comments are allowed."""

from __future__ import annotations

import os

from mcp_launch.config_files.host_config import File, HostConfig, in_project

_SERVERS = (("servers",),)

CONFIG = HostConfig(
    "vscode",
    "VS Code",
    lambda site: [
        File(os.path.join(site.applications, "Code", "User", "mcp.json"), "user", servers=_SERVERS),
        File(in_project(site, ".vscode", "mcp.json"), "workspace", servers=_SERVERS),
    ],
)
