"""Warn of side effects of wrapping and unwrapping, for other people and in the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files import git_tracking
from mcp_launch.machine import installation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.planned_changes import Change
    from mcp_launch.config_files.site import Site


def list_warnings(site: Site, changes: list[Change], launcher: str) -> Iterator[str]:
    """Yield the warnings for these changes; an empty `launcher` means unwrapping."""
    shared = [change for change in changes if git_tracking.is_tracked(change.file.path)]
    if not launcher:
        for change in shared:
            yield (
                f"Git tracks {change.file.path}: if it was committed with mcp-launch in it, "
                "committing this removes mcp-launch for others"
            )
        return
    if len(shared) < len(changes) and (warning := installation.warn(launcher)):
        yield f"{warning.problem}: {warning.fix}"
    for change in changes:
        yield from change.warnings
    for change in shared:
        yield (
            f"{change.file.path} is tracked by Git: it names mcp-launch without a path, so "
            "everyone who uses it needs mcp-launch on PATH"
        )
    for host in dict.fromkeys(change.host for change in changes):
        if list_allowed := host.quirks.list_allowed_commands:
            for path in list_allowed(site):
                yield f"{path} allows servers by exact command and may refuse wrapped ones"
