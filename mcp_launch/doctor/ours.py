"""Checks of mcp-launch itself: its program, and the directory of its leases and logs."""

from __future__ import annotations

import os
import shlex
import stat
from functools import partial
from typing import TYPE_CHECKING

from mcp_launch import state
from mcp_launch.config_files import wrapped_files
from mcp_launch.doctor.check import Finding, Repair, check
from mcp_launch.errors import FileRefused, UsageError
from mcp_launch.machine import installation
from mcp_launch.machine.survey import Subject
from mcp_launch.values import walk_upward

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Survey

# With less free space, in bytes, a lease or a log may be cut off.
_ROOM = 1 << 20

_MAKE_WRITABLE = "make it writable (chmod u+rwx), or set MCP_LAUNCH_HOME to another directory"

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@check("ML010", "warning", "mcp-launch is not installed where it will last")
def check_launcher(survey: Survey) -> Iterator[Finding]:
    """mcp-launch runs from its source, from a cache, or from a project's virtual environment.

    Hosts keep their entries for months. Without an installed program there is nothing that
    `mcp-launch wrap` could have them start, so it refuses. A program in a cache (`uvx`), in `/tmp`
    or in a `.venv` will probably be deleted one day; then wrapped servers run without it, and
    entries that name the program itself do not start (see ML125).

    Install it with a tool that gives it an environment of its own, then wrap again:

        uv tool install .        # in a clone; or: pipx install .
        mcp-launch wrap

    Commands that an installer puts into `~/.local/bin`, `/usr/local/bin` or `/opt/homebrew/bin`
    survive an upgrade, and are preferred. If you develop mcp-launch, ignore this code.
    """
    try:
        launcher = installation.find(survey.environ, survey.site.home)
    except UsageError as error:
        yield Finding("ML010", Subject(), error.problem, error.fix)
        return
    if warning := installation.warn(launcher):
        yield Finding("ML010", Subject(file=launcher), warning.problem, warning.fix)


@check("ML012", "error", "the directory for leases and logs cannot be used")
def check_state(survey: Survey) -> Iterator[Finding]:
    """Something is wrong with `~/.local/state/mcp-launch`, or the directory in `MCP_LAUNCH_HOME`.

    Launches keep their leases and logs there. It cannot be created or written, belongs to another
    user, can be read or written by others, its disk is full, or a file in it cannot be trusted.
    Servers still start, but without a lease: `mcp-launch ps` knows less about them, and launches
    below one Codex cannot see which threads are taken. A lease that another user could have written
    is ignored, because it names processes to end. Typically mcp-launch ran once with `sudo`, or the
    directory was restored from a backup with other modes.

    The finding has the exact command, such as `sudo chown -R $(id -u) ~/.local/state/mcp-launch`.
    `mcp-launch doctor --fix` makes an open directory private.
    """
    directory = survey.state
    if not os.path.isdir(directory):
        yield from _check_creatable(directory)
        return
    if refused := _check_owner(directory):
        yield from refused
        return
    yield from _check_mode(directory, state.OTHERS_CAN_WRITE)
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from _check_owner(entry.path) or _check_mode(entry.path, _OTHERS)
    yield from _check_leases(os.path.join(directory, "leases"))
    if state.is_own_directory(directory):  # otherwise that is already reported
        try:
            wrapped_files.check(directory)
        except FileRefused as doubt:
            yield _report(directory, doubt.problem, doubt.fix)
    room = os.statvfs(directory)
    if room.f_bavail * room.f_frsize < _ROOM or (room.f_files > 0 and not room.f_favail):
        yield _refuse(directory, f"the disk of {directory} is full", "free disk space (see df)")


def _report(path: str, problem: str, fix: str, repair: Repair | None = None) -> Finding:
    return Finding("ML012", Subject(file=path), problem, fix, repair)


def _refuse(directory: str, problem: str, fix: str) -> Finding:
    return _report(directory, f"{problem}; launches cannot write leases", fix)


def _check_creatable(directory: str) -> Iterator[Finding]:
    """Check that a missing directory could be created."""
    above = next(filter(os.path.lexists, walk_upward(os.path.abspath(directory))))
    if not os.path.isdir(above):
        problem = f"{directory} cannot be created: {above} is not a directory"
        yield _refuse(directory, problem, f"move {above} away")
    elif not os.access(above, os.W_OK | os.X_OK):
        problem = f"{directory} cannot be created: {above} is not writable"
        yield _refuse(directory, problem, _MAKE_WRITABLE)


def _check_owner(directory: str) -> list[Finding]:
    owner = os.stat(directory).st_uid
    if owner != os.geteuid():
        fix = f"run: sudo chown -R $(id -u) {shlex.quote(directory)}"
        return [_refuse(directory, f"{directory} belongs to another user (uid {owner})", fix)]
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return [_refuse(directory, f"{directory} is not writable", _MAKE_WRITABLE)]
    return []


def _check_mode(directory: str, forbidden: int) -> list[Finding]:
    mode = stat.S_IMODE(os.stat(directory).st_mode)
    if not mode & forbidden:
        return []
    problem = f"{directory} is open to other users (mode {mode:o})"
    repair = Repair(f"make {directory} private", partial(_make_private, directory))
    return [_report(directory, problem, f"run: chmod 700 {shlex.quote(directory)}", repair)]


def _make_private(directory: str) -> None:
    try:
        os.chmod(directory, stat.S_IRWXU)
    except OSError as error:
        raise FileRefused(
            f"{directory} cannot be made private: {error.strerror}",
            fix=f"check its owner: ls -ld {shlex.quote(directory)}",
        ) from None


def _check_leases(directory: str) -> Iterator[Finding]:
    """Check that only this user can have written each lease."""
    if not os.path.isdir(directory) or not state.is_own_directory(directory):
        return  # already reported for the directory, if it exists
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        is_plain = entry.is_file(follow_symlinks=False)
        if not is_plain or not state.is_own(entry.stat(follow_symlinks=False)):
            problem = f"{entry.path} may have been written by another user, so it is not trusted"
            yield _report(entry.path, problem, f"remove it: rm {shlex.quote(entry.path)}")
