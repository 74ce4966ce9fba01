"""Write a changed file so that nobody loses anything: neither its host, nor its user, nor we."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from typing import TYPE_CHECKING

from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.settings.host import File

BACKUP = ".before-mcp-launch"
_BESIDE = ".mcp-launch-"

# How long to wait for a host that is writing; it takes milliseconds.
_PATIENCE = 10.0

# A host's lock that is older was left behind: that is its own rule.
_STALE = 10.0


def replace(file: File, make: Callable[[str], str], directory: str) -> bool:
    """Make a file's text another; False if that changes nothing.

    What it is to be is made from what it is by then, under the host's own lock where it has
    one. `directory` is where launchers keep each other out.

    Raises:
        FileRefused: It cannot be written, or its host does not let us.

    """
    path = os.path.realpath(file.path)  # a link stays a link
    try:
        with _keep_others_out(directory), _hold(file.lock):
            _sweep(path)
            return _replace(path, make)
    except OSError as error:
        raise FileRefused(f"{file.path}: {error}", fix="see to it, then try again") from None


def _replace(path: str, make: Callable[[str], str]) -> bool:
    while True:
        before = _read(path)
        after = make(before)
        if after == before:
            return False
        try:
            _back_up(path, before)
            if _write(path, before, after):
                _drop_backup(path, after)
                return True
        except OSError as error:
            raise FileRefused(
                f"{path} cannot be written: {error.strerror}",
                fix="make it and its directory writable, and make room",
            ) from None


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


def _back_up(path: str, text: str) -> None:
    """Keep what was there before we ever touched it; where nobody has put anything."""
    if os.path.lexists(path + BACKUP):
        return
    name = _write_beside(path, text)
    try:
        os.link(name, path + BACKUP)
    finally:
        os.unlink(name)


def _drop_backup(path: str, text: str) -> None:
    """Leave nothing behind once everything is as it was."""
    with contextlib.suppress(OSError):
        if _read(path + BACKUP) == text:
            os.unlink(path + BACKUP)


def _write(path: str, before: str, after: str) -> bool:
    """Replace a file; False if somebody else has changed it meanwhile."""
    name = _write_beside(path, after)
    try:
        if _read(path) != before:
            return False
        os.replace(name, path)
        name = ""
    finally:
        if name:
            os.unlink(name)
    return True


def _write_beside(path: str, text: str) -> str:
    """Write a text beside a file, with the file's owner and mode; return where."""
    status = os.stat(path)
    fd, name = tempfile.mkstemp(prefix=_BESIDE, dir=os.path.dirname(path))
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
    """Remove what a killed one of us left beside a file."""
    directory = os.path.dirname(path)
    for name in os.listdir(directory):
        if name.startswith(_BESIDE):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))
