"""Our own files: where they are, and who may write them."""

from __future__ import annotations

import os
from stat import S_ISREG

from mcp_launch.values import expand_home, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Names the file that a launch writes its outcome to, if whoever starts it wants to know.
OUTCOME = "MCP_LAUNCH_OUTCOME"


def find_directory(environ: Mapping[str, str]) -> str:
    """Return the directory; not under XDG_*, which Codex does not pass on to its servers."""
    home = find_home_directory(environ)
    moved = environ.get("MCP_LAUNCH_HOME") or "~/.local/state/mcp-launch"
    # Never relative to where we happen to run: that is somebody's project.
    return os.path.join(home, expand_home(moved, home))


def find_leases(environ: Mapping[str, str]) -> str:
    """Return where the leases are."""
    return f"{find_directory(environ)}/leases"


def name_lease(environ: Mapping[str, str], launch: str) -> str:
    """Return the path of one launch's lease."""
    return f"{find_leases(environ)}/{launch}.json"


def make_directory(directory: str) -> None:
    """Make our state directory so that nobody else can write into it, whatever the umask is."""
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        secure(directory)


def secure(directory: str) -> None:
    """Keep others from writing into our state directory, if it is there and ours.

    A sticky one (/tmp) is open to everybody on purpose: that is left to whoever named it.
    """
    try:
        status = os.stat(f"{directory}/")  # fails for what is not a directory
        is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
        if is_own and status.st_mode & 0o022 and not status.st_mode & 0o1000:
            os.chmod(directory, status.st_mode & 0o7755)
    except OSError:
        pass  # whoever reads from it sees that it is not to be believed


def make_private(directory: str) -> None:
    """Make a directory of our state that nobody else can look into, unless it is there."""
    if not os.path.isdir(directory):
        make_directory(os.path.dirname(directory))
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass  # another launch was faster


def write_whole(
    path: str,
    content: bytes,
    *,
    like: os.stat_result | None = None,
    is_lasting: bool = False,
    is_wanted: Callable[[], bool] | None = None,
) -> bool:
    """Give a file another content, all of it or none; False if that is not wanted any more.

    A draft beside it, on the same disk, is renamed over it: readers see the old content or
    the new one, never a part. It is this user's alone, unless it is to be like another file.
    `is_lasting` has it survive a power cut, which costs milliseconds. `is_wanted` is asked
    last, when nothing remains to be done but the renaming.

    Raises:
        OSError: It cannot be written; no draft is left.

    """
    draft = f"{os.path.dirname(path)}/.mcp-launch-draft-{os.getpid()}-{os.urandom(16).hex()}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
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
    """Remove a file of ours, if it is there and can be."""
    try:
        os.unlink(path)
    except OSError:
        pass  # removed already, or never written


OTHERS_CAN_WRITE = 0o022

# No lease and no record comes near it.
_TOO_LARGE = 16 << 20


def read(path: str) -> bytes | None:
    """Return a file's content; None if there is none, or somebody else may have written it."""
    if not hasattr(os, "geteuid"):
        return None  # Windows, where nothing is launched
    try:
        # Neither a link elsewhere nor a pipe that would have us wait.
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


def is_own_directory(path: str) -> bool:
    """Tell whether only this user can put files into a directory."""
    try:
        return is_own(os.stat(path))
    except OSError:
        return False


def is_own(status: os.stat_result) -> bool:
    """Tell whether something belongs to this user, and nobody else may write to it."""
    return is_users(status) and not status.st_mode & OTHERS_CAN_WRITE


def is_users(status: os.stat_result) -> bool:
    """Tell whether something belongs to this user; Windows has no such owners."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
