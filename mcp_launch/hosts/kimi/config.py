"""Kimi Code's files: the user's and the project's, and that of its predecessor."""

from __future__ import annotations

from mcp_launch.config_files.host_config import HostConfig
from mcp_launch.config_files.host_quirks import Environment, HostProgram, HostQuirks
from mcp_launch.config_files.knowledge import measure
from mcp_launch.hosts.plain.places import Place, in_both, list_at, wait

CONFIG = HostConfig(
    "kimi",
    "Kimi Code",
    # The .mcp.json of a project, which it reads too, is listed as Claude Code's.
    list_at(
        *in_both(".kimi-code", "mcp.json", variable="KIMI_CODE_HOME"),
        Place(".kimi", ("mcp.json",)),  # of its predecessor
    ),
    knowledge=measure("2.1.0", "the session's", "no", "in a terminal"),
    quirks=HostQuirks(
        program=HostProgram("kimi"),
        home_variable="KIMI_CODE_HOME",
        environment=Environment(hands_all_on=True),
        list_waits=wait("Kimi Code", 30, "startupTimeoutMs", 1000),
        cwd="honoured",
        json_extras="nothing",
    ),
)
