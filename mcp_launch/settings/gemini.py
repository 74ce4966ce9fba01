"""Gemini CLI: one file for the user, one in a project."""

from __future__ import annotations

from mcp_launch.settings.host import File, Host, in_home, in_project

HOST = Host(
    "gemini",
    "Gemini CLI",
    lambda site: [
        File(in_home(site, ".gemini", "settings.json"), "user"),
        File(in_project(site, ".gemini", "settings.json"), "project"),
    ],
)
