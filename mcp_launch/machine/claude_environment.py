"""The variables that Claude Code's settings set: for itself, and for what a project starts.

Seen on Claude Code 2.1.325: those of the user and of an organisation replace what its process
was started with, so that it expands entries and finds commands by them, and servers get them.
Those of a project's own settings only reach the servers.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import File
from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import HostConfig
    from mcp_launch.machine.survey import Survey


def read_own(survey: Survey, host: HostConfig) -> dict[str, str]:
    """Return what a host's settings set in its own environment; what comes later wins."""
    return _read(survey, host.quirks.environment.list_settings(survey.site))


def read_projects(survey: Survey, host: HostConfig, project: str) -> dict[str, str]:
    """Return what a project's settings add for a host's servers."""
    if os.path.realpath(project) == os.path.realpath(survey.site.home):
        return {}  # they are the user's own
    return _read(survey, host.quirks.environment.list_project_settings(project))


def _read(survey: Survey, paths: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in paths:
        try:
            table = survey.read(File(path, "settings")).get(("env",))
        except FileRefused:
            continue  # most are not there; what is wrong with one, Claude Code tells
        if isinstance(table, dict):
            found |= {str(name): str(text) for name, text in table.items()}
    return found
