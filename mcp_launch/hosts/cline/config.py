"""Cline's files: one of its extension for VS Code, one of its program for terminals."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.host_config import REMOTE, File, HostConfig
from mcp_launch.config_files.host_quirks import (
    LIBRARY_PASSES,
    Environment,
    Greeting,
    HostProgram,
    HostQuirks,
)
from mcp_launch.config_files.knowledge import measure
from mcp_launch.config_files.wrap import Shape

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

# Cline's file is in the storage that VS Code gives its extensions; its own program has another.
_NAME = "cline_mcp_settings.json"
_STORAGE = ("Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings")


def _list_files(site: Site) -> list[File]:
    named = site.environ.get("CLINE_MCP_SETTINGS_PATH")
    data = site.environ.get("CLINE_DATA_DIR") or os.path.join(
        site.find_home("CLINE_DIR", ".cline"), "data"
    )
    own = File(named or os.path.join(data, "settings", _NAME), "user")
    stored = os.path.join(site.applications, *_STORAGE, _NAME)
    return [File(named or stored, "user", lives_in="vscode"), *([] if named else [own])]


def _explain_skip(entry: dict[str, Any]) -> str:
    transport = entry.get("transport")
    return REMOTE if isinstance(transport, dict) and "url" in transport else ""


CONFIG = HostConfig(
    "cline",
    "Cline",
    _list_files,
    (Shape(), Shape(("transport", "command"), ("transport", "args"))),
    _explain_skip,
    starts_anywhere=True,
    knowledge=measure("3.0.65", "the process's; of a hub the first project's", "no", "yes"),
    quirks=HostQuirks(
        program=HostProgram("cline"),
        home_variable="CLINE_DIR",
        lives_in="vscode",
        environment=Environment(list_passed=lambda _: LIBRARY_PASSES, asks_the_shell=True),
        own_environment=Environment(hands_all_on=True),
        greeting=Greeting(capabilities=()),
        cwd="honoured",
        json_extras="nothing",
    ),
)
