"""Copilot CLI's files: the user's own, and one in a repository."""

from __future__ import annotations

from mcp_launch.config_files.host_config import HostConfig
from mcp_launch.config_files.host_quirks import Greeting, HostProgram, HostQuirks
from mcp_launch.config_files.knowledge import measure
from mcp_launch.hosts.plain.places import Place, list_at, wait

CONFIG = HostConfig(
    "copilot",
    "Copilot CLI",
    list_at(
        Place(".copilot", ("mcp-config.json",), variable="COPILOT_HOME"),
        Place(".github", ("mcp.json",), "repository"),
    ),
    knowledge=measure("1.0.102", "the session's", "yes", "yes"),
    quirks=HostQuirks(
        program=HostProgram("copilot"),
        home_variable="COPILOT_HOME",
        list_waits=wait("Copilot CLI", 65),
        greeting=Greeting(capabilities=("sampling", "elicitation")),  # seen with 1.0.102
    ),
)
