"""Mistral Vibe's files: TOML, in which the servers are an array of tables."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.host_config import (
    ONE_TEXT,
    File,
    HostConfig,
    count_inside,
    list_upward,
)
from mcp_launch.config_files.host_quirks import LIBRARY_PASSES, Environment, HostProgram, HostQuirks
from mcp_launch.config_files.knowledge import measure
from mcp_launch.config_files.wrap import Shape
from mcp_launch.hosts.plain.places import Place, wait

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

_SERVERS = (("mcp_servers",),)
_OWN = Place(
    *(".vibe", ("config.toml",)),
    variable="VIBE_HOME",
    kind="toml",
    servers=_SERVERS,
    has_lists=True,
)


def _list_files(site: Site) -> list[File]:
    """Return the user's file and the nearest of a project's, which is the only one it reads."""
    [own] = _OWN.list_files(site)
    inside = list_upward(site, ".vibe", "config.toml")[: count_inside(site)]
    nearest = next(filter(os.path.exists, inside), inside[0])
    return [own, own._replace(path=nearest, scope="project")]


def _explain_skip(entry: dict[str, Any]) -> str:
    """Return why an entry is skipped: one with a text that Vibe splits into words."""
    command = entry.get("command")
    if not isinstance(command, str):
        return ""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    return "" if words == [command] else ONE_TEXT


CONFIG = HostConfig(
    "vibe",
    "Mistral Vibe",
    _list_files,
    (Shape(), Shape(is_one_list=True)),
    _explain_skip,
    knowledge=measure("3.0.2", "the process's; for an editor the agent's", "yes", "in a terminal"),
    quirks=HostQuirks(
        program=HostProgram("vibe"),
        home_variable="VIBE_HOME",
        environment=Environment(list_passed=lambda _: LIBRARY_PASSES),
        list_waits=wait("Mistral Vibe", 10, "startup_timeout_sec"),
        cwd="honoured",
    ),
)
