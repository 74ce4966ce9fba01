"""Records of files with profiles: what they say, in a form that a launch reads quickly.

One stands beside our leases for each file that was ever used. It also holds when the file
said so, and whether the user trusts it.
"""

from __future__ import annotations

import os
import sys

from mcp_launch import jsontext, ours, state
from mcp_launch.options import Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The form of a record; another version's is not read.
VERSION = 2

_KEYS = {"version", "path", "stamp", "digest", "trusted", "was_trusted", "defaults", "servers"}


class Record:
    """What one file says about one server."""

    __slots__ = ("command", "literals", "options", "variables")

    def __init__(self, told: dict[str, Any]) -> None:
        self.command: list[str] = told["command"]
        self.options: dict[str, list[str] | None] = told["options"]
        self.literals: dict[str, str] = told["literals"]
        self.variables = {name: Variable(*facts) for name, facts in told["variables"].items()}


def make_stamp(status: os.stat_result) -> list[int]:
    """Return what changes when a file does."""
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]


def read(path: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the record of a file, if there is one that can be believed."""
    # Whoever else could write it could say that the user trusts something.
    content = ours.read(name_record(path, environ))
    try:
        kept: Any = jsontext.parse(content) if content else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(kept, dict):
        return None
    is_of_this = (kept.get("version"), kept.get("path")) == (VERSION, path)
    return kept if is_of_this and kept.keys() == _KEYS else None


def name_record(path: str, environ: Mapping[str, str]) -> str:
    """Return where the record of a file is kept; no two files share a name."""
    return f"{state.find_directory(environ)}/profiles/{_hash(os.fsencode(path))}.json"


def _hash(text: bytes) -> str:
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
