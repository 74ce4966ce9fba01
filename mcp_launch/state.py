"""Where our own files are: leases, and the report of a crash."""

from __future__ import annotations

import os

from mcp_launch.hosts.host import find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def find_directory(environ: Mapping[str, str]) -> str:
    """Return the directory; not under XDG_*, which Codex does not pass on to its servers."""
    home = find_home_directory(environ)
    moved = environ.get("MCP_LAUNCH_HOME") or "~/.local/state/mcp-launch"
    # Never relative to where we happen to run: that is somebody's project.
    return os.path.join(home, moved.removeprefix("~/"))


def name_lease(environ: Mapping[str, str], launch: str) -> str:
    """Return the path of one launch's lease."""
    return f"{find_directory(environ)}/leases/{launch}.json"
