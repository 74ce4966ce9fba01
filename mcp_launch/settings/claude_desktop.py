"""Claude Desktop: one file for the user."""

from __future__ import annotations

import os

from mcp_launch.settings.host import File, Host

HOST = Host(
    "claude-desktop",
    "Claude Desktop",
    lambda site: [
        File(os.path.join(site.applications, "Claude", "claude_desktop_config.json"), "user")
    ],
    starts_anywhere=True,
)
