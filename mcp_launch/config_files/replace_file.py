"""Write a changed file without losing anything of its host, its user or our own records.

Order matters: first the copy, then the record that the file is wrapped, then the file. Copy
and record are removed only after the file is written, so the change can be undone whatever
interrupts us.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import state
from mcp_launch.config_files import backups, planned_changes, wrapped_files
from mcp_launch.errors import FileRefused, name_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.config_files.host_config import File, HostConfig

# How long, in seconds, to wait for a host that is writing; it takes milliseconds.
_PATIENCE = 10.0

# A host's lock older than this, in seconds, was left behind; that is the host's own rule.
_STALE = 10.0

# The name of a draft of `state.write_whole`: the pid of its writer, and enough randomness to be
# ours beyond doubt.
_DRAFT = re.compile(r"\.mcp-launch-draft-([0-9]{1,10})-[0-9a-f]{32}")

# A draft is written in a moment; one that is older than this, in seconds, and whose process is
# gone was left behind.
_LEFT_BEHIND = 3600.0


class WrittenFile(NamedTuple):
    """What was done besides writing a file."""

    copy: str = ""  # where a copy was made, if one was
    removed: tuple[str, ...] = ()  # copies that are no longer needed


def replace(
    host: HostConfig, file: File, make: Callable[[str], str], directory: str
) -> WrittenFile | None:
    """Replace a file's text with what `make` returns for it; None if that changes nothing.

    `make` gets the current text, under the host's own lock where it has one. `directory` is our
    state directory, where launchers lock each other out.

    Raises:
        FileRefused: It cannot be written, its host holds its lock, or it has several names.

    """
    path = os.path.realpath(file.path)  # a link stays a link
    try:
        with keep_others_out(directory), _hold(file.lock):
            _sweep(path)
            _refuse_several_names(path)
            return _replace(host, file, path, make, directory)
    except OSError as error:
        raise FileRefused(
            f"{file.path} was not changed: {name_reason(error)}",
            fix="make it writable for you, or free disk space, then run the command again",
        ) from None


def let_go(file: File, directory: str) -> str:
    """Drop the copy and the record of a file that is no longer wrapped; return the copy's path."""
    path = os.path.realpath(file.path)
    if not os.path.isdir(directory):
        return ""  # nothing was ever wrapped
    try:
        with keep_others_out(directory):
            return _let_go(directory, path)
    except OSError:
        return ""  # next time


def describe_gone(path: str) -> str:
    """Return what a person can do about a wrapped file that is gone."""
    is_alone = os.path.isdir(os.path.dirname(path))
    back = "If it is on another branch or in a stash, bring it back first. " if is_alone else ""
    return (
        f"{path} was wrapped and is gone. {back}If you moved it, unwrap it where it is now: "
        "mcp-launch unwrap --file NEWPATH. If it was deleted, there is nothing left to do"
    )


def _refuse_several_names(path: str) -> None:
    """Refuse a file with hard links: a new one in its place would be only one of them."""
    count = os.stat(path).st_nlink
    if count > 1:
        raise FileRefused(
            f"{path} was not changed: it has {count} names (hard links), and would keep only one",
            fix="replace the others by symbolic links (ln -sf), then run the command again",
        )


def _replace(
    host: HostConfig, file: File, path: str, make: Callable[[str], str], directory: str
) -> WrittenFile | None:
    copy = ""
    while True:
        before = _read(path)
        after = make(before)
        if after == before:
            return None
        is_untouched = not planned_changes.holds_ours(host, file, before)
        is_ours = planned_changes.holds_ours(host, file, after)
        if is_ours:
            wrapped_files.check(directory)
        try:
            copy = backups.keep(directory, path, before, is_untouched=is_untouched) or copy
            if is_ours:
                wrapped_files.note(directory, host, file)
            is_written = _write(path, before, after)
        except OSError as error:
            if is_untouched:
                _let_go(directory, path)
            raise FileRefused(
                f"cannot write {path}: {error.strerror}",
                fix="make it, its directory and your home writable, and free disk space",
            ) from None
        if is_written:
            return _conclude(directory, path, WrittenFile(copy), is_ours=is_ours)


def _conclude(directory: str, path: str, written: WrittenFile, *, is_ours: bool) -> WrittenFile:
    """Remove the copy of a file that is no longer wrapped; return the whole outcome."""
    if is_ours:
        return written
    copy = _let_go(directory, path)
    return written._replace(copy="", removed=(copy,) if copy else ())


def _let_go(directory: str, path: str) -> str:
    """Drop the copy and the record of a file that is no longer wrapped; return the copy's path."""
    with contextlib.suppress(OSError, FileRefused):
        wrapped_files.forget(directory, path)  # an extra entry does no harm
    return backups.drop(directory, path)


@contextlib.contextmanager
def keep_others_out(directory: str) -> Iterator[None]:
    """Let only one launcher at a time change files and their records."""
    try:
        import fcntl
    except ImportError:
        yield  # Windows: one `wrap` at a time
        return
    state.make_directory(directory)
    with open(os.path.join(directory, "wrap.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _hold(lock: str) -> Iterator[None]:
    """Hold the directory that a host creates as a lock while it writes."""
    if not lock:
        yield
        return
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            os.mkdir(lock)
            break
        except FileExistsError:
            _break_if_stale(lock)
        if time.monotonic() > deadline:
            raise FileRefused(
                f"a host holds the lock {lock}", fix="close the host, or remove that directory"
            ) from None
        time.sleep(0.01)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(lock)


def _break_if_stale(lock: str) -> None:
    with contextlib.suppress(OSError):
        if time.time() - os.stat(lock).st_mtime > _STALE:
            os.rmdir(lock)


def _read(path: str) -> str:
    """Return a file's text, with its line ends unchanged."""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def _write(path: str, before: str, after: str) -> bool:
    """Write a file; return False if it has changed meanwhile."""
    return state.write_whole(
        path,
        after.encode(),
        like=os.stat(path),
        is_lasting=True,
        is_wanted=lambda: _read(path) == before,
    )


def _sweep(path: str) -> None:
    """Remove the drafts that a killed launcher left beside a file, and nothing else."""
    directory = os.path.dirname(path)
    for name in os.listdir(directory):
        if is_abandoned(name) and _is_old(os.path.join(directory, name)):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))


def is_abandoned(name: str) -> bool:
    """Return whether a file has the name of a draft, and its writer has ended."""
    found = _DRAFT.fullmatch(name)
    if not found:
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _is_old(draft: str) -> bool:
    """Return whether a draft is a plain file of ours, and too old to be in use."""
    try:
        status = os.lstat(draft)
    except OSError:
        return False
    is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    is_single = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return is_own and is_single and time.time() - status.st_mtime > _LEFT_BEHIND
