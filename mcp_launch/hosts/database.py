"""Read a host's SQLite database without SQLite's locks, and without a file beside it.

SQLite itself would lock the file (and a program that holds a lock on it could make us wait), and
in WAL mode it would make or change `-shm`, and on closing perhaps write the log back. With
`immutable=1` it would not see the log, which is where all rows may be while the host runs. So the
two files are read as bytes, the committed pages of the log are put in their place, and SQLite
gets the result in memory.

That is what the format documents (sqlite.org/fileformat2.html, sections 1.3 and 4): a frame of
the log counts if it has the log's salt and if it or a later one ends a transaction. A checksum
of all frames would take Python too long. The last frame alone is checked: writes reach a reader
in their order, so those before it are complete. Whatever changes while it is read is read again.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

# How often the files are read if they change under us, and the limit in bytes for each.
_TRIES = 3
_SIZE_LIMIT = 64 << 20

_LOG_HEADER = 32
_FRAME_HEADER = 24
_SMALLEST_PAGE = 512

# How the log begins; the last bit says in which order of bytes its checksums are.
_LOG_MAGIC = 0x377F0682

# How the file of a transaction begins that is to be undone if it is not finished.
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def read_rows(path: str, query: str) -> list[dict[str, object]] | None:
    """Return the result of a query, by the names of its columns; None if it cannot be read now."""
    data = _read_whole(path)
    if data is None:
        return None
    import sqlite3

    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(data)
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]
    except (sqlite3.Error, AttributeError):
        return None  # another version of the host, an unlucky moment, or a Python without this
    finally:
        connection.close()


def _read_whole(path: str) -> bytes | None:
    """Return the database with the committed pages of its log; None if it cannot be read now."""
    for _ in range(_TRIES):
        before = _look(path)
        if any(seen and seen[1] > _SIZE_LIMIT for seen in before):
            return None
        log, data = _read(f"{path}-wal"), _read(path)
        is_written = _read(f"{path}-journal").startswith(_JOURNAL_MAGIC)
        if data and not is_written and _look(path) == before:
            return _merge(data, log)
    return None


def _look(path: str) -> list[tuple[int, int, int] | None]:
    return [_look_at(f"{path}{ending}") for ending in ("", "-wal")]


def _look_at(path: str) -> tuple[int, int, int] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None  # there is no such file now
    return (seen.st_mtime_ns, seen.st_size, seen.st_ino)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # there is no such file now


def _merge(data: bytes, log: bytes) -> bytes:
    """Return a database with the committed pages of its log in their places."""
    size = int.from_bytes(log[8:12])
    frames = _list_committed(log, size)
    merged = bytearray(data)
    for at, number, _ in frames:
        place = (number - 1) * size
        merged.extend(bytes(max(0, place - len(merged))))
        merged[place : place + size] = log[at + _FRAME_HEADER : at + _FRAME_HEADER + size]
    if frames:
        del merged[frames[-1][2] * size :]
    # The versions of the format for writing and reading: 1, without a log.
    merged[18:20] = b"\1\1"
    return bytes(merged)


def _list_committed(log: bytes, size: int) -> list[tuple[int, int, int]]:
    """Return where each committed frame is, its page's number, and the pages of the database.

    The last is 0 unless the frame ends a transaction.
    """
    if int.from_bytes(log[:4]) & ~1 != _LOG_MAGIC or size < _SMALLEST_PAGE:
        return []  # there is no log
    frames = []
    for at in range(_LOG_HEADER, len(log) - size - _FRAME_HEADER + 1, size + _FRAME_HEADER):
        if log[at + 8 : at + 16] != log[16:24]:
            break  # left over from before the log was begun again
        number, total = int.from_bytes(log[at : at + 4]), int.from_bytes(log[at + 4 : at + 8])
        frames.append((at, number, total))
    while frames and not (frames[-1][2] and _is_complete(log, frames[-1][0], size)):
        frames.pop()
    return frames


def _is_complete(log: bytes, at: int, size: int) -> bool:
    """Return whether a frame's checksum is right, given that of the frame before it."""
    order: Literal["big", "little"] = "big" if log[3] & 1 else "little"
    is_first = at == _LOG_HEADER
    known = log[24:32] if is_first else log[at - size - 8 : at - size]
    first, second = int.from_bytes(known[:4]), int.from_bytes(known[4:])
    covered = log[at : at + 8] + log[at + _FRAME_HEADER : at + _FRAME_HEADER + size]
    for place in range(0, len(covered), 8):
        first += int.from_bytes(covered[place : place + 4], order) + second
        first &= 0xFFFFFFFF
        second += int.from_bytes(covered[place + 4 : place + 8], order) + first
        second &= 0xFFFFFFFF
    sums = first.to_bytes(4) + second.to_bytes(4)
    return sums == log[at + 16 : at + 24]
