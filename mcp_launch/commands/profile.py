"""`mcp-launch profile add`: make a profile from a host's entry, show it, ask, and write it."""

from __future__ import annotations

import os
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch import masking, state
from mcp_launch.commands import output
from mcp_launch.commands.output import print_json, print_paragraph
from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import (
    git_tracking,
    profile_text,
    replace_file,
    shorten_entry,
    write_file,
)
from mcp_launch.errors import FileRefused, UsageError, printable, suggest
from mcp_launch.launch import context, profile
from mcp_launch.machine import preview_inputs, profile_from_entry
from mcp_launch.machine.survey import check_hosts, open_survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.machine.profile_from_entry import Content, ProfileDraft
    from mcp_launch.machine.survey import Item, Survey

VERSION = 1

# Who may read a new file: of the user's, whose variables may be secrets, only the user.
_USERS_MODE = 0o600
_PROJECTS_MODE = 0o644


class AddRequest(NamedTuple):
    """What the user asked for."""

    server: str
    hosts: list[str]
    is_projects: bool = False  # for the project's file, not the user's
    is_whole: bool = False  # with the command and the variables
    is_moving: bool = False  # the entry loses its command
    is_sure: bool = False  # do not ask
    is_dry: bool = False  # only show
    is_json: bool = False


class _Planned(NamedTuple):
    """Everything that would be done."""

    item: Item
    draft: ProfileDraft
    path: str  # the profile file
    notes: list[str]


def add(request: AddRequest, environ: Mapping[str, str]) -> int:
    """Add a profile, and return the exit code.

    Raises:
        UsageError: There is no such entry, it is not clear which one, or it cannot be used.
        ProfileRefused: The profile file is invalid, or has a profile of this name.
        FileRefused: A file cannot be written.

    """
    check_hosts(request.hosts)
    survey = open_survey(environ, only=request.hosts, needs_project=True)
    planned = _plan(request, survey, environ)
    make = partial(
        profile_text.add,
        table=planned.draft.table,
        path=planned.path,
        is_projects=request.is_projects,
    )
    make(_read(planned.path))  # refuses what cannot be added, before anything is asked
    if request.is_moving:
        _check_move(request, planned.item)
    console = Screen(is_stderr=request.is_json)
    if not request.is_json:
        _show(console, request, planned)
    is_agreed = not request.is_dry and output.is_agreed(
        console, f"Add it to {planned.path}?", is_sure=request.is_sure
    )
    copy = _write(request, planned, make, state.find_directory(environ)) if is_agreed else ""
    if request.is_json:
        print_json(_describe(request, planned, is_written=is_agreed))
    else:
        for line in _conclude(request, planned, copy, is_written=is_agreed):
            print_paragraph(console, line)
    return 0


def _plan(request: AddRequest, survey: Survey, environ: Mapping[str, str]) -> _Planned:
    item = _find(request, survey)
    path = _locate(request, environ)
    content: Content = "command" if request.is_moving else "settings"
    if request.is_whole:
        content = "everything"
    draft = profile_from_entry.make(survey, item, content, is_projects=request.is_projects)
    notes = [*draft.notes, *_list_notes(request, item, draft)]
    if draft.masked.keys != draft.table.keys and _can_others_read(path):
        notes.append(f"other users can read it, with its secrets: chmod 600 {shlex.quote(path)}")
    return _Planned(item, draft, path, notes)


def _can_others_read(path: str) -> bool:
    """Return whether a file that is there already, unlike one that we create, shows secrets."""
    return os.path.exists(path) and bool(os.stat(path).st_mode & 0o044)


def _find(request: AddRequest, survey: Survey) -> Item:
    """Return the entry to make a profile from."""
    server = request.server
    found = [item for item in survey.items if item.name == server]
    startable = [item for item in found if item.words]
    if not found:
        _refuse_unknown(server, survey)
    if not startable:
        raise UsageError(
            f"{server} in {found[0].file.path} has no command: "
            + (found[0].why_not or "the entry is invalid"),
            fix="name a server that has a command",
        )
    by_host: dict[str, list[Item]] = {}
    for item in startable:
        by_host.setdefault(item.host.name, []).append(item)
    nearest = [preview_inputs.choose_nearest(items, survey.here) for items in by_host.values()]
    if len({(*item.command, *map(str, item.options.items())) for item in nearest}) > 1:
        raise UsageError(
            f"several hosts have a server {server}, with different commands or options: "
            + ", ".join(by_host),
            fix=f"name one: mcp-launch profile add {shlex.quote(server)} --host {min(by_host)}",
        )
    return nearest[0]


def _refuse_unknown(server: str, survey: Survey) -> None:
    problem = f'no host has a server named "{server}"'
    near = suggest(server, [item.name for item in survey.items])
    if survey.refusals and not near:  # it may well be in there
        refused = survey.refusals[0].error
        raise UsageError(f"{problem}; {refused.problem}", fix=refused.fix)
    raise UsageError(problem, fix=f"{near}mcp-launch list shows all servers")


def _locate(request: AddRequest, environ: Mapping[str, str]) -> str:
    """Return the profile file, once it is clear that it may be used."""
    if not request.is_projects:
        path = profile.locate_user_file(environ)
        if os.path.exists(path):
            profile.refuse_if_others_can_write(path, os.stat(path))
        return path
    here = context.read_cwd(environ)
    path = profile.locate_project_file(here)
    if not path:
        raise UsageError(
            f"{here} is not in a project",
            fix=f"change to a project, or create an empty {profile.PROJECT_FILE} in its root",
        )
    profile.refuse_foreign(path, here)
    return path


def _list_notes(request: AddRequest, item: Item, draft: ProfileDraft) -> Iterator[str]:
    name = shlex.quote(item.name)
    if not item.is_wrapped:
        how = f"mcp-launch wrap {name} --host {item.host.name}"
        yield f"{item.name} is not wrapped, so the profile has no effect until you run: {how}"
    elif not profile.name_server(item.options, item.variables):
        how = f"mcp-launch wrap {name} --host {item.host.name}"
        yield f"the entry does not name its server, so run this first: {how}"
    elif item.options.keys() - {"--server"} and not request.is_moving:
        yield "the options in the entry take precedence over the profile"
    if request.is_whole and "env" in draft.table.keys:
        yield "the variables of the profile take precedence over those of the entry"
    if request.is_moving:
        yield f"unwrap cannot restore an entry without a command: {item.name} stays wrapped"
    if request.is_projects:
        yield "the project's file applies only to users who trust it: mcp-launch trust"


def _check_move(request: AddRequest, item: Item) -> None:
    """Refuse to shorten an entry that is not wrapped, or that others use without this profile."""
    if not item.is_wrapped or not item.command:
        raise UsageError(
            f"{item.name} in {item.file.path} has no command to move: "
            + ("it is in a profile already" if item.is_wrapped else "it is not wrapped"),
            fix=f"wrap it first: mcp-launch wrap {shlex.quote(item.name)} --host {item.host.name}"
            if not item.is_wrapped
            else "leave out --move",
        )
    if item.file.why_not:
        raise UsageError(
            f"{item.file.path} is not changed: {item.file.why_not}", fix="leave out --move"
        )
    if not request.is_projects and git_tracking.is_tracked(item.file.path):
        raise UsageError(
            f"Git tracks {item.file.path}, and others who use it do not have your profile",
            fix="add --project, or leave out --move",
        )
    _shorten(item, profile_from_entry.name_profile(item), write_file.read(item.file.path))


def _shorten(item: Item, name: str, text: str) -> str:
    return shorten_entry.shorten(item.host, item.file, item.path, name, text)


def _read(path: str) -> str | None:
    try:
        return write_file.read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileRefused(
            f"cannot read {path}: {error.strerror}", fix=f"chmod u+r {shlex.quote(path)}"
        ) from None
    except ValueError:
        raise FileRefused(f"{path} is not UTF-8", fix="save it as UTF-8") from None


def _show(console: Screen, request: AddRequest, planned: _Planned) -> None:
    item, draft = planned.item, planned.draft
    console.print(Text(f"From {item.host.title}, {item.scope}, {printable(item.file.path)}", "dim"))
    console.print(Text(draft.masked.spell().rstrip("\n"), "green"))
    if request.is_moving:
        words = [item.words[0], "run", "--server", draft.table.name]
        console.print(Text(f"- {printable(shlex.join(masking.mask(item.words)))}", "red"))
        console.print(Text(f"+ {printable(shlex.join(words))}", "green"))
    for note in planned.notes:
        print_paragraph(console, f"Note: {note}", "yellow")


def _write(request: AddRequest, planned: _Planned, make: Any, directory: str) -> str:  # noqa: ANN401  # a partial
    """Write the profile, and only then shorten the entry; return the path of the entry's copy."""
    mode = _PROJECTS_MODE if request.is_projects else _USERS_MODE
    path = os.path.realpath(planned.path)  # a link stays a link
    try:
        with replace_file.keep_others_out(directory):
            while not _put(path, make, mode):
                pass  # somebody else has just changed it
    except OSError as error:
        raise FileRefused(
            f"cannot write {planned.path}: {error.strerror}",
            fix="make it and its directory writable, and free disk space",
        ) from None
    if not request.is_moving:
        return ""
    item = planned.item
    shorten = partial(_shorten, item, planned.draft.table.name)
    written = replace_file.replace(item.host, item.file, shorten, directory)
    return written.copy if written else ""


def _put(path: str, make: Any, mode: int) -> bool:  # noqa: ANN401  # a partial
    """Write a file with the profile; return False if it has changed meanwhile."""
    before = _read(path)
    after = make(before)
    if before is not None:
        # Only added at its end, so a file with hard links, written in place, needs no copy.
        return bool(write_file.write(path, before, after))
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    is_written = state.write_whole(
        path, after.encode(), is_lasting=True, is_wanted=lambda: not os.path.lexists(path)
    )
    if is_written:
        os.chmod(path, mode)
    return is_written


def _conclude(
    request: AddRequest, planned: _Planned, copy: str, *, is_written: bool
) -> Iterator[str]:
    if not is_written:
        yield "Nothing was changed (--dry-run)." if request.is_dry else "Nothing was changed."
        return
    yield f"Added to {planned.path}"
    if request.is_moving:
        yield f"Changed {planned.item.file.path}"
    if copy:
        yield f"  a copy of it as it was is in {copy}"
    if request.is_projects:
        yield f"To use it here: mcp-launch trust {shlex.quote(planned.path)}"
    yield "Running servers keep their settings until they are started again."


def _describe(request: AddRequest, planned: _Planned, *, is_written: bool) -> dict[str, Any]:
    item = planned.item
    return {
        "version": VERSION,
        "name": planned.draft.table.name,
        "file": planned.path,
        "scope": "project" if request.is_projects else "user",
        "text": planned.draft.masked.spell(),
        "entry": {
            "server": item.name,
            "host": item.host.name,
            "scope": item.scope,
            "file": item.file.path,
            "is_wrapped": item.is_wrapped,
        },
        "is_written": is_written,
        "is_moved": is_written and request.is_moving,
        "notes": planned.notes,
    }
