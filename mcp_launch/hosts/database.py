"""Read a host's SQLite database without locking it, and without a file of ours beside it.

SQLite itself would lock the file (and a program that holds a lock on it could make us wait), and
in WAL mode it would make or change `-shm`, and on closing perhaps write the log back. With
`immutable=1` it would not see the log, which is where all rows may be while the host runs. So the
files are copied, and SQLite reads the copy: it knows best what an unfinished transaction is.
"""

from __future__ import annotations

import os
import time

from mcp_launch.hosts import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

# How often the files are copied if they change under us, and the limit in bytes for each: a call
# waits for the copy.
_TRIES = 3
_SIZE_LIMIT = 8 << 20

# How many instructions of SQLite a query may take: far more than all rows of such a file need.
_STEP_LIMIT = 5_000_000

# How the directory of a copy is called, and the age in seconds from which it is a leftover: of a
# launch that was killed in the middle of a copy.
_PREFIX = "mcp-launch-copy-"
_LEFTOVER_AGE = 600.0

# The directories that were searched for leftovers.
_cleared: set[str] = set()

# The log first: what is in the database by then is not lost with it.
_ENDINGS = ("-wal", "-journal", "")


def read_rows(path: str, query: str) -> list[dict[str, object]] | None:
    """Return the result of a query, by the names of its columns; None if it cannot be read now."""
    try:
        # Only here, and after a call of the only host that needs it.
        import sqlite3
        import tempfile
    except ImportError:
        return None  # a Python that was built without it
    try:
        _remove_leftovers(tempfile.gettempdir())
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as directory:
            copy = f"{directory}/database"
            return _query(_open(copy), query) if _copy(path, copy) else None
    except (OSError, sqlite3.Error):
        return None  # another version of the host, an unlucky moment, or a full disk


def _open(copy: str) -> sqlite3.Connection:
    import sqlite3
    from urllib.parse import quote

    # An unfinished transaction in a journal is undone by writing. Otherwise SQLite must not write:
    # on closing it would work the whole log into the copy, and wait for the disk.
    mode = "rw" if os.path.getsize(f"{copy}-journal") else "ro"
    return sqlite3.connect(f"file:{quote(copy)}?mode={mode}", uri=True)


def _query(connection: sqlite3.Connection, query: str) -> list[dict[str, object]]:
    connection.set_progress_handler(lambda: True, _STEP_LIMIT)
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
                file.write(records.read(path + ending, _SIZE_LIMIT) if seen else b"")
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


def _remove_leftovers(directory: str) -> None:
    """Remove old copies, once."""
    if directory in _cleared:
        return
    _cleared.add(directory)
    import shutil

    with os.scandir(directory) as found:
        for entry in found:
            if entry.name.startswith(_PREFIX) and _is_leftover(entry):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_leftover(entry: os.DirEntry[str]) -> bool:
    try:
        seen = entry.stat(follow_symlinks=False)
    except OSError:
        return False  # it was removed since
    return seen.st_uid == os.getuid() and time.time() - seen.st_mtime > _LEFTOVER_AGE
