"""What the rules for all runners share: the request, its outcomes, and how files are read."""

from __future__ import annotations

import os
from stat import S_ISREG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.launch.runners.installing import Install

# The first bytes of programs that the kernel starts itself: ELF, Mach-O (also universal).
_BINARIES = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")

# Larger files are not read. A lock file of a large project has one or two megabytes.
_TOO_LARGE = 8 << 20


class Request:
    """A command that starts with a runner, and everything that its result depends on."""

    __slots__ = ("argv", "cwd", "environ", "now", "program", "stamps")

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        *,
        argv: list[str],
        program: str,
        environ: Mapping[str, str],
        cwd: str,
        stamps: str,
        now: float,
    ) -> None:
        self.argv = argv
        self.program = program  # the runner's file
        self.environ = environ  # what the runner would get
        self.cwd = cwd
        self.stamps = stamps  # the directory where we note when the runner last looked for updates
        self.now = now


class Resolved:
    """The program that the runner would start, and how it would start it."""

    __slots__ = ("argv", "program", "variables", "why")

    is_left_out = True

    def __init__(self, program: str, argv: list[str], variables: dict[str, str], why: str) -> None:
        self.program = program
        self.argv = argv
        self.variables = variables  # what the runner adds to the environment
        self.why = why  # which package of which version this is, and where


class Kept:
    """Why the runner itself is started."""

    __slots__ = ("install", "stamp", "why")

    is_left_out = False

    def __init__(self, why: str, stamp: str = "", install: Install | None = None) -> None:
        self.why = why
        self.stamp = stamp  # a file to write: the runner is about to look for updates
        self.install = install  # what the runner has to install first, if that is certain


class Doubt(Exception):
    """It is not certain what the runner would start."""

    def __init__(self, why: str, stamp: str = "", install: Install | None = None) -> None:
        super().__init__(why)
        self.kept = Kept(why, stamp, install)


def search(name: str, request: Request) -> str:
    """Return the file that a command would be found at, by the runner's PATH."""
    for directory in request.environ.get("PATH", "").split(":"):
        file = os.path.join(request.cwd, directory or ".", name)
        if is_program(file):
            return file
    raise Doubt(f"there is no {name} on PATH")


def is_program(file: str) -> bool:
    """Return whether a shell would start a file that it finds on PATH."""
    return os.path.isfile(file) and os.access(file, os.X_OK)


def is_binary(file: str) -> bool:
    """Return whether a file is a compiled program, and not a script that stands in for one."""
    return read(file, 4).startswith(_BINARIES)


def check_start(file: str) -> None:
    """Raise a doubt unless the kernel itself can start a file."""
    if not read(file, 4).startswith((b"#!", *_BINARIES)):
        raise Doubt(f"{file} needs a shell to be started")


def read(file: str, size: int = _TOO_LARGE + 1) -> bytes:
    """Return the content of a file, or its beginning."""
    if not S_ISREG(os.stat(file).st_mode):
        raise Doubt(f"{file} is not a regular file")  # opening a pipe would wait for its writer
    with open(file, "rb") as opened:
        content = opened.read(size)
    if len(content) > _TOO_LARGE:
        raise Doubt(f"{file} is too large to be read at every start")
    return content
