"""Read what a host records about its sessions: in files, and in its servers' environment.

A launch must neither fail nor wait because of a file: it may be half written, huge, or no file at
all (to open a named pipe waits for a writer).
"""

from __future__ import annotations

import os
import stat
import time

from mcp_launch.protocol import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Sighting
    from mcp_launch.protocol.json_text import Json

# The limit in bytes for a record: hosts write less than a thousand.
_SIZE_LIMIT = 1 << 20

# How long an id may be: hosts use less than a hundred characters.
_ID_LENGTH = 1000


def read(path: str, limit: int = _SIZE_LIMIT) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: It cannot be read, is not a regular file, or is larger than the limit.

    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is not a regular file")
        parts, size = [], 0
        while part := os.read(fd, limit + 1 - size):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise OSError(f"{path} is larger than {limit} bytes")
        return b"".join(parts)
    finally:
        os.close(fd)


def parse(path: str, limit: int = _SIZE_LIMIT) -> dict[str, Json] | None:
    """Return the object in a JSON file; None if there is something else in it.

    Raises:
        OSError: As `read` does.
        ValueError: It is not JSON, perhaps because it is being written.

    """
    try:
        record = json_text.parse(read(path, limit))
    except RecursionError:
        return None  # nested deeper than anything that a host writes
    return record if isinstance(record, dict) else None


def pick_id(value: object) -> str | None:
    """Return a value that can be a session's id; None for one that no host would use."""
    # Without control characters: it is shown on terminals, and put into environments.
    is_id = isinstance(value, str) and 0 < len(value) <= _ID_LENGTH and value.isprintable()
    return str(value) if is_id else None


def read_variable(sighting: Sighting, name: str) -> str | None:
    """Return the id in a variable that the host has set for us; None if it only passed it on.

    Everything that is started from a host's shell inherits the variable, another host included.
    """
    told = pick_id(sighting.environ.get(name))
    process = sighting.process
    above = sighting.table.read_variable(process.identity.pid, name) if process else None
    return None if told == above else told


def find_start(sighting: Sighting) -> float | None:
    """Return when the host's process started, in seconds since 1970; None if that is unknown."""
    process = sighting.process
    age = sighting.table.started_seconds_ago(process.identity.pid) if process else None
    return None if age is None else time.time() - age
