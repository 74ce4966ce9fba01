"""The records of pools: who believes them, and when they are removed."""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable

from mcp_launch import launch
from mcp_launch.state import leases, name_lease, pools

if TYPE_CHECKING:
    from pathlib import Path

ALIVE = {"pid": 10, "start": "ticks:5"}
GONE = {"pid": 11, "start": "ticks:5"}
REUSED = {"pid": 10, "start": "ticks:4"}
UNSURE = {"pid": 10, "start": None}
UNSEEN = {"pid": 11, "start": None}


@pytest.fixture
def table() -> FakeProcessTable:
    table = FakeProcessTable()
    table.add(10, "x")
    return table


def make_pool(directory: Path, **changes: object) -> Path:
    """Write the files of a pool, all of whose processes are gone."""
    parts = dict.fromkeys(("pool", "keeper", "guardian", "server"), GONE)
    record = {"version": 1, "boot": "boot-1", "processes": parts, "from the future": True}
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    path = directory / "5f3a.json"
    path.write_text(json.dumps(record | changes), encoding="utf-8")
    path.chmod(0o600)
    path.with_suffix(".sock").touch()
    return path


@pytest.mark.parametrize(
    ("processes", "is_reclaimed"),
    [
        ({"pool": GONE, "guardian": GONE, "server": GONE}, True),
        ({"pool": REUSED, "guardian": REUSED, "server": REUSED}, True),
        ({"pool": ALIVE, "guardian": ALIVE, "server": ALIVE}, False),
        ({"pool": ALIVE, "guardian": GONE, "server": GONE}, False),
        ({"pool": GONE, "guardian": ALIVE, "server": GONE}, False),
        ({"pool": GONE, "guardian": GONE, "server": ALIVE}, False),
        ({"pool": GONE, "guardian": UNSEEN, "server": UNSEEN}, True),
        ({"pool": GONE, "guardian": GONE, "server": UNSURE}, False),
        ({"pool": UNSURE, "guardian": GONE, "server": GONE}, False),
        ({"pool": GONE}, True),
        ({"guardian": GONE, "server": GONE}, False),
        ({}, False),
        ("nonsense", False),
    ],
    ids=[
        *("all gone", "all other processes now", "alive", "its server ended", "guardian left"),
        *("server left", "a server that failed at once", "start of the server unknown"),
        *("start of the pool unknown", "no server yet", "no pool", "nothing", "nonsense"),
    ],
)
def test_a_pool_is_reclaimed_only_on_proof_of_death(
    processes: object, is_reclaimed: bool, table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_pool(tmp_path, processes=processes)

    assert pools.reclaim_stale(table, str(tmp_path)) == ([str(path)] if is_reclaimed else [])
    assert path.exists() != is_reclaimed
    assert path.with_suffix(".sock").exists() != is_reclaimed


def test_a_pool_of_another_boot_is_reclaimed(table: FakeProcessTable, tmp_path: Path) -> None:
    path = make_pool(tmp_path, boot="boot-0", processes={"pool": ALIVE})

    assert pools.reclaim_stale(table, str(tmp_path)) == [str(path)]


def test_a_pool_of_a_container_that_shares_our_home_is_kept(
    table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_pool(tmp_path, namespace="pid:[1]")

    assert pools.reclaim_stale(table, str(tmp_path)) == []
    assert path.exists()


def test_a_pool_that_is_just_being_started_again_is_kept(
    table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_pool(tmp_path)
    with path.with_suffix(".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert pools.reclaim_stale(table, str(tmp_path)) == []

    assert path.exists()
    assert pools.reclaim_stale(table, str(tmp_path)) == [str(path)]
    assert not path.with_suffix(".lock").exists()


def test_a_record_that_another_user_may_have_written_is_not_believed(
    table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_pool(tmp_path)
    path.chmod(0o620)

    assert pools.read_all(str(tmp_path)) == {}
    assert pools.reclaim_stale(table, str(tmp_path)) == []


@pytest.mark.parametrize(
    ("pool", "is_alive"),
    [(ALIVE, True), (GONE, False), (REUSED, False), (UNSURE, False), (None, False)],
    ids=["alive", "gone", "another process now", "start unknown", "not recorded"],
)
def test_a_pool_is_alive_only_if_its_own_process_is(
    pool: object, is_alive: bool, table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_pool(tmp_path, processes={"pool": pool, "server": ALIVE})

    assert pools.is_alive(table, leases.read(str(path)) or {}) is is_alive


def test_a_launch_removes_what_is_left_of_pools(
    table: FakeProcessTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_LAUNCH_HOME", str(tmp_path))
    path = make_pool(tmp_path / "pools")
    assert pools.find_directory(os.environ) == str(path.parent)

    directory = os.path.dirname(name_lease(os.environ, "launch"))
    launch._tidy(table, directory)  # noqa: SLF001  # its guardian calls it

    assert not path.exists()
