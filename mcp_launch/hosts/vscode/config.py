"""VS Code's files: one for the user, one in a workspace; comments are allowed.

On a machine that is worked on from another (SSH, WSL, containers), the user's file is a server's.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import File, HostConfig, in_home, in_project
from mcp_launch.config_files.host_quirks import (
    BORROWING_OF_EDITORS,
    Environment,
    Greeting,
    HostProgram,
    HostQuirks,
    Texts,
)
from mcp_launch.config_files.knowledge import measure

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

_SERVERS = (("servers",),)


def _list_files(site: Site) -> list[File]:
    of_user = (
        os.path.join(site.applications, "Code"),
        in_home(site, ".vscode-server", "data"),
        os.path.join(site.find_home("XDG_DATA_HOME", ".local/share"), "code-server"),
    )
    return [
        *[File(os.path.join(one, "User", "mcp.json"), "user", servers=_SERVERS) for one in of_user],
        File(in_project(site, ".vscode", "mcp.json"), "workspace", servers=_SERVERS),
    ]


CONFIG = HostConfig(
    "vscode",
    "VS Code",
    _list_files,
    knowledge=measure("4.139.1", "the workspace folder", "no", "yes"),
    quirks=HostQuirks(
        program=HostProgram("code", bundle="Visual Studio Code"),
        environment=Environment(hands_all_on=True, asks_the_shell=True, extends_path=True),
        texts=Texts(
            borrowing=BORROWING_OF_EDITORS,
            expands_tilde=True,
            fills_in=re.compile(r"\$\{(?:command|config):[^}]*\}"),
        ),
        # seen with 1.139.1
        greeting=Greeting(
            "initialize",
            capabilities=("roots", "sampling", "elicitation", "tasks", "extensions"),
        ),
        cwd="honoured",
    ),
)
