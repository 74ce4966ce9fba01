"""opencode: the command and its arguments are one list; comments are allowed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.config_files.wrap import Shape
from mcp_launch.settings.host import File, Host, in_project

if TYPE_CHECKING:
    from mcp_launch.settings.host import Site

# Its second version moved the servers one level down, among settings of `mcp` itself.
_SERVERS = (("mcp", "servers"), ("mcp",))


def _list_files(site: Site) -> list[File]:
    user = os.path.join(site.find_home("XDG_CONFIG_HOME", ".config"), "opencode")
    return [
        File(os.path.join(directory, name), scope, servers=_SERVERS)
        for directory, scope in ((user, "user"), (in_project(site), "project"))
        for name in ("opencode.json", "opencode.jsonc")
    ]


HOST = Host("opencode", "opencode", _list_files, (Shape(is_one_list=True),))
