"""A host's database is read while another process holds it, without a lock and without a trace."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from mcp_launch.hosts import database

if TYPE_CHECKING:
    from pathlib import Path

# Another process: SQLite's locks are of a process as a whole.
HOLD = """
import sqlite3, sys
path, mode, locking = sys.argv[1:]
connection = sqlite3.connect(path, isolation_level=None)
connection.execute(f"PRAGMA locking_mode = {locking}")
connection.execute(f"PRAGMA journal_mode = {mode}")
connection.execute("UPDATE sessions SET id = 'committed'")
connection.execute("BEGIN EXCLUSIVE")
connection.execute("UPDATE sessions SET id = 'in doubt'")
print("locked", flush=True)
sys.stdin.read()
connection.execute("COMMIT")
"""


def read_ids(path: Path) -> list[object] | None:
    rows = database.read_rows(str(path), "SELECT id FROM sessions")
    return None if rows is None else [row["id"] for row in rows]


def look_around(path: Path) -> dict[str, tuple[bytes, int]]:
    """Return the contents and the time of change of all files beside the database."""
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in path.parent.iterdir()}


@pytest.mark.parametrize(
    ("mode", "locking"),
    [("wal", "normal"), ("wal", "exclusive"), ("delete", "normal")],
    ids=["with a log", "with a log of its own", "without a log"],
)
def test_a_writer_in_a_transaction_neither_stops_the_reader_nor_is_disturbed(
    mode: str, locking: str, tmp_path: Path
) -> None:
    path = tmp_path / "db" / "sessions.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE sessions (id TEXT)")
        connection.execute("INSERT INTO sessions VALUES ('first')")
        connection.commit()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), mode, locking],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "locked\n"
            before = look_around(path)

            assert read_ids(path) == ["committed"]

            assert look_around(path) == before
        finally:
            writer.communicate(timeout=30)
    assert writer.returncode == 0
    assert read_ids(path) == ["in doubt"]
