"""Everything that can stop a launch, and how a person is told about it.

Exit codes follow the other command prefixes (`env`, `timeout`, `nice`): 125 when
we failed, 126 and 127 when the command cannot be started, otherwise the server's.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


class LaunchError(Exception):
    """The launch cannot go on; carries the problem and the way out of it.

    Both often quote a file, a project or a server, and end up on a terminal, in a log or in
    a host's window, so they are made printable here, once, for every reader.
    """

    exit_code = 125
    is_servers = False  # the server was started, and ended

    def __init__(self, problem: str, *, fix: str) -> None:
        self.problem = printable(problem)
        self.fix = printable(fix)
        super().__init__(self.problem)
        # Requests of the host, as lines, that nobody else will answer now.
        self.pending: list[bytes] = []
        self.unfinished = b""  # and the beginning of its next line


class UsageError(LaunchError):
    """The arguments of a command, or the variables that replace them, are invalid."""

    suggestion = ""  # "did you mean …? ", if something similar exists; the fix begins with it


class SourceMissing(LaunchError):
    """A source that was asked for gave no value."""


class PlaceRefused(LaunchError):
    """The server's directory is missing, or is no place for a session."""


class InFile(LaunchError):
    """Something is wrong in a file, at a place in it if there is a line."""

    def __init__(
        self, problem: str, *, fix: str, path: str = "", line: int = 0, column: int = 0
    ) -> None:
        where = ":".join(str(part) for part in (path, line, column) if part)
        super().__init__(f"{where}: {problem}" if line else problem, fix=fix)
        self.path = path
        self.line = line  # counted from 1, as is the column; 0: nowhere in particular
        self.column = column
        self.without_place = printable(problem)  # for a reader that shows the place itself


class ProfileRefused(InFile):
    """A file with profiles makes no sense, or may not be used."""


class ProfileUntrusted(ProfileRefused):
    """A project's file may not be used, and never was: a launch that can do without it does."""


class FileRefused(InFile):
    """A host's configuration cannot be read or written."""


class LineageContradicted(LaunchError):
    """The process table and the other end of stdin tell different stories."""


class CommandNotFound(LaunchError):
    """The server's command is nowhere on PATH."""

    exit_code = 127


class NotExecutable(LaunchError):
    """The server's command is there, but the system will not run it."""

    exit_code = 126


class ServerFailed(LaunchError):
    """The server ended before it answered; the launch ends with its exit code."""

    is_servers = True

    def __init__(self, problem: str, *, fix: str, exit_code: int) -> None:
        super().__init__(problem, fix=fix)
        self.exit_code = exit_code


def suggest(word: str, known: Iterable[str]) -> str:
    """Return "did you mean …? " for the front of a fix, or nothing when nothing is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]}? " if near else ""


def printable(text: str) -> str:
    """Return a text that can do nothing to a terminal but be shown.

    Control characters (C0, DEL, C1), bidirectional overrides, line separators and whatever
    else is not printable are shown as escapes.
    """
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def tell(error: LaunchError, stream: TextIO | None) -> int:
    """Write the error for a person and return the exit code that goes with it.

    Always stderr: our stdout is the server's, and one stray line on it would
    reach the host as a broken JSON-RPC message.
    """
    if stream is not None:  # None: the host gave us no stderr at all
        stream.write(f"[mcp-launch] {error.problem}\n[mcp-launch]   fix: {error.fix}\n")
        stream.flush()
    return error.exit_code
