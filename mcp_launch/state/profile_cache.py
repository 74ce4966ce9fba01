"""Records of profile files: their parsed content, in a form that a launch reads quickly.

Our state directory holds one for each file that was ever used, with a digest of the content
that it was made from, and whether the user trusts that content. Every launch compares the file
with the digest, not with its modification time: some file systems store whole seconds, and trust
must not depend on that.
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

# The format of a record; a record of another version is ignored.
VERSION = 3

# No real profile file is larger; in a project, one may be meant to slow us down.
_TOO_LARGE = 256 << 10

# What a record has; one of a file with invalid tables of servers has `refused`, too.
_KEYS = {"version", "path", "digest", "trusted", "was_trusted", "defaults", "servers"}


class Record:
    """What one file sets for one server."""

    __slots__ = ("command", "literals", "options", "policies", "variables")

    def __init__(self, table: dict[str, Any]) -> None:
        self.command: list[str] = table["command"]
        self.options: dict[str, list[str] | None] = table["options"]
        self.literals: dict[str, str] = table["literals"]
        self.policies: dict[str, Any] = table["policies"]
        self.variables = {name: Variable(*facts) for name, facts in table["variables"].items()}


def read(path: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the record of a file; None if it is missing or not trustworthy."""
    # A user who could write a record could claim that this user trusts a file.
    content = state.read(name_record(path, environ))
    try:
        kept: Any = json_text.parse(content) if content else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(kept, dict):
        return None
    is_of_this = (kept.get("version"), kept.get("path")) == (VERSION, path)
    return kept if is_of_this and kept.keys() - {"refused"} == _KEYS else None


def list_refused(record: dict[str, Any]) -> dict[str, ProfileRefused]:
    """Return the errors in the tables of single servers, by the server's name."""
    return {
        name: ProfileRefused(problem, fix=fix, path=record["path"], line=line, column=column)
        for name, (problem, fix, line, column) in record.get("refused", {}).items()
    }


def name_record(path: str, environ: Mapping[str, str]) -> str:
    """Return the path of a file's record; no two files share one."""
    return f"{state.find_directory(environ)}/profiles/{digest(os.fsencode(path))}.json"


def read_file(path: str) -> bytes:
    """Return the content of a profile file; in a project its path may be a pipe or a device.

    Raises:
        ProfileRefused: It cannot be read, is too large, or is not a regular file.

    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if S_ISREG(status.st_mode) and status.st_size <= _TOO_LARGE:
                return file.read()
    except OSError as error:
        raise ProfileRefused(
            f"{path} cannot be read: {error.strerror}",
            fix="make it readable (chmod u+r), or remove it",
        ) from None
    raise ProfileRefused(
        f"{path} is not a regular file, or is larger than {_TOO_LARGE >> 10} KB",
        fix="replace it with a smaller regular file, or remove it",
    )


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
