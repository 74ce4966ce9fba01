"""Read a host's SQLite database without locking it, and without a file of ours beside it.

SQLite itself would lock the file (and a program that holds a lock on it could make us wait), and
in WAL mode it would make or change `-shm`, and on closing perhaps write the log back. With
`immutable=1` it would not see the log, which is where all rows may be while the host runs. So the
files are copied, and SQLite reads the copy: it knows best what an unfinished transaction is.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

# How often the files are copied if they change under us, and the limit in bytes for each.
_TRIES = 3
_SIZE_LIMIT = 64 << 20

# The log first: what is in the database by then is not lost with it.
_ENDINGS = ("-wal", "-journal", "")


def read_rows(path: str, query: str) -> list[dict[str, object]] | None:
    """Return the result of a query, by the names of its columns; None if it cannot be read now."""
    # Only here, and after a call of the only host that needs it.
    import sqlite3
    import tempfile

    try:
        with tempfile.TemporaryDirectory(prefix="mcp-launch-") as directory:
            copy = f"{directory}/database"
            return _query(sqlite3.connect(copy), query) if _copy(path, copy) else None
    except (OSError, sqlite3.Error):
        return None  # another version of the host, an unlucky moment, or a full disk


def _query(connection: sqlite3.Connection, query: str) -> list[dict[str, object]]:
    try:
        rows = connection.execute(query)
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row, strict=True)) for row in rows]
    finally:
        connection.close()


def _copy(path: str, copy: str) -> bool:
    """Copy a database as it was at one moment; False if it does not hold still."""
    for _ in range(_TRIES):
        before = _look(path)
        if before[-1] is None or any(seen and seen[1] > _SIZE_LIMIT for seen in before):
            return False
        for ending, seen in zip(_ENDINGS, before, strict=True):
            with open(copy + ending, "wb") as file:
                file.write(_read(path + ending) if seen else b"")
        if _look(path) == before:
            return True
    return False


def _look(path: str) -> list[tuple[int, int, int] | None]:
    return [_look_at(path + ending) for ending in _ENDINGS]


def _look_at(path: str) -> tuple[int, int, int] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None  # there is no such file now
    return (seen.st_mtime_ns, seen.st_size, seen.st_ino)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
