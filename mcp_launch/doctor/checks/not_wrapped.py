"""Entries that are not wrapped, or name a launcher of the past, and how `--fix` wraps them."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mcp_launch.config_files import (
    entry_script,
    git_tracking,
    planned_changes,
    replace_file,
    wrap,
)
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.doctor.finding import Finding, Repair
from mcp_launch.errors import FileRefused
from mcp_launch.machine.subject import Subject
from mcp_launch.machine.wrap_hint import find_reach, tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_launchers(survey: Survey) -> Iterator[Finding]:
    """Find launchers that are gone (ML116), or will be gone with the program (ML125)."""
    launchers: dict[str, list[Item]] = {}
    for item in survey.servers:
        if item.is_wrapped and os.path.isabs(item.words[0]):
            launchers.setdefault(item.words[0], []).append(item)
    for launcher, items in launchers.items():
        if shutil.which(launcher) is None:
            what = "is not executable" if os.path.exists(launcher) else "does not exist"
            problem = f"{launcher} {what}, so hosts cannot start {{}}"
            yield _report_launcher("ML116", survey, launcher, items, problem)
        elif wrap.names_program(items[0].words):
            problem = f"once {launcher} is gone, hosts cannot start {{}}"
            yield _report_launcher("ML125", survey, launcher, items, problem)


def _report_launcher(
    code: str, survey: Survey, launcher: str, items: list[Item], problem: str
) -> Finding:
    names = tuple(dict.fromkeys(item.name for item in items))
    own = [item for item in items if find_reach(item) == "own"]
    ways = [tell_how(item) for item in items if item not in own]
    offered = [item for item in own if offer_wrapping(survey, item)]
    which = ", ".join(map(shlex.quote, names))
    act = f"wrap {which} again" if launcher != survey.launcher else f"write {launcher} again"
    return Finding(
        code,
        items[0].point("command") if len(items) == 1 else Subject(file=launcher),
        problem.format(which),
        "; ".join([*(["mcp-launch wrap"] if own else []), *ways]),
        Repair(act, partial(_rewrap, survey, launcher, offered)) if offered else None,
        servers=names,
    )


def _rewrap(survey: Survey, launcher: str, items: list[Item]) -> None:
    """Have entries name the script, which is written if it is missing.

    Raises:
        FileRefused: A file cannot be changed.

    """
    entry_script.install(survey.state)
    files: dict[str, list[Wrapping]] = {}
    for item in items if launcher != survey.launcher else ():
        files.setdefault(item.file.path, []).append(Wrapping(survey, item))
    for wrappings in files.values():
        wrap_all(wrappings)


def check_stopping_variables(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find variables that keep the launcher itself from starting (ML126)."""
    if not item.is_wrapped or (os.path.isabs(item.words[0]) and not wrap.names_program(item.words)):
        return
    names = wrap.list_stopping_variables(item.document, item.path)
    if names and not (os.path.isabs(item.words[0]) and shutil.which(item.words[0]) is None):
        first = names[0]
        is_shared = git_tracking.is_tracked(item.file.path)
        yield Finding(
            "ML126",
            item.point("command"),
            f"{', '.join(names)} in the entry also reaches the Python of mcp-launch, so "
            f"'{item.name}' may not start",
            f"replace it in the entry by an option of run: --set {first}=VALUE"
            if is_shared
            else tell_how(item),
            None if is_shared else offer_wrapping(survey, item),
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
    entry_script.install(survey.state)
    paths = [one.item.path for one in wrappings]
    wish = Wish(survey.launcher, writes_path=any(one.writes_path for one in wrappings))
    make = partial(planned_changes.change_some, item.host, item.file, paths, wish)
    replace_file.replace(item.host, item.file, make, survey.state)


OF_ITEMS = (check_stopping_variables, check_wrapped)
OF_ALL = (check_launchers,)
