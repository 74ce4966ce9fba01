"""Cursor: one file for the user, one in a project."""

from __future__ import annotations

from mcp_launch.settings.host import File, Host, in_home, in_project

HOST = Host(
    "cursor",
    "Cursor",
    lambda site: [
        File(in_home(site, ".cursor", "mcp.json"), "user"),
        File(in_project(site, ".cursor", "mcp.json"), "project"),
    ],
    starts_anywhere=True,
)
