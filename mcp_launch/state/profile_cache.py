"""Records of files with profiles: what they say, in a form that a launch reads quickly.

One stands beside our leases for each file that was ever used. It also holds a digest of the
content that it was made from, and whether the user trusts that. A file is compared with its
digest at every launch: times have whole seconds on some file systems, and trust may not.
"""

from __future__ import annotations

import os
import sys
from stat import S_ISREG

from mcp_launch import state
from mcp_launch.errors import ProfileRefused
from mcp_launch.protocol import json_text
from mcp_launch.values import Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The form of a record; another version's is not read.
VERSION = 2

# No file with profiles is; in a project it may be meant to keep us busy.
_TOO_LARGE = 256 << 10

_KEYS = {"version", "path", "digest", "trusted", "was_trusted", "defaults", "servers"}


class Record:
    """What one file says about one server."""

    __slots__ = ("command", "literals", "options", "variables")

    def __init__(self, told: dict[str, Any]) -> None:
        self.command: list[str] = told["command"]
        self.options: dict[str, list[str] | None] = told["options"]
        self.literals: dict[str, str] = told["literals"]
        self.variables = {name: Variable(*facts) for name, facts in told["variables"].items()}


def read(path: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the record of a file, if there is one that can be believed."""
    # Whoever else could write it could say that the user trusts something.
    content = state.read(name_record(path, environ))
    try:
        kept: Any = json_text.parse(content) if content else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(kept, dict):
        return None
    is_of_this = (kept.get("version"), kept.get("path")) == (VERSION, path)
    return kept if is_of_this and kept.keys() == _KEYS else None


def name_record(path: str, environ: Mapping[str, str]) -> str:
    """Return where the record of a file is kept; no two files share a name."""
    return f"{state.find_directory(environ)}/profiles/{digest(os.fsencode(path))}.json"


def read_file(path: str) -> bytes:
    """Return the content of a file with profiles; what lies in a project may be anything.

    Raises:
        ProfileRefused: It cannot be read, or is not a file of a sensible size.

    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if S_ISREG(status.st_mode) and status.st_size <= _TOO_LARGE:
                return file.read()
    except OSError as error:
        raise ProfileRefused(
            f"{path} cannot be read: {error.strerror}", fix="make it readable, or remove it"
        ) from None
    raise ProfileRefused(
        f"{path} is not a regular file, or is larger than {_TOO_LARGE >> 10} KB",
        fix="look at it, or remove it",
    )


def digest(text: bytes) -> str:
    """Return what no two texts have in common."""
    # Each is what hashlib would use if it had to do without OpenSSL, which takes longer to load
    # than the rest of a launch.
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256
    return str(sha256(text).hexdigest())
