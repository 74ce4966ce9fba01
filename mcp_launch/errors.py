"""Everything that can stop a launch, and how it is reported to a person.

Exit codes follow the other command prefixes (`env`, `timeout`, `nice`): 125 when
we failed, 126 and 127 when the command cannot be started, otherwise the server's.
"""

from __future__ import annotations

import os
from errno import EMFILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


class LaunchError(Exception):
    """The launch cannot continue; carries the problem and its fix.

    Both often quote a file, a project or a server, and end up on a terminal, in a log or in
    a host's window, so they are made printable here, once, for all of these.
    """

    exit_code = 125
    is_servers = False  # the server was started, and ended

    def __init__(self, problem: str, *, fix: str) -> None:
        self.problem = printable(problem)
        self.fix = printable(fix)
        super().__init__(self.problem)
        # The host's requests, as lines, that nothing else will answer any more.
        self.pending: list[bytes] = []
        self.unfinished = b""  # the beginning of its next line


class OutOfResources(LaunchError):
    """The system has run out of something, or refuses it."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"out of system resources: {error.strerror}",
            fix="raise the limit on open files for the host that starts it (ulimit -n 256)"
            if error.errno == EMFILE
            else "check the limits (ulimit -a, df) and what uses them up",
        )


class UsageError(LaunchError):
    """The arguments of `mcp-launch run`, or the matching environment variables, are invalid."""

    suggestion = ""  # "did you mean …? ", if something similar exists; the fix begins with it


class SourceMissing(LaunchError):
    """A requested source has no value."""


class PlaceRefused(LaunchError):
    """The server's directory is missing, or cannot be a session's directory."""


class InFile(LaunchError):
    """Something is wrong in a file, at a known place if `line` is set."""

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
    """The user's file of profiles is invalid, or others can write to it."""


class FileRefused(InFile):
    """A host's configuration cannot be read or written."""


class LineageContradicted(LaunchError):
    """The process table and the other end of stdin contradict each other."""


class CommandNotFound(LaunchError):
    """The server's command is not on PATH."""

    exit_code = 127


class NotExecutable(LaunchError):
    """The server's command exists, but the system will not run it."""

    exit_code = 126


class ServerFailed(LaunchError):
    """The server ended before it answered; the launch ends with its exit code."""

    is_servers = True

    def __init__(self, problem: str, *, fix: str, exit_code: int) -> None:
        super().__init__(problem, fix=fix)
        self.exit_code = exit_code
        self.lines: list[str] = []  # the last ones of its stderr


def suggest(word: str, known: Iterable[str]) -> str:
    """Return "did you mean …? " to begin a fix with, or "" when no known word is close."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]}? " if near else ""


def name_reason(error: OSError) -> str:
    """Return why the system refused something, and where: never Python's own words for it."""
    if not error.strerror:
        return str(error)  # raised by us, in words
    where = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, (str, bytes)) else ""
    return f"{error.strerror}{where}"


def printable(text: str) -> str:
    """Return a text that is safe to show on a terminal.

    Control characters (C0, DEL, C1), bidirectional overrides, line separators and everything
    else that is not printable become escapes.
    """
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def tell(error: LaunchError, stream: TextIO | None) -> int:
    """Write the error for a person and return its exit code.

    Always stderr: our stdout is the server's, and one stray line on it would
    reach the host as a broken JSON-RPC message.
    """
    if stream is not None:  # None: the host gave us no stderr at all
        stream.write(f"[mcp-launch] {error.problem}\n[mcp-launch]   fix: {error.fix}\n")
        stream.flush()
    return error.exit_code
