"""The launcher itself: its program, its state directory and its profiles."""

from __future__ import annotations

import os
import shlex
import stat
from functools import partial
from typing import TYPE_CHECKING

from mcp_launch import state
from mcp_launch.config_files import leftovers, wrapped_files
from mcp_launch.doctor.finding import Finding, Repair
from mcp_launch.errors import FileRefused, ProfileRefused, UsageError
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch import profile_tables
from mcp_launch.machine import installation, known_files
from mcp_launch.machine.subject import Subject
from mcp_launch.machine.survey import list_elsewhere
from mcp_launch.values import walk_upward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.machine.survey import Survey

# With less free space, in bytes, a lease or a log may be cut off.
_ROOM = 1 << 20

# What launches keep in the directory of their state, each in a directory of its own.
_DIRECTORIES = {"backups", "handshakes", "leases", "logs", "pools", "runners"}

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_launcher(survey: Survey) -> Iterator[Finding]:
    """Check that hosts can find the launcher, now and later (ML010, ML011)."""
    try:
        launcher = installation.find(survey.environ, survey.site.home)
    except UsageError as error:
        yield Finding("ML010", Subject(), error.problem, error.fix)
        return
    if warning := installation.warn(launcher):
        yield Finding("ML011", Subject(file=launcher), warning.problem, warning.fix)


def check_state(survey: Survey) -> Iterator[Finding]:
    """Check that leases and logs can be written, and that other users cannot read them (ML012)."""
    if not hasattr(os, "geteuid"):
        return  # Windows, where there are neither
    directory = survey.state
    if not os.path.isdir(directory):
        yield from _check_creatable(directory)
        return
    if refused := _check_owner(directory):
        yield from refused
        return
    yield from _check_mode(directory, is_private=False)
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from _check_owner(entry.path) or _check_mode(entry.path, is_private=True)
        elif entry.name in _DIRECTORIES:
            yield _refuse_file(entry.path)
    yield from _check_leases(os.path.join(directory, "leases"))
    if state.is_own_directory(directory):  # otherwise that is already reported
        for doubt in wrapped_files.list_doubts(directory):
            yield Finding("ML012", Subject(file=directory), doubt.problem, doubt.fix)
    yield from check_room(directory)


def _refuse_file(path: str) -> Finding:
    what = "is a link" if os.path.islink(path) else "is not a directory"
    return Finding(
        "ML012",
        Subject(file=path),
        f"{path} {what}, so launches cannot write their {os.path.basename(path)}",
        f"move it away: mv {shlex.quote(path)} {shlex.quote(path + '.old')}",
    )


def _check_leases(directory: str) -> Iterator[Finding]:
    """Check that only this user can have written each lease."""
    if not os.path.isdir(directory) or not state.is_own_directory(directory):
        return  # already reported for the directory, if it exists
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        is_plain = entry.is_file(follow_symlinks=False)
        if not is_plain or not state.is_own(entry.stat(follow_symlinks=False)):
            yield Finding(
                "ML012",
                Subject(file=entry.path),
                f"{entry.path} may have been written by another user, so it is not trusted",
                f"remove it: rm {shlex.quote(entry.path)}",
            )


def _check_creatable(directory: str) -> Iterator[Finding]:
    """Check that a missing directory could be created."""
    above = next(filter(os.path.lexists, walk_upward(os.path.abspath(directory))))
    if not os.path.isdir(above):
        problem = f"{directory} cannot be created: {above} is not a directory"
        yield _refuse(directory, problem, f"move {above} away")
    elif _is_read_only(above):
        yield _refuse_read_only(directory)
    elif not os.access(above, os.W_OK | os.X_OK):
        problem = f"{directory} cannot be created: {above} is not writable"
        yield _refuse(directory, problem, f"make it writable: chmod u+wx {shlex.quote(above)}")


def _refuse(directory: str, problem: str, fix: str) -> Finding:
    return Finding(
        "ML012", Subject(file=directory), f"{problem}; launches cannot write leases", fix
    )


def _check_owner(directory: str) -> list[Finding]:
    owner = os.stat(directory).st_uid
    if owner != os.geteuid():
        fix = f"run: sudo chown -R $(id -u) {shlex.quote(directory)}"
        return [_refuse(directory, f"{directory} belongs to another user (uid {owner})", fix)]
    if _is_read_only(directory):
        return [_refuse_read_only(directory)]
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        fix = f"run: chmod u+rwx {shlex.quote(directory)}"
        return [_refuse(directory, f"{directory} is not writable", fix)]
    return []


def _is_read_only(directory: str) -> bool:
    try:
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    except OSError:
        return False  # whatever is wrong with it, this is not known


def _refuse_read_only(directory: str) -> Finding:
    problem = f"{directory} is on a file system that is mounted read-only"
    return _refuse(directory, problem, "set MCP_LAUNCH_HOME to a directory that can be written")


def _check_mode(directory: str, *, is_private: bool) -> list[Finding]:
    """Check that other users cannot write to a directory, nor read it if it is private."""
    forbidden = _OTHERS if is_private else state.OTHERS_CAN_WRITE
    mode = stat.S_IMODE(os.stat(directory).st_mode)
    if not mode & forbidden:
        return []
    return [
        Finding(
            "ML012",
            Subject(file=directory),
            f"{directory} is open to other users (mode {mode:o})",
            f"run: chmod 700 {shlex.quote(directory)}",
            Repair(f"make {directory} private", partial(_make_private, directory)),
        )
    ]


def _make_private(directory: str) -> None:
    try:
        os.chmod(directory, stat.S_IRWXU)
    except OSError as error:
        raise FileRefused(
            f"{directory} cannot be made private: {error.strerror}",
            fix=f"check its owner: ls -ld {shlex.quote(directory)}",
        ) from None


def check_room(
    directory: str, look: Callable[[str], os.statvfs_result] | None = None
) -> Iterator[Finding]:
    """Check that there is space for a lease."""
    room = (look or os.statvfs)(directory)
    is_full = room.f_bavail * room.f_frsize < _ROOM or (room.f_files > 0 and not room.f_favail)
    if is_full:
        yield _refuse(directory, f"the disk of {directory} is full", "free disk space (see df)")


def check_user_profile(survey: Survey) -> Iterator[Finding]:
    """Check that the user's profiles can be used (ML013)."""
    if survey.site.platform == "win32":
        return
    try:
        found = profile_tables.read(survey.environ).refused
    except ProfileRefused as refused:
        found = {"": refused}
    path = profile_tables.locate(survey.environ)
    for server, error in found.items():
        effect = f"{server} does not start" if server else "no wrapped server starts"
        yield Finding(
            "ML013",
            Subject(file=path, line=error.line, column=error.column),
            f"{error.without_place}; until this is fixed, {effect}",
            error.fix,
        )


def check_elsewhere(survey: Survey) -> Iterator[Finding]:
    """Find wrapped files outside this project, or that are gone (ML017)."""
    here = known_files.list_all(HOSTS.values(), survey.site, survey.table)
    found = list_elsewhere(here, survey.state)
    found = [(host, file) for host, file in found if any(map(survey.covers, host.processes))]
    paths = [file.path for host, file in found if leftovers.is_wrapped_now(host, file)]
    if paths:
        yield Finding(
            "ML017",
            Subject(),
            f"these files outside this project are wrapped, too: {', '.join(paths)}",
            "nothing to do; to unwrap all files at once: mcp-launch unwrap --all",
        )
    if gone := wrapped_files.list_gone(survey.state):
        yield Finding(
            "ML017",
            Subject(),
            f"these files were wrapped and are gone: {', '.join(gone)}",
            "if you moved them, unwrap each where it is now: mcp-launch unwrap --file NEWPATH; "
            "if not, remove their records: mcp-launch unwrap --all",
        )


OF_ALL = (
    check_launcher,
    check_state,
    check_user_profile,
    check_elsewhere,
)
