"""Cline's sessions, read from its database without disturbing it."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_sighting

from mcp_launch.hosts import database
from mcp_launch.hosts.cline import HOST as CLINE
from mcp_launch.values import Missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_launch.hosts import Caller, Sighting

# The columns that matter, as Cline 3.0.65 has them.
TABLE = (
    "CREATE TABLE sessions (session_id TEXT PRIMARY KEY, pid INTEGER NOT NULL, "
    "started_at TEXT NOT NULL, status TEXT NOT NULL, cwd TEXT NOT NULL, "
    "workspace_root TEXT NOT NULL, parent_session_id TEXT, is_subagent INTEGER DEFAULT 0)"
)

QUERY = "SELECT * FROM sessions"


def open_database(directory: Path, mode: str = "wal") -> sqlite3.Connection:
    path = directory / ".cline" / "data" / "db" / "sessions.db"
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute(TABLE)
    return connection


def add(connection: sqlite3.Connection, session: str, **more: Any) -> None:
    age = more.pop("age", 10.0)
    row = {
        "session_id": session,
        "pid": 70,
        "started_at": datetime.fromtimestamp(time.time() - age, UTC).isoformat(),
        "status": "running",
        "cwd": "/work/b",
        "workspace_root": "/work",
        **more,
    }
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO sessions ({names}) VALUES ({marks})", list(row.values()))  # noqa: S608  # our own names


def see(home: Path, age: float | None = 60.0, **environ: str) -> Sighting:
    table = FakeProcessTable()
    table.add(70, "cline")
    table.age = age
    return make_sighting(table, 70, environ={"HOME": str(home), **environ})


def ask(home: Path, **more: Any) -> Caller | None:
    sighting = see(home, **more)
    assert isinstance(CLINE.identify(sighting).session, Missing)
    return CLINE.follow_callers(sighting).read({})


# the rows, the session and the directory of the call
ROWS: dict[str, tuple[list[dict[str, Any]], tuple[str | None, str | None]]] = {
    "its only running session": ([{"session": "s1"}], ("s1", "/work/b")),
    "the only one of its process that is running": (
        [{"session": "s1"}, {"session": "s2", "status": "completed"}, {"session": "s3", "pid": 71}],
        ("s1", "/work/b"),
    ),
    "not one that began before its process": ([{"session": "s1", "age": 3600}], (None, None)),
    "the one that did not begin before its process": (
        [{"session": "s1", "age": 3600}, {"session": "s2"}],
        ("s2", "/work/b"),
    ),
    "not one without a time": ([{"session": "s1", "started_at": "yesterday"}], (None, None)),
    "not one without a time zone": (
        [{"session": "s1", "started_at": "2126-01-01T00:00:00"}],
        (None, None),
    ),
    "none of several": ([{"session": "s1"}, {"session": "s2"}], (None, None)),
    "the session of which another is a part": (
        [
            {"session": "s1"},
            {"session": "s2", "is_subagent": 1},
            {"session": "s3", "parent_session_id": "s1"},
        ],
        ("s1", "/work/b"),
    ),
    "its workspace without a directory": ([{"session": "s1", "cwd": ""}], ("s1", "/work")),
    "no directory that is relative": ([{"session": "s1", "cwd": "b"}], ("s1", None)),
    "nothing where there is nothing": ([], (None, None)),
}


@pytest.mark.parametrize(("rows", "expected"), ROWS.values(), ids=list(ROWS))
def test_cline_is_believed_by(
    rows: list[dict[str, Any]], expected: tuple[str | None, str | None], tmp_path: Path
) -> None:
    with closing(open_database(tmp_path)) as connection:
        for row in rows:
            add(connection, **row)

        caller = ask(tmp_path)

    assert (caller[0], caller[2]) == expected if caller else expected == (None, None)


def test_a_moved_database_is_found(tmp_path: Path) -> None:
    assert ask(tmp_path) is None
    with closing(open_database(tmp_path)) as connection:
        add(connection, "s1")
        for name, inside in (("DIR", ""), ("DATA_DIR", "data"), ("DB_DATA_DIR", "data/db")):
            moved = {f"CLINE_{name}": str(tmp_path / ".cline" / inside)}
            assert ask(tmp_path / "nowhere", **moved) == ("s1", None, "/work/b")

        assert ask(tmp_path, age=None) is None, "it may be of an earlier process"


def test_a_session_that_begins_later_is_noticed_at_its_call(tmp_path: Path) -> None:
    with closing(open_database(tmp_path)) as connection:
        callers = CLINE.follow_callers(see(tmp_path))
        assert callers.read({}) is None

        add(connection, "s1")
        assert callers.read({}) == ("s1", None, "/work/b")
        connection.execute("UPDATE sessions SET status = 'completed'")
        add(connection, "s2", cwd="/work/c")

        assert callers.read({}) == ("s2", None, "/work/c")


def test_an_unchanged_database_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_database(tmp_path)) as connection:
        add(connection, "s1")
        callers = CLINE.follow_callers(see(tmp_path))
        clock = [100.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])
        callers.read({})
        clock[0] += 60
        callers.read({})
        monkeypatch.setattr(database, "read_rows", lambda *_: pytest.fail("it was read again"))

        assert callers.read({}) == ("s1", None, "/work/b")


def list_ids(path: Path) -> list[object] | None:
    rows = database.read_rows(str(path), QUERY)
    return None if rows is None else [row["session_id"] for row in rows]


def test_a_log_that_was_begun_again_does_not_bring_back_old_pages(tmp_path: Path) -> None:
    with closing(open_database(tmp_path)) as connection:
        for number in range(200):
            add(connection, f"old-{number}")
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        connection.execute("DELETE FROM sessions")
        add(connection, "new")

        assert list_ids(tmp_path / ".cline" / "data" / "db" / "sessions.db") == ["new"]


def test_a_log_that_ends_in_the_middle_counts_up_to_its_last_transaction(tmp_path: Path) -> None:
    with closing(open_database(tmp_path)) as connection:
        add(connection, "s1")
        source = tmp_path / ".cline" / "data" / "db" / "sessions.db"
        whole = (source.parent / "sessions.db-wal").stat().st_size
        add(connection, "s2")
        log = (source.parent / "sessions.db-wal").read_bytes()
        (tmp_path / "copy.db").write_bytes(source.read_bytes())

        # All of the frame that ends the second transaction, but with other bytes in its page.
        (tmp_path / "copy.db-wal").write_bytes(log[:-8] + b"\xff" * 8)
        assert list_ids(tmp_path / "copy.db") == ["s1"]
        (tmp_path / "copy.db-wal").write_bytes(log[: whole + 100])
        assert list_ids(tmp_path / "copy.db") == ["s1"]
        (tmp_path / "copy.db-wal").write_bytes(log)
        assert list_ids(tmp_path / "copy.db") == ["s1", "s2"]


def test_a_transaction_that_is_half_written_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / ".cline" / "data" / "db" / "sessions.db"
    with closing(open_database(tmp_path, "delete")) as connection:
        add(connection, "s1")
        before = path.read_bytes()
        connection.execute("PRAGMA cache_size = 1")  # so that it is written before its end
        connection.execute("BEGIN")
        connection.execute("DELETE FROM sessions")
        connection.execute("CREATE TABLE more AS SELECT zeroblob(100000) AS filler")
        assert path.read_bytes() != before

        assert list_ids(path) == ["s1"]


def make_endless(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE VIEW sessions AS WITH RECURSIVE c(id) AS "
            "(SELECT 1 UNION ALL SELECT id + 1 FROM c) SELECT id FROM c"
        )
        connection.commit()


def make_other(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE others (a)")
        connection.commit()


STRANGE: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a huge file": lambda path: path.write_bytes(b"x" * (9 << 20)),
    "a view without an end": make_endless,
    "nothing": lambda path: path.write_bytes(b""),
    "no database": lambda path: path.write_bytes(b"not a database" * 100),
    "another database": make_other,
}


@pytest.mark.parametrize("ending", ["", "-wal", "-journal"], ids=["itself", "its log", "journal"])
@pytest.mark.parametrize("strange", list(STRANGE.values()), ids=list(STRANGE))
def test_whatever_lies_in_the_place_of_a_database_is_passed_over(
    strange: Callable[[Path], object], ending: str, tmp_path: Path
) -> None:
    if ending:
        with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
            connection.execute(TABLE)
    strange(tmp_path / f"sessions.db{ending}")

    assert not list_ids(tmp_path / "sessions.db")


def test_a_copy_that_a_killed_launch_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "odd? 50%#"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    for name in ("mcp-launch-copy-old", "mcp-launch-copy-new", "other"):
        (place / name).mkdir()
        (place / name / "database").touch()
    for name in ("mcp-launch-copy-old", "other"):
        os.utime(place / name, (1.0, 1.0))
    with closing(open_database(tmp_path)) as connection:
        add(connection, "s1")

        assert ask(tmp_path) == ("s1", None, "/work/b")

    assert sorted(one.name for one in place.iterdir()) == ["mcp-launch-copy-new", "other"]


@pytest.mark.parametrize("cause", ["no SQLite", "no place for a copy"])
def test_without_a_way_to_read_it_the_session_is_unknown(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_database(tmp_path)) as connection:
        add(connection, "s1")
        if cause == "no SQLite":
            monkeypatch.setitem(sys.modules, "sqlite3", None)
        else:
            monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))

        assert ask(tmp_path) is None
