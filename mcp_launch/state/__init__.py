"""Our files: where they are, how they are written and read safely; the trace of decisions.

A file that another user could have written is never believed: for what these files say servers
are ended, calls are routed and commands are run.
"""

from __future__ import annotations

import os
import sys
from stat import S_ISREG
from time import time as _now

from mcp_launch.errors import printable
from mcp_launch.values import DECISION, expand_home, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    class Log(Protocol):
        """A place where decisions are recorded."""

        @property
        def descriptor(self) -> int:
            """Return the file descriptor of the log, or -1."""

        def note(self, text: str, kind: str = DECISION, moment: float | None = None) -> None:
            """Record one decision, or an event."""


# The variable that names a file for a launch's outcome, set by a program that wants to read it.
OUTCOME = "MCP_LAUNCH_OUTCOME"

# The permission bits that let group or others write.
OTHERS_CAN_WRITE = 0o022

# Far above the size of any lease or record. A larger file is not read.
_TOO_LARGE = 16 << 20


def find_directory(environ: Mapping[str, str]) -> str:
    """Return our state directory; XDG_* is ignored, as Codex does not pass it to servers."""
    home = find_home_directory(environ)
    chosen = environ.get("MCP_LAUNCH_HOME") or "~/.local/state/mcp-launch"
    # Relative to the home, never to the working directory, which is some project.
    return os.path.join(home, expand_home(chosen, home))


def find_leases(environ: Mapping[str, str]) -> str:
    """Return the directory of the leases."""
    return f"{find_directory(environ)}/leases"


def name_lease(environ: Mapping[str, str], launch: str) -> str:
    """Return the path of one launch's lease."""
    return f"{find_leases(environ)}/{launch}.json"


def make_directory(directory: str) -> None:
    """Create our state directory, or secure it: no other user may write into it."""
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        secure(directory)


def secure(directory: str) -> None:
    """Remove write permission for others from our state directory, if it exists and is ours.

    A sticky directory (/tmp) is open to everybody on purpose, and stays as the user chose it.
    """
    try:
        status = os.stat(f"{directory}/")  # the slash makes it fail unless it is a directory
        is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
        if is_own and status.st_mode & 0o022 and not status.st_mode & 0o1000:
            os.chmod(directory, status.st_mode & 0o7755)
    except OSError:
        pass  # `read` rejects the files in it


def make_private(directory: str) -> None:
    """Create a directory in our state that only this user can read, unless it exists."""
    if not os.path.isdir(directory):
        make_directory(os.path.dirname(directory))
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass  # another launch has just created it


def write_whole(  # noqa: PLR0913  # each is about one of the ways to write
    path: str,
    content: bytes,
    *,
    mode: int = 0o600,
    like: os.stat_result | None = None,
    is_lasting: bool = False,
    is_wanted: Callable[[], bool] | None = None,
) -> bool:
    """Replace a file's content atomically; return False if `is_wanted` says no.

    A draft in the same directory is renamed over the file: readers see the old content or the
    new, never a part. Only this user can read it, unless it is to be `like` another file.
    `is_lasting` makes it survive a power cut, which costs milliseconds. `is_wanted` is called
    last, immediately before the rename.

    Raises:
        OSError: It cannot be written; no draft is left.

    """
    name = f".mcp-launch-draft-{os.getpid()}-{os.urandom(16).hex()}"
    draft = os.path.join(os.path.dirname(path), name)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        try:
            while content:
                content = content[os.write(fd, content) :]
            if is_lasting:
                os.fsync(fd)
        finally:
            os.close(fd)
        if like is not None:
            if hasattr(os, "chown"):
                os.chown(draft, like.st_uid, like.st_gid)
            os.chmod(draft, like.st_mode & 0o7777)
        if is_wanted is None or is_wanted():
            os.replace(draft, path)
            draft = ""
    finally:
        if draft:
            remove(draft)
    return not draft


def remove(path: str) -> None:
    """Remove one of our files; ignore it if that fails."""
    try:
        os.unlink(path)
    except OSError:
        pass  # removed already, or never written


def read(path: str) -> bytes | None:
    """Return a file's content; None if it is missing, or another user may have written it."""
    if not hasattr(os, "geteuid"):
        return None  # Windows, where nothing is launched
    try:
        # Do not follow a link elsewhere, and do not wait for the writer of a named pipe.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode) or not is_own(status) or status.st_size > _TOO_LARGE:
            return None
        if not is_own_directory(os.path.dirname(path)):
            return None
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return None
    finally:
        os.close(fd)


def digest(text: bytes) -> str:
    """Return the SHA-256 digest of a text, in hexadecimal."""
    # These modules are hashlib's own fallbacks for a Python without OpenSSL. Loading OpenSSL
    # takes longer than the rest of a launch.
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    return str(sha256(text).hexdigest())


def digest_512(text: bytes) -> str:
    """Return the SHA-512 digest of a text, in hexadecimal."""
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha512
        else:
            from _sha512 import sha512  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha512
    return str(sha512(text).hexdigest())


def is_own_directory(path: str) -> bool:
    """Return whether only this user can create files in a directory."""
    try:
        return is_own(os.stat(path))
    except OSError:
        return False


def is_own(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user, and no other user can write to it."""
    return is_users(status) and not status.st_mode & OTHERS_CAN_WRITE


def is_users(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user; always True on Windows."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


_is_on = False
_is_kept = True
_log: Log | None = None
_kept: list[tuple[str, str, float]] = []  # until the log is opened, while the server boots


def show_trace() -> None:
    """Print every decision from now on to stderr."""
    global _is_on  # noqa: PLW0603  # one process, one launch, one switch
    _is_on = True


def note(text: str, kind: str = DECISION) -> None:
    """Record one decision with its origin, or an event, and print it if tracing is on."""
    record(text, kind)
    if _is_on:
        try:
            os.write(2, f"[mcp-launch] {printable(text)}\n".encode(errors="backslashreplace"))
        except OSError:
            pass  # stderr is closed; the launch does not depend on it


def record(text: str, kind: str = DECISION) -> None:
    """Record a line in the log without printing it."""
    if _log is not None:
        _log.note(text, kind)
    elif _is_kept:
        _kept.append((text, kind, _now()))


def keep_no_trace() -> None:
    """Drop the lines kept so far, and keep no later ones."""
    global _is_kept  # noqa: PLW0603  # see above
    _is_kept = False
    _kept.clear()


def list_trace_descriptors() -> list[int]:
    """Return the file descriptors that logging needs."""
    return [_log.descriptor] if _log is not None and _log.descriptor >= 0 else []


def needs_log() -> bool:
    """Return whether lines are to be logged and no log is open yet."""
    return _is_kept and _log is None


def keep_trace_in(log: Log) -> None:
    """Write all lines to this log, including those kept so far."""
    global _log  # noqa: PLW0603  # one process, one launch, one log
    for text, kind, moment in _kept:
        log.note(text, kind, moment)
    _kept.clear()
    _log = log
