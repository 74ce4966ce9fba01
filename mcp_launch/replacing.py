"""Write a changed file so that nobody loses anything: neither its host, nor its user, nor we.

Order matters: the copy first, then the record that the file is ours to undo, then the file;
and what was kept goes only after the file is written. Whatever interrupts us, the file is whole
and the way back is there.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import backups, leftovers, registry
from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import FileIO

    from mcp_launch.settings.host import File, Host

# What 0.1.0 called its copies, which it kept beside the files.
OLD_COPY = ".before-mcp-launch"

# A file that is to take another's place, beside it: the process that writes it, and what nobody
# else would call a file of theirs.
_DRAFT = re.compile(r"\.mcp-launch-draft-([0-9]{1,10})-[0-9a-f]{32}")

# A draft is written in a moment; one this old whose process is gone was left behind.
_LEFT_BEHIND = 3600.0

# How long to wait for a host that is writing; it takes milliseconds.
_PATIENCE = 10.0

# A host's lock that is older was left behind: that is its own rule.
_STALE = 10.0


class Outcome(NamedTuple):
    """What was done besides writing a file."""

    copy: str = ""  # where a copy was made, if one was
    removed: tuple[str, ...] = ()  # copies that are needed no longer
    old_copy: str = ""  # beside the file; it differs from the file, so it was not removed
    names: int = 1  # how many names the file has; with several it was written in place


def replace(host: Host, file: File, make: Callable[[str], str], directory: str) -> Outcome | None:
    """Make a file's text another; None if that changes nothing.

    What it is to be is made from what it is by then, under the host's own lock where it has
    one. `directory` is our state directory, where launchers keep each other out.

    Raises:
        FileRefused: It cannot be written, or its host does not let us.

    """
    path = os.path.realpath(file.path)  # a link stays a link
    try:
        with _keep_others_out(directory), _hold(file.lock):
            _sweep(path)
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
        with _keep_others_out(directory):
            return _let_go(directory, path)
    except OSError:
        return ""  # next time


def _replace(
    host: Host, file: File, path: str, make: Callable[[str], str], directory: str
) -> Outcome | None:
    copy = ""
    while True:
        before = _read(path)
        after = make(before)
        if after == before:
            return None
        is_untouched = not leftovers.holds_ours(host, file, before)
        is_ours = leftovers.holds_ours(host, file, after)
        try:
            copy = backups.keep(directory, path, before, is_untouched=is_untouched) or copy
            if is_ours:
                registry.note(directory, host, file)
            names = _write(path, before, after)
        except OSError as error:
            if is_untouched:
                _let_go(directory, path)
            raise FileRefused(
                f"{path} cannot be written: {error.strerror}",
                fix="make it, its directory and your home writable, and make room on the disk",
            ) from None
        if names:
            return _conclude(directory, path, after, Outcome(copy, names=names), is_ours=is_ours)


def _conclude(directory: str, path: str, text: str, outcome: Outcome, *, is_ours: bool) -> Outcome:
    """Leave nothing behind once nothing of ours is in a file."""
    if is_ours:
        return outcome
    copy = _let_go(directory, path)
    old = path + OLD_COPY
    is_removed = _drop_old_copy(old, text)
    return outcome._replace(
        copy="",
        removed=tuple(one for one in (copy, old if is_removed else "") if one),
        old_copy=old if not is_removed and os.path.lexists(old) else "",
    )


def _let_go(directory: str, path: str) -> str:
    """Forget a file in which there is nothing of ours; return the copy that was removed."""
    with contextlib.suppress(OSError):
        registry.forget(directory, path)  # an entry too many does no harm
    return backups.drop(directory, path)


def _drop_old_copy(copy: str, text: str) -> bool:
    """Remove a copy that 0.1.0 made, if it holds nothing that the file itself does not."""
    try:
        status = os.lstat(copy)
        is_own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        if not stat.S_ISREG(status.st_mode) or not is_own or _read(copy) != text:
            return False
        os.unlink(copy)
    except (OSError, ValueError):
        return False
    return True


def _read(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


@contextlib.contextmanager
def _keep_others_out(directory: str) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:
        yield  # Windows: one `wrap` at a time
        return
    os.makedirs(directory, mode=0o700, exist_ok=True)
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


def _write(path: str, before: str, after: str) -> int:
    """Write a file and return how many names it has; 0 if it has changed meanwhile."""
    status = os.stat(path)
    if status.st_nlink > 1:
        # Another file in its place would leave the other names with the old text.
        return status.st_nlink if _write_in_place(path, before, after) else 0
    name = _write_beside(path, after)
    try:
        if _read(path) != before:
            return 0
        os.replace(name, path)
        name = ""
    finally:
        if name:
            os.unlink(name)
    return 1


def _write_in_place(path: str, before: str, after: str) -> bool:
    """Write into a file itself, and put back what was there if that fails.

    There is a copy by now, should the machine stop in the middle of it.
    """
    old, new = before.encode(), after.encode()
    with open(path, "r+b", buffering=0) as file:
        if file.read() != old:
            return False
        try:
            if hasattr(os, "posix_fallocate"):
                # A full disk refuses here, where nothing is lost.
                os.posix_fallocate(file.fileno(), 0, len(new))
            _overwrite(file, new)
        except OSError:
            _overwrite(file, old)
            raise
    return True


def _overwrite(file: FileIO, data: bytes) -> None:
    file.seek(0)
    while data:
        data = data[file.write(data) :]
    file.truncate()
    os.fsync(file.fileno())


def _write_beside(path: str, text: str) -> str:
    """Write a text beside a file, with the file's owner and mode; return where."""
    status = os.stat(path)
    draft = f".mcp-launch-draft-{os.getpid()}-{secrets.token_hex(16)}"
    name = os.path.join(os.path.dirname(path), draft)
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(fd, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if hasattr(os, "chown"):
            os.chown(name, status.st_uid, status.st_gid)
        os.chmod(name, status.st_mode & 0o7777)
    except BaseException:
        os.unlink(name)
        raise
    return name


def _sweep(path: str) -> None:
    """Remove the drafts that a killed one of us left beside a file, and nothing else."""
    directory = os.path.dirname(path)
    for name in os.listdir(directory):
        found = _DRAFT.fullmatch(name)
        if found and _is_left_behind(os.path.join(directory, name), int(found[1])):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))


def _is_left_behind(draft: str, pid: int) -> bool:
    """Tell whether a draft is proven to be ours, and nobody's any more."""
    try:
        status = os.lstat(draft)
    except OSError:
        return False
    is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    is_old = time.time() - status.st_mtime > _LEFT_BEHIND
    is_single = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if not (is_own and is_old and is_single):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
