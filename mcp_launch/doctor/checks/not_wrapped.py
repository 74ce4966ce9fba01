"""Entries that are not wrapped, or whose launcher is gone, and how `--fix` wraps them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mcp_launch.config_files import git_tracking, planned_changes, replace_file, wrap
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.doctor.finding import Finding, Repair
from mcp_launch.errors import FileRefused
from mcp_launch.machine.wrap_hint import find_reach, tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_entry_launcher(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find wrapped entries whose launcher is gone (ML116)."""
    if item.is_wrapped and wrap.is_launcher_gone(item.words):
        launcher = item.words[0]
        what = "is not executable" if os.path.exists(launcher) else "does not exist"
        yield Finding(
            "ML116",
            item.point("command"),
            f"{launcher} {what}, so {item.host.title} cannot start '{item.name}'",
            f"install mcp-launch and wrap it again: {tell_how(item)}",
            offer_wrapping(survey, item),
        )


def check_wrapped(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find entries that are not wrapped (ML117)."""
    if not item.words or item.is_wrapped or wrap.is_wrapped_otherwise(item.words):
        return
    if wrap.find_missing_run(item.words) is not None:
        return  # ML121
    yield Finding(
        "ML117",
        item.point(),
        f"{item.host.title} starts '{item.name}' without mcp-launch: nothing manages "
        "its directory, its session identity and its shutdown",
        f"wrap it: {tell_how(item)}",
        offer_wrapping(survey, item),
        find_reach(item),
    )


def can_be_wrapped(survey: Survey, item: Item) -> bool:
    """Return whether wrapping would succeed; this takes as long as wrapping itself."""
    try:
        planned_changes.change_some(
            item.host, item.file, [item.path], Wish(survey.launcher), item.document.text
        )
    except FileRefused:
        return False
    return bool(survey.launcher)


def offer_wrapping(survey: Survey, item: Item) -> Repair | None:
    """Return the repair that wraps an entry; None if `--fix` should not.

    Like `wrap` without options, it skips a file that Git tracks, since others would get the
    change too, and a file outside this project.
    """
    if not survey.launcher or item.file.is_outside or git_tracking.is_tracked(item.file.path):
        return None
    which = f" ({item.scope})" if item.scope.startswith("local: ") else ""
    return Repair(f"wrap {item.name}{which} in {item.file.path}", Wrapping(survey, item))


def offer_path(survey: Survey, item: Item) -> Repair | None:
    """Return the repair that writes the launcher's absolute path; None if `--fix` should not."""
    offered = offer_wrapping(survey, item)
    if offered is None:
        return None
    what = f"write {survey.launcher} as the command of {item.name} in {item.file.path}"
    return Repair(what, Wrapping(survey, item, writes_path=True))


@dataclass(frozen=True)
class Wrapping:
    """The act of wrapping one entry, in the text that its file has at that time."""

    survey: Survey
    item: Item
    writes_path: bool = False  # the launcher's, also in place of its name

    def __call__(self) -> None:
        """Wrap the entry.

        Raises:
            FileRefused: The file cannot be changed.

        """
        wrap_all([self])


def wrap_all(wrappings: list[Wrapping]) -> None:
    """Wrap entries of one file, which is written once for all of them.

    Raises:
        FileRefused: The file cannot be changed.

    """
    survey, item = wrappings[0].survey, wrappings[0].item
    paths = [one.item.path for one in wrappings]
    wish = Wish(survey.launcher, writes_path=any(one.writes_path for one in wrappings))
    make = partial(planned_changes.change_some, item.host, item.file, paths, wish)
    replace_file.replace(item.host, item.file, make, survey.state)


OF_ITEMS = (check_entry_launcher, check_wrapped)
