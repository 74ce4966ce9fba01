"""VS Code's files: one for the user, one in a workspace; comments are allowed."""

from __future__ import annotations

import os
import re

from mcp_launch.config_files.host_config import File, HostConfig, in_project
from mcp_launch.config_files.host_quirks import (
    BORROWING_OF_EDITORS,
    Environment,
    Greeting,
    HostProgram,
    HostQuirks,
    Limits,
    Texts,
    ToolCount,
)

_SERVERS = (("servers",),)

CONFIG = HostConfig(
    "vscode",
    "VS Code",
    lambda site: [
        File(os.path.join(site.applications, "Code", "User", "mcp.json"), "user", servers=_SERVERS),
        File(in_project(site, ".vscode", "mcp.json"), "workspace", servers=_SERVERS),
    ],
    quirks=HostQuirks(
        program=HostProgram("code", bundle="Visual Studio Code"),
        environment=Environment(hands_all_on=True, asks_the_shell=True, extends_path=True),
        texts=Texts(
            borrowing=BORROWING_OF_EDITORS,
            expands_tilde=True,
            fills_in=re.compile(r"\$\{(?:command|config):[^}]*\}"),
            question="${input:an-id}",
        ),
        # microsoft/vscode#337428
        limits=Limits(
            tools=ToolCount(128, "VS Code refuses a request with more than 128, its own included")
        ),
        # seen with 1.139.1
        greeting=Greeting(
            "initialize",
            capabilities=("roots", "sampling", "elicitation", "tasks", "extensions"),
        ),
        cwd="honoured",
    ),
)
