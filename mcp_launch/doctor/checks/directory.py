"""Entries with a `cwd` in which the server does not start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.machine.wrap_hint import tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_ignored_cwd(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find a `cwd` that the host ignores (ML104)."""
    del survey
    cwd = item.cwd
    if item.host.quirks.cwd != "ignored" or not isinstance(cwd, str) or not cwd:
        return
    if "--cwd" in item.options:
        fix = "remove cwd: the --cwd in its args is used"
    elif item.is_wrapped:
        fix = f'remove cwd, and write "--cwd", "{cwd}" after "run" in its args'
    else:
        how = tell_how(item)
        fix = f'{how}, then begin its args with "run", "--cwd", "{cwd}", "--" and remove cwd'
    message = f"{item.host.title} ignores cwd: '{item.name}' does not start in {cwd}"
    yield Finding("ML104", item.point("cwd"), message, fix)


def check_relative(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find a `cwd` that depends on where the host's daemon was started (ML105)."""
    del survey
    cwd = item.cwd
    if item.host.quirks.cwd != "absolute" or not isinstance(cwd, str) or not cwd:
        return
    # ML106 reports references that are not expanded.
    if os.path.isabs(cwd) or cwd[0] in "~$":
        return
    yield Finding(
        "ML105",
        item.point("cwd"),
        f"{item.host.title} resolves the relative cwd {cwd} of '{item.name}' against the directory "
        "in which its daemon was started, that of the first terminal",
        "write an absolute path, or remove cwd to start the server in its thread's directory",
    )


OF_ITEMS = (check_ignored_cwd, check_relative)
