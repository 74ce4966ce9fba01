"""Whether entries go through the launcher, whether it is still there, and how to put it in."""

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
    """Look for the launcher of a wrapped entry (ML116)."""
    if item.is_wrapped and wrap.is_launcher_gone(item.words):
        launcher = item.words[0]
        what = "may not be executed" if os.path.exists(launcher) else "does not exist"
        yield Finding(
            "ML116",
            item.point("command"),
            f"{launcher} {what}, so that {item.host.title} cannot start {item.name}",
            f"install mcp-launch and wrap it again: {tell_how(item)}",
            offer_wrapping(survey, item),
        )


def check_wrapped(survey: Survey, item: Item) -> Iterator[Finding]:
    """Note an entry that does without the launcher (ML117)."""
    if not item.words or item.is_wrapped or wrap.is_wrapped_otherwise(item.words):
        return
    yield Finding(
        "ML117",
        item.point(),
        f"{item.host.title} starts {item.name} without mcp-launch: nothing manages "
        "its directory, its session and its end",
        f"wrap it: {tell_how(item)}",
        offer_wrapping(survey, item),
        find_reach(item),
    )


def can_be_wrapped(survey: Survey, item: Item) -> bool:
    """Tell whether wrapping would succeed; to find out takes as long as to do it."""
    try:
        planned_changes.change_some(
            item.host, item.file, [item.path], Wish(survey.launcher), item.document.text
        )
    except FileRefused:
        return False
    return bool(survey.launcher)


def offer_wrapping(survey: Survey, item: Item) -> Repair | None:
    """Return what `--fix` does to wrap an entry; None if it had better not.

    As `wrap` does when it is not asked for more, it skips a file that Git tracks, since others
    would get the change too, and one that is not this project's.
    """
    if not survey.launcher or item.file.is_outside or git_tracking.is_tracked(item.file.path):
        return None
    which = f" ({item.scope})" if item.scope.startswith("local: ") else ""
    return Repair(f"wrap {item.name}{which} in {item.file.path}", Wrapping(survey, item))


@dataclass(frozen=True)
class Wrapping:
    """The act of wrapping one entry, in its file as it is by then."""

    survey: Survey
    item: Item

    def __call__(self) -> None:
        """Do it.

        Raises:
            FileRefused: It cannot be done.

        """
        wrap_all([self])


def wrap_all(wrappings: list[Wrapping]) -> None:
    """Wrap entries of one file, which is written once for all of them.

    Raises:
        FileRefused: It cannot be done.

    """
    survey, item = wrappings[0].survey, wrappings[0].item
    paths = [one.item.path for one in wrappings]
    make = partial(planned_changes.change_some, item.host, item.file, paths, Wish(survey.launcher))
    replace_file.replace(item.host, item.file, make, survey.state)


OF_ITEMS = (check_entry_launcher, check_wrapped)
