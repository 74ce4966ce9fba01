"""Cline: one file for the user, in the storage that VS Code gives it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.settings.host import File, Host

if TYPE_CHECKING:
    from mcp_launch.settings.host import Site

_STORAGE = ("Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings")


def _list_files(site: Site) -> list[File]:
    default = os.path.join(site.applications, *_STORAGE, "cline_mcp_settings.json")
    return [File(site.environ.get("CLINE_MCP_SETTINGS_PATH") or default, "user")]


HOST = Host("cline", "Cline", _list_files, starts_anywhere=True)
