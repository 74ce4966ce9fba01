"""The project in which a command was typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.errors import UsageError
from mcp_launch.launch.context import find_project_root, read_cwd
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Mapping


def find_current_project(environ: Mapping[str, str]) -> str:
    """Return the root of the current project; outside of projects, the current directory.

    Raises:
        UsageError: The directory was deleted.

    """
    here = read_cwd(environ)
    if not here:
        raise UsageError(
            "the current directory was deleted",
            fix="change to an existing directory (cd ~) and run the command again",
        )
    root = find_project_root(here)
    return root.value if isinstance(root, Found) else here
