"""Hosts whose servers are a list in YAML, each with its name."""

from __future__ import annotations

from mcp_launch.config_files.host_config import HostConfig
from mcp_launch.config_files.host_quirks import Environment, HostProgram, HostQuirks
from mcp_launch.config_files.knowledge import measure
from mcp_launch.hosts.plain.places import Place, list_at, wait

# Continue also reads files with some servers each, in its own format or in that of other hosts.
_YAML = ("*.yaml", "*.yml")


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
        knowledge=measure("1.5.47", "the process's", "no", "no"),
        quirks=HostQuirks(
            program=HostProgram("cn"),
            home_variable="CONTINUE_GLOBAL_DIR",
            lives_in="vscode",
            environment=Environment(hands_all_on=True),
            list_waits=wait("Continue", 60),
            cwd="honoured",
        ),
    ),
)
