"""Zed: servers are a part of its settings; comments are allowed."""

from __future__ import annotations

import os

from mcp_launch.config_files.wrap import Shape
from mcp_launch.settings.host import File, Host, in_project

_SERVERS = (("context_servers",),)

HOST = Host(
    "zed",
    "Zed",
    lambda site: [
        File(
            os.path.join(site.find_home("XDG_CONFIG_HOME", ".config"), "zed", "settings.json"),
            "user",
            servers=_SERVERS,
        ),
        File(in_project(site, ".zed", "settings.json"), "project", servers=_SERVERS),
    ],
    # Before 2025 the command was a table of its own.
    (Shape(), Shape(("command", "path"), ("command", "args"))),
)
