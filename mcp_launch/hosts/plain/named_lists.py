"""Hosts whose servers are a list, each with its name: YAML, and arrays of tables in TOML."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.host_config import File, HostConfig, count_inside, list_upward
from mcp_launch.config_files.host_quirks import (
    LIBRARY_PASSES,
    Environment,
    HostProgram,
    HostQuirks,
)
from mcp_launch.config_files.wrap import Shape
from mcp_launch.hosts.plain.places import Place, list_at, wait

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

_VIBE_SERVERS = (("mcp_servers",),)
_VIBE_OWN = Place(
    *(".vibe", ("config.toml",)),
    variable="VIBE_HOME",
    kind="toml",
    servers=_VIBE_SERVERS,
    has_lists=True,
)

# Continue also reads files with some servers each, in its own format or in that of other hosts.
_YAML = ("*.yaml", "*.yml")


def _list_vibe_files(site: Site) -> list[File]:
    """Return the user's file and the nearest of a project's, which is the only one it reads."""
    [own] = _VIBE_OWN.list_files(site)
    inside = list_upward(site, ".vibe", "config.toml")[: count_inside(site)]
    nearest = next(filter(os.path.exists, inside), inside[0])
    return [own, own._replace(path=nearest, scope="project")]


def _explain_vibe_skip(entry: dict[str, Any]) -> str:
    """Return why an entry is skipped: one with a text that Vibe splits into words."""
    command = entry.get("command")
    if not isinstance(command, str):
        return ""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    return "" if words == [command] else "its command is a text of several words, not a list"


NAMED_LISTS = (
    HostConfig(
        "continue",
        "Continue",
        list_at(
            Place(
                *(".continue", ("config.yaml",)),
                variable="CONTINUE_GLOBAL_DIR",
                kind="yaml",
                has_lists=True,
            ),
            Place(
                *(".continue", _YAML),
                variable="CONTINUE_GLOBAL_DIR",
                below="mcpServers",
                kind="yaml",
                has_lists=True,
            ),
            Place(".continue/mcpServers", _YAML, "project", kind="yaml", has_lists=True),
            Place(".continue/mcpServers", ("*.json",), "project"),
        ),
        quirks=HostQuirks(
            program=HostProgram("cn", tells_version=True, package="@continuedev/cli"),
            home_variable="CONTINUE_GLOBAL_DIR",
            lives_in="vscode",
            environment=Environment(hands_all_on=True),
            limits=wait("Continue", 60),
            cwd="honoured",
        ),
    ),
    HostConfig(
        "vibe",
        "Mistral Vibe",
        _list_vibe_files,
        (Shape(), Shape(is_one_list=True)),
        _explain_vibe_skip,
        quirks=HostQuirks(
            program=HostProgram("vibe", tells_version=True),
            home_variable="VIBE_HOME",
            environment=Environment(list_passed=lambda _: LIBRARY_PASSES),
            limits=wait("Mistral Vibe", 10, "startup_timeout_sec"),
            cwd="honoured",
        ),
    ),
)
