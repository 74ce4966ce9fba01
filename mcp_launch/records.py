"""Records of files with profiles: what they say, in a form that a launch reads quickly.

One stands beside our leases for each file that was ever used. It also holds when the file
said so, and whether the user trusts it.
"""

from __future__ import annotations

import os
from binascii import crc32

from mcp_launch import jsontext, state
from mcp_launch.options import Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The form of a record; another version's is not read.
VERSION = 1

_KEYS = {"version", "path", "stamp", "digest", "trusted", "was_trusted", "servers"}

OTHERS_CAN_WRITE = 0o022


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
    name = name_record(path, environ)
    try:
        with open(name, "rb", opener=_open_no_link) as file:
            places = (os.fstat(file.fileno()), os.stat(os.path.dirname(name)))
            kept: Any = jsontext.parse(file.read())
    except (OSError, ValueError, RecursionError):
        return None
    # Whoever else can write here could say that the user trusts something.
    is_ours = all(
        place.st_uid == os.geteuid() and not place.st_mode & OTHERS_CAN_WRITE for place in places
    )
    if not is_ours or not isinstance(kept, dict):
        return None
    is_of_this = (kept.get("version"), kept.get("path")) == (VERSION, path)
    return kept if is_of_this and kept.keys() == _KEYS else None


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def name_record(path: str, environ: Mapping[str, str]) -> str:
    """Return where the record of a file is kept."""
    return f"{state.find_directory(environ)}/profiles/{crc32(os.fsencode(path)):08x}.json"
