"""Write a changed file so that nobody loses anything: neither its host, nor its user, nor we.

Order matters: the copy first, then the record that the file is ours to undo, then the file;
and what was kept goes only after the file is written. Whatever interrupts us, the way back is
there.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import state
from mcp_launch.config_files import backups, leftovers, wrapped_files, write_file
from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.config_files.host_config import File, HostConfig

# What 0.1.0 called its copies, which it kept beside the files.
OLD_COPY = ".before-mcp-launch"

# How long to wait for a host that is writing; it takes milliseconds.
_PATIENCE = 10.0

# A host's lock that is older was left behind: that is its own rule.
_STALE = 10.0


class WrittenFile(NamedTuple):
    """What was done besides writing a file."""

    copy: str = ""  # where a copy was made, if one was
    removed: tuple[str, ...] = ()  # copies that are needed no longer
    names: int = 1  # how many names the file has; with several it was written in place


def replace(
    host: HostConfig, file: File, make: Callable[[str], str], directory: str
) -> WrittenFile | None:
    """Make a file's text another; None if that changes nothing.

    What it is to be is made from what it is by then, under the host's own lock where it has
    one. `directory` is our state directory, where launchers keep each other out.

    Raises:
        FileRefused: It cannot be written, or its host does not let us.

    """
    path = os.path.realpath(file.path)  # a link stays a link
    try:
        with keep_others_out(directory), _hold(file.lock):
            write_file.sweep(path)
            return _replace(host, file, path, make, directory)
    except OSError as error:
        raise FileRefused(
            f"{file.path} stays as it is: {error}", fix="remove the cause, then try again"
        ) from None


def let_go(file: File, directory: str) -> str:
    """Forget a file in which there is nothing of ours; return the copy that was removed."""
    path = os.path.realpath(file.path)
    if not os.path.isdir(directory):
        return ""  # nothing was ever kept
    try:
        with keep_others_out(directory):
            return _let_go(directory, path)
    except OSError:
        return ""  # next time


def forget_gone(directory: str, told: list[str]) -> list[str]:
    """Stop naming files that are gone, of which the user was told; return them."""
    try:
        if told and os.path.isdir(directory):
            with keep_others_out(directory):
                return wrapped_files.forget_gone(directory, told)
    except (OSError, FileRefused):
        pass  # next time
    return []


def describe_gone(path: str) -> str:
    """Say what a person can do about a wrapped file that is gone."""
    is_alone = os.path.isdir(os.path.dirname(path))
    back = "If it is on another branch or in a stash, bring it back first. " if is_alone else ""
    return (
        f"{path} was wrapped and is gone. {back}If you moved it, unwrap it where it is now: "
        "mcp-launch unwrap --file NEWPATH"
    )


def _replace(
    host: HostConfig, file: File, path: str, make: Callable[[str], str], directory: str
) -> WrittenFile | None:
    copy = ""
    while True:
        before = write_file.read(path)
        after = make(before)
        if after == before:
            return None
        is_untouched = not leftovers.holds_ours(host, file, before)
        is_ours = leftovers.holds_ours(host, file, after)
        if is_ours:
            wrapped_files.check(directory)
        try:
            copy = backups.keep(directory, path, before, is_untouched=is_untouched) or copy
            if is_ours:
                wrapped_files.note(directory, host, file)
            names = write_file.write(path, before, after)
        except OSError as error:
            if not _reads_as(path, before):
                kept = _rescue(directory, path, before, is_untouched=is_untouched)
                raise FileRefused(
                    f"{path} may be damaged, it could not be written whole: {error.strerror}",
                    fix=f"make room on the disk, then put back what was there: {kept}",
                ) from None
            if is_untouched:
                _let_go(directory, path)
            raise FileRefused(
                f"{path} cannot be written: {error.strerror}",
                fix="make it, its directory and your home writable, and make room on the disk",
            ) from None
        if names:
            return _conclude(
                directory, path, after, WrittenFile(copy, names=names), is_ours=is_ours
            )


def _reads_as(path: str, text: str) -> bool:
    try:
        return write_file.read(path) == text
    except (OSError, ValueError):
        return False


def _rescue(directory: str, path: str, text: str, *, is_untouched: bool) -> str:
    """Return where the text of a file is that was damaged; the copy may be an older one."""
    if not is_untouched:
        with contextlib.suppress(OSError, FileRefused):
            return backups.keep(directory, f"{path}.rescued", text, is_untouched=True)
    return backups.name_copy(directory, path)


def _conclude(
    directory: str, path: str, text: str, written: WrittenFile, *, is_ours: bool
) -> WrittenFile:
    """Leave nothing behind once nothing of ours is in a file."""
    if is_ours:
        return written
    copy = _let_go(directory, path)
    old = path + OLD_COPY
    is_removed = _drop_old_copy(old, text)
    return written._replace(
        copy="",
        removed=tuple(one for one in (copy, old if is_removed else "") if one),
    )


def _let_go(directory: str, path: str) -> str:
    """Forget a file in which there is nothing of ours; return the copy that was removed."""
    with contextlib.suppress(OSError, FileRefused):
        wrapped_files.forget(directory, path)  # an entry too many does no harm
    return backups.drop(directory, path)


def _drop_old_copy(copy: str, text: str) -> bool:
    """Remove a copy that 0.1.0 made, if it holds nothing that the file itself does not."""
    try:
        status = os.lstat(copy)
        is_own = state.is_users(status)
        if not stat.S_ISREG(status.st_mode) or not is_own or write_file.read(copy) != text:
            return False
        os.unlink(copy)
    except (OSError, ValueError):
        return False
    return True


@contextlib.contextmanager
def keep_others_out(directory: str) -> Iterator[None]:
    """Let one launcher at a time change files, and what is recorded of them."""
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
    """Hold the directory by which a host tells itself that it is writing."""
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
                f"a host holds {lock}", fix="close the host, or remove that directory"
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
