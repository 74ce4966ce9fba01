"""Checks of how entries are wrapped, and the repairs of `--fix`, which wrap them."""

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
from mcp_launch.doctor.check import Finding, Repair, check
from mcp_launch.errors import FileRefused, ProfileRefused
from mcp_launch.launch import dotenv
from mcp_launch.machine import host_environment
from mcp_launch.machine.preview import predict
from mcp_launch.machine.survey import Subject
from mcp_launch.machine.wrap_warnings import find_reach, tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.launch.profile import Profile
    from mcp_launch.machine.preview import Preview
    from mcp_launch.machine.survey import Item, Survey


@check("ML117", "note", "the entry is not wrapped", "server")
def check_wrapped(survey: Survey, item: Item) -> Iterator[Finding]:
    """The host starts this server directly, without mcp-launch in front of it.

    Nothing is broken; it is a note about what you do not get. An unwrapped server may outlive its
    host, with everything it has started. It is not told which session or thread a call belongs to,
    it stays dead in Codex once it has crashed, and its errors are in no log. `mcp-launch ps` shows
    it only if it is recognised.

    `mcp-launch wrap --dry-run` shows the change, `mcp-launch wrap` asks and makes it for all hosts,
    `mcp-launch wrap --host codex docs` only for one entry. `mcp-launch unwrap` restores the files
    to the byte. Files that Git tracks are wrapped only if you name them. To keep a server as it is,
    without this note, write `ignore = ["ML117:docs"]` below `[doctor]` in
    `~/.config/mcp-launch/config.toml`. Notes do not change the exit code.
    """
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


@check("ML116", "error", "the launcher of a wrapped entry is gone")
def check_launchers(survey: Survey) -> Iterator[Finding]:
    """The entry is wrapped, but what it names as its launcher does not exist, or cannot be run.

    The host cannot start the launcher, and so not the server behind it. It reports a missing file
    or a closed connection, and `mcp-launch logs` has nothing, since there was no launch. The state
    directory was removed, and with it the script that wrapped entries start; or mcp-launch was
    uninstalled or moved, and the entry names the program itself (see ML125); or the file came from
    another machine, with that machine's path in it. All entries with the same path are in one
    finding.

    With mcp-launch installed again, `mcp-launch wrap` writes the script and its path into all such
    entries, and asks first; `mcp-launch doctor --fix` does the same, except in files that Git
    tracks. To get rid of mcp-launch instead: `mcp-launch unwrap`.
    """
    for launcher, items in _group_by_launcher(survey).items():
        if shutil.which(launcher) is None:
            what = "is not executable" if os.path.exists(launcher) else "does not exist"
            problem = f"{launcher} {what}, so hosts cannot start {{}}"
            yield _report_launcher("ML116", survey, launcher, items, problem)


@check("ML125", "note", "a wrapped entry names the program itself")
def check_named_programs(survey: Survey) -> Iterator[Finding]:
    """The entry is wrapped, and names the installed program, such as `~/.local/bin/mcp-launch`.

    Once the program is moved or removed, the host cannot start the entry, and so not the server
    behind it. That holds for every entry with the same path. The script that `wrap` writes stays
    where it is; without the program, it starts the server alone and says so on stderr. It also
    keeps variables such as `PYTHONHOME`, which are meant for the server, away from mcp-launch's own
    Python. An entry like this was written by hand.

    `mcp-launch wrap` writes the path of the script into all such entries, and asks first;
    `mcp-launch doctor --fix` does the same, except in files that Git tracks.
    """
    for launcher, items in _group_by_launcher(survey).items():
        if shutil.which(launcher) is not None and wrap.names_program(items[0].words):
            problem = f"once {launcher} is gone, hosts cannot start {{}}"
            yield _report_launcher("ML125", survey, launcher, items, problem)


def _group_by_launcher(survey: Survey) -> dict[str, list[Item]]:
    launchers: dict[str, list[Item]] = {}
    for item in survey.servers:
        if item.is_wrapped and os.path.isabs(item.words[0]):
            launchers.setdefault(item.words[0], []).append(item)
    return launchers


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


@check("ML121", "error", "the launcher refuses the entry", "server")
def check_refused(survey: Survey, item: Item) -> Iterator[Finding]:
    """The entry is wrapped, and `mcp-launch run` would stop before it starts the server.

    An option is invalid, or contradicts another one or its profile, a dotenv file or a directory
    does not exist, or `--strict` refuses the place; or the word `run` is missing after
    `mcp-launch`. The server does not start in any session. The host gets the reason as the answer
    to its first request, but not every host shows it; `mcp-launch logs` has it, too. Options were
    edited by hand and misspelled, or stand after the server's command, where they belong to the
    server; or a file was not created on this machine.

    Follow the fix in the finding. `wrap` checks options before it writes them, so it is the safer
    way to change one: `mcp-launch wrap docs -- --cwd project_root`. `mcp-launch env docs` shows
    what the server would get now.
    """
    shape = planned_changes.find_shape(item.document, item.host, item.path)
    if shape and (correction := wrap.add_run(item.document, shape, item.words)):
        yield _refuse(item, "the word `run` is missing", f"write {correction}")
        return
    launch = predict(survey, item)
    if not launch.situation.is_launched:
        return
    refused, wanted = launch.refused, launch.profile
    # What is wrong in the user's own file is ML013.
    if refused is not None and not isinstance(refused, ProfileRefused):
        yield _refuse(item, refused.problem, refused.fix)
    if wanted is not None:
        yield from _check_dotenv(item, launch, wanted)
        yield from _check_place(item, launch, wanted)


def _refuse(item: Item, problem: str, fix: str) -> Finding:
    message = f"mcp-launch does not start '{item.name}': {problem}"
    return Finding("ML121", item.point("args"), message, fix)


def _check_dotenv(item: Item, launch: Preview, wanted: Profile) -> Iterator[Finding]:
    """Find dotenv files that cannot be read, if it is sure where they would be."""
    refused, files = launch.dotenv_refused, wanted.dotenv or [".env"]
    is_known = launch.is_place_known or all(file[:1] in {"/", "~"} for file in files)
    paths = [dotenv.locate(file, launch.found) for file in files]
    if refused and is_known and all(host_environment.is_solved(item, path) for path in paths):
        yield _refuse(item, refused.problem, refused.fix)


def _check_place(item: Item, launch: Preview, wanted: Profile) -> Iterator[Finding]:
    """Find missing directories that depend on where the launcher is started."""
    refused, homes = launch.place_refused, launch.list_homes()
    # One that does not depend on it is another finding.
    is_judged = launch.is_place_known and wanted.cwd[0] not in "/~"
    if homes and wanted.strict:
        fix = "leave out --strict, or name a directory: --cwd DIR"
        yield _refuse(item, f"{item.host.title} starts it in {' or '.join(homes)} (--strict)", fix)
    elif refused and is_judged and host_environment.is_solved(item, wanted.cwd):
        yield _refuse(item, refused.problem, refused.fix)


# Repairs.


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
