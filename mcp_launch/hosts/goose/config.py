"""Goose's file: YAML, for the user; not every extension in it is a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.host_config import File, HostConfig
from mcp_launch.config_files.host_quirks import Environment, HostProgram, HostQuirks, Texts
from mcp_launch.config_files.knowledge import measure
from mcp_launch.config_files.wrap import Shape

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site


def _list_files(site: Site) -> list[File]:
    directory = os.path.join(site.find_home("XDG_CONFIG_HOME", ".config"), "goose")
    return [File(os.path.join(directory, "config.yaml"), "user", "yaml", (("extensions",),))]


def _explain_skip(entry: dict[str, Any]) -> str:
    return "" if entry.get("type") == "stdio" else "it is part of Goose"


CONFIG = HostConfig(
    "goose",
    "Goose",
    _list_files,
    (Shape(("cmd",), ("args",)),),
    _explain_skip,
    knowledge=measure("1.52.0", "the session's", "yes", "yes"),
    quirks=HostQuirks(
        program=HostProgram("goose"),
        home_variable="XDG_CONFIG_HOME",
        environment=Environment(hands_all_on=True),
        texts=Texts(table="envs", keyring="env_keys"),
    ),
)
