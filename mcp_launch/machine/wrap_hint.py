"""The command that wraps an entry, and whether it affects other people."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Literal

from mcp_launch.config_files import git_tracking

if TYPE_CHECKING:
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
