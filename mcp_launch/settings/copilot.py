"""Copilot CLI: one file for the user, one in a repository."""

from __future__ import annotations

from mcp_launch.settings.host import File, Host, in_home, in_project

HOST = Host(
    "copilot",
    "Copilot CLI",
    lambda site: [
        File(in_home(site, ".copilot", "mcp-config.json"), "user"),
        File(in_project(site, ".github", "mcp.json"), "repository"),
    ],
)
