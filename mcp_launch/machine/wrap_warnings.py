"""The command that wraps an entry, and warnings of its effects on other people and the host."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Literal

from mcp_launch.config_files import git_tracking
from mcp_launch.machine import installation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.planned_changes import Change
    from mcp_launch.config_files.site import Site
    from mcp_launch.machine.survey import Item

# The entries that one command can wrap: those in the user's own files, or those of a file that has
# to be named, because it is elsewhere or because Git tracks it.
Reach = Literal["file", "own"]

FOR_EVERYONE = "Git tracks the file, so this changes it for everyone who uses it"


def find_reach(item: Item) -> Reach:
    """Return which other entries the command that wraps this one can wrap."""
    is_others = item.file.is_outside or git_tracking.is_tracked(item.file.path)
    return "file" if is_others else "own"


def tell_how(item: Item, options: str = "") -> str:
    """Return the command that wraps an entry, or writes options of `run` into a wrapped one.

    A warning is added if it affects others.
    """
    name = shlex.quote(item.name) + (f" -- {options}" if options else "")
    is_tracked = git_tracking.is_tracked(item.file.path)
    if find_reach(item) == "file":
        how = f"mcp-launch wrap --file {shlex.quote(item.file.path)} {name}"
    else:
        how = f"mcp-launch wrap --host {item.host.name} {name}"
    return f"{how} ({FOR_EVERYONE})" if is_tracked else how


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
        for path in host.quirks.list_allowlists(site):
            yield f"{path} allows servers by exact command and may refuse wrapped ones"
