"""Read the records of calls onwards from a remembered position.

Records are in parts: files that are only appended to, several at the same time, and deleted when
they are old. So a position is not one number but one per part, and a part that has vanished with
unread lines is counted, because its calls are lost to us.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch.machine.call_records import list_parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    from mcp_launch.protocol.json_text import Json

# Larger than a whole part: a "line" of this length is not a record.
_LONGEST = 8 << 20

# How much is read at a time, in records and in bytes: what is held in memory, and one request.
BATCH = 500
_BATCH_SIZE = 1 << 20


class Reach(NamedTuple):
    """How far a part was read, and how far it went when it was last seen, in bytes."""

    read: int
    seen: int


class RecordBatch(NamedTuple):
    """Some records, and the position after them."""

    records: list[dict[str, Json]]
    parts: dict[str, Reach]
    torn: int  # lines that are not records
    missed: int  # parts that vanished before they were read to their end

    @property
    def is_last(self) -> bool:
        """Whether everything that is on record now was read."""
        return all(reach.read >= reach.seen for reach in self.parts.values())


def read_batch(directory: str, parts: dict[str, Reach], limit: int = BATCH) -> RecordBatch:
    """Return the next records after a position, the oldest part first."""
    sizes = {os.path.basename(part.path): part.size for part in list_parts(directory)}
    gone = [reach for name, reach in parts.items() if name not in sizes]
    batch = RecordBatch([], {}, 0, sum(reach.read < reach.seen for reach in gone))
    room = _BATCH_SIZE
    for name, size in sorted(sizes.items()):
        before = parts.get(name, Reach(0, 0))
        # A shorter file is another one: somebody has emptied our directory.
        start = before.read if before.read <= size else 0
        reach = Reach(start, size)
        if start < size and room > 0 and len(batch.records) < limit:
            reach, torn = _read_part(f"{directory}/{name}", reach, batch.records, limit, room)
            batch = batch._replace(torn=batch.torn + torn)
            room -= reach.read - start
        batch.parts[name] = reach
    return batch


def _read_part(
    path: str, reach: Reach, records: list[dict[str, Json]], limit: int, room: int
) -> tuple[Reach, int]:
    """Add the records of one part; return how far it was read, and how many lines are torn."""
    torn = 0
    at = reach.read
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return reach, 0  # deleted since it was listed, which the next look counts
    with open(fd, "rb") as file:
        file.seek(at)
        for line in _read_lines(file):
            at += len(line)
            record = _parse(line)
            if record is None:
                torn += 1
            else:
                records.append(record)
            if len(records) >= limit or at - reach.read >= room:
                return Reach(at, max(at, reach.seen)), torn
    # What follows has no end yet: it is being written, or it is torn and the last of its part.
    return Reach(at, at), torn


def _read_lines(file: BufferedReader) -> Iterator[bytes]:
    """Yield complete lines; an overlong one in pieces, none of which is a record."""
    while line := file.readline(_LONGEST):
        if not line.endswith(b"\n") and len(line) < _LONGEST:
            return
        yield line


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
