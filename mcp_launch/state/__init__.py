"""Our own files: where they are, and who may write them."""

from __future__ import annotations

import os

from mcp_launch.values import find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Names the file that a launch writes its outcome to, if whoever starts it wants to know.
OUTCOME = "MCP_LAUNCH_OUTCOME"


def find_directory(environ: Mapping[str, str]) -> str:
    """Return the directory; not under XDG_*, which Codex does not pass on to its servers."""
    home = find_home_directory(environ)
    moved = environ.get("MCP_LAUNCH_HOME") or "~/.local/state/mcp-launch"
    # Never relative to where we happen to run: that is somebody's project.
    return os.path.join(home, moved.removeprefix("~/"))


def find_leases(environ: Mapping[str, str]) -> str:
    """Return where the leases are."""
    return f"{find_directory(environ)}/leases"


def name_lease(environ: Mapping[str, str], launch: str) -> str:
    """Return the path of one launch's lease."""
    return f"{find_leases(environ)}/{launch}.json"


def make_private(directory: str) -> None:
    """Make a directory that nobody else can look into, unless it is there."""
    if not os.path.isdir(directory):
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass  # another launch was faster
