"""Qwen Code's files: the user's and the project's, in the form of Gemini CLI's."""

from __future__ import annotations

from mcp_launch.config_files.host_config import HostConfig
from mcp_launch.config_files.host_quirks import Environment, HostProgram, HostQuirks
from mcp_launch.config_files.knowledge import measure
from mcp_launch.hosts.gemini.config import TEXTS
from mcp_launch.hosts.plain.places import in_both, list_at, wait

CONFIG = HostConfig(
    "qwen",
    "Qwen Code",
    list_at(*in_both(".qwen", "settings.json", variable="QWEN_HOME")),
    knowledge=measure("0.24.4", "the session's", "yes", "in a terminal"),
    quirks=HostQuirks(
        program=HostProgram("qwen"),
        home_variable="QWEN_HOME",
        environment=Environment(hands_all_on=True),
        texts=TEXTS,
        list_waits=wait("Qwen Code", 30),
        cwd="honoured",
        json_extras="comments",
        losses=(
            ("user", "Qwen Code does not start"),
            ("project", "Qwen Code replaces it by an empty one and keeps settings.json.corrupted"),
        ),
    ),
)
