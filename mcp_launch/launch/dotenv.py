"""Read the `.env` files that a profile names, with python-dotenv."""

from __future__ import annotations

import os

from mcp_launch.errors import SourceMissing
from mcp_launch.launch.plan import Dotenv
from mcp_launch.values import expand_home, walk_upward

# Far above any file of variables. What never ends would take all the memory, or all the time
# that the host waits for the launch.
_MOST_BYTES = 1_000_000
_MOST_SECONDS = 2

_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.profile import Profile


def load(profile: Profile, context: Context) -> Dotenv:
    """Return all values of the named files; a later file overrides an earlier one.

    If none is named, the nearest `.env` is read, from the session's directory up to the
    project's root.
    """
    files = [locate(file, context) for file in profile.dotenv] or _find_nearest(context)
    values: dict[str, str | None] = {}
    for file in files:
        values.update(_read(file))
    return Dotenv(values, " or ".join(files) or f"any .env in {context.place.value} or above")


def _find_nearest(context: Context) -> list[str]:
    top = getattr(context.project_root, "value", context.place.value)
    for directory in walk_upward(context.place.value):
        if os.path.isfile(f"{directory}/.env"):
            return [f"{directory}/.env"]
        if directory == top:
            break
    return []


def locate(file: str, context: Context) -> str:
    """Return the path of a dotenv file, which may be relative to the session's directory."""
    return os.path.join(context.place.value, expand_home(file, context.home))


def read_text(path: str) -> str:
    """Return the text of a dotenv file: a regular file, or a pipe; see `_read_bytes`."""
    try:
        return _read_bytes(path).decode()
    except FileNotFoundError:
        problem = "does not exist"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        raise SourceMissing(
            f"the dotenv file {path} is not valid UTF-8", fix="save it as UTF-8"
        ) from None
    except ValueError:
        problem = "cannot be a file: its name contains a NUL"
    raise _refuse(path, problem) from None


def _read(path: str) -> dict[str, str | None]:
    from io import StringIO

    from dotenv import dotenv_values
    from dotenv.parser import parse_stream

    text = read_text(path)  # only once: it may be a pipe
    for binding in parse_stream(StringIO(text)):
        if binding.error:
            raise SourceMissing(
                f"{path}, line {binding.original.line}: not valid dotenv syntax",
                fix="write NAME=value, close every quote, and begin comments with #",
            )
    return dotenv_values(stream=StringIO(text))


def _read_bytes(path: str) -> bytes:
    """Read a file that may come with a repository, where it can be a link to anything.

    A pipe is the user's own: `--dotenv <(op inject …)`, or a FIFO. A link to a descriptor is
    not, because it could lead to the host's messages: `.env -> /dev/stdin`.
    """
    import select
    import stat
    from time import monotonic

    # O_NONBLOCK: opening a FIFO would wait for its writer. O_NOCTTY: a terminal would become ours.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        is_own_pipe = path.startswith(_DESCRIPTORS) or not os.path.islink(path)
        if not (stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and is_own_pipe)):
            raise _refuse(path, "is a directory" if stat.S_ISDIR(mode) else "is not a regular file")
        # On macOS, /dev/fd/N stays as blocking as N is: so each read waits for its bytes first.
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        deadline = monotonic() + _MOST_SECONDS
        content = b""
        while poller.poll(max(0, deadline - monotonic()) * 1000):
            piece = os.read(fd, 1 << 16)
            content += piece
            if not piece:
                return content
            if len(content) > _MOST_BYTES:
                raise _refuse(path, "is larger than 1 MB")
    finally:
        os.close(fd)
    raise _refuse(path, f"has no end after {_MOST_SECONDS} s: it is a pipe that is still open")


def _refuse(path: str, problem: str) -> SourceMissing:
    fix = (
        "name a file with lines NAME=value: --dotenv FILE (relative to the session's directory), "
        "or leave it out"
    )
    return SourceMissing(f"the dotenv file {path} {problem}", fix=fix)
