"""Windsurf: one file for the user."""

from __future__ import annotations

from mcp_launch.settings.host import File, Host, in_home

HOST = Host(
    "windsurf",
    "Windsurf",
    lambda site: [File(in_home(site, ".codeium", "windsurf", "mcp_config.json"), "user")],
    starts_anywhere=True,
)
