"""Leases and records of pools: who believes them, and when they are removed."""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable

from mcp_launch.launch import ended
from mcp_launch.state import leases, pools

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_launch.protocol.json_text import Json

ALIVE = {"pid": 10, "start": "ticks:5"}
GONE = {"pid": 11, "start": "ticks:5"}
REUSED = {"pid": 10, "start": "ticks:4"}
UNSURE = {"pid": 10, "start": None}
UNSEEN = {"pid": 11, "start": None}
FOREIGN = {"pid": 10, "start": "time:4.00"}

SHARED = {"pool": ALIVE, "key": "5f3a", "sessions": 2}


def parts(launcher: object, guardian: object, server: object) -> dict[str, object]:
    return {"launcher": launcher, "guardian": guardian, "server": server}


def further(*backends: object) -> dict[str, object]:
    """Return a launch with several servers, all of whose own processes are gone."""
    first = {"name": "server", "processes": {"guardian": GONE, "server": GONE}}
    return {"processes": parts(GONE, GONE, GONE), "backends": [first, *backends]}


def backend(**processes: object) -> dict[str, object]:
    return {"name": "server-2", "processes": processes}


# What a lease says, and whether that proves that its launch is dead.
LEASES: dict[str, tuple[dict[str, object], bool]] = {
    "all alive": ({"processes": parts(ALIVE, ALIVE, ALIVE)}, False),
    "all gone": ({"processes": parts(GONE, GONE, GONE)}, True),
    "all other processes now": ({"processes": parts(REUSED, REUSED, REUSED)}, True),
    "guardian alive": ({"processes": parts(GONE, ALIVE, GONE)}, False),
    "server alive": ({"processes": parts(GONE, GONE, ALIVE)}, False),
    "start of the launcher unknown": ({"processes": parts(UNSURE, GONE, GONE)}, False),
    "launcher never seen": ({"processes": parts(UNSEEN, GONE, GONE)}, False),
    "a server that failed at once": ({"processes": parts(GONE, UNSEEN, UNSEEN)}, True),
    "start of the guardian unknown": ({"processes": parts(GONE, UNSURE, UNSEEN)}, False),
    "start of the server unknown": ({"processes": parts(GONE, UNSEEN, UNSURE)}, False),
    "another system's start": ({"processes": parts(FOREIGN, GONE, GONE)}, False),
    "no launcher": ({"processes": parts(None, GONE, GONE)}, False),
    "nonsense as launcher": ({"processes": parts("nonsense", GONE, GONE)}, False),
    "no processes": ({"processes": {}}, False),
    "no server yet": ({"processes": {"launcher": ALIVE}, "state": "resting"}, False),
    "no server any more": ({"processes": {"launcher": GONE}, "state": "resting"}, True),
    "only a keeper": ({"processes": {"launcher": GONE, "keeper": GONE}}, False),
    "only a guardian": ({"processes": {"launcher": GONE, "guardian": GONE}}, False),
    "a second server, gone": (further(backend(guardian=GONE, server=GONE)), True),
    "a second server that is absent": (further(backend()), True),
    "a second guardian alive": (further(backend(guardian=ALIVE, server=GONE)), False),
    "a third server alive": (further(backend(), backend(guardian=GONE, server=ALIVE)), False),
    "a second server of unknown start": (further(backend(guardian=GONE, server=UNSURE)), False),
    "a second server without processes": (further({"name": "server-2"}), False),
    "nonsense as second server": (further("nonsense"), False),
    "nonsense as servers": (further() | {"backends": "two"}, False),
    "a shared server, launcher alive": (
        {"processes": {"launcher": ALIVE, "server": GONE}, "shared": SHARED},
        False,
    ),
    "a shared server, launcher gone": (
        {"processes": {"launcher": GONE, "server": ALIVE}, "shared": SHARED},
        True,
    ),
    "another boot": ({"processes": parts(ALIVE, ALIVE, ALIVE), "boot": "boot-0"}, True),
    "another container": ({"processes": parts(GONE, GONE, GONE), "namespace": "pid:[1]"}, False),
}


@pytest.fixture
def table() -> FakeProcessTable:
    table = FakeProcessTable()
    table.add(10, "x")
    return table


def write(path: Path, record: dict[str, object]) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(json.dumps({"boot": "boot-1", "of the future": True} | record), "utf-8")
    path.chmod(0o600)
    return path


def make_lease(home: Path, **changes: object) -> Path:
    record: dict[str, object] = {
        "mark": leases.mark_command(["srv"]),
        "processes": parts(ALIVE, ALIVE, ALIVE) | {"host": ALIVE},
        "binding": {"state": "confirmed", "thread": "t-1"},
    }
    return write(home / "leases/one.json", record | changes)


@pytest.mark.parametrize(("says", "is_dead"), LEASES.values(), ids=list(LEASES))
def test_a_lease_is_removed_by_who_reads_it_if_its_launch_is_proven_dead(
    says: dict[str, object], is_dead: bool, table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_lease(tmp_path, **says)

    living = ended.read_living(table, str(path.parent))

    assert path.exists() != is_dead
    assert list(living) == ([] if is_dead else [str(path)])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"boot": "boot-0"}, "the machine was restarted"),
        ({"processes": {"launcher": GONE, "host": GONE}}, "Codex has ended"),
        ({"processes": {"launcher": GONE, "host": ALIVE}}, "mcp-launch itself was killed"),
    ],
    ids=["another boot", "the host is gone", "the host lives"],
)
def test_the_end_of_a_dead_launch_is_logged(
    changes: dict[str, object], why: str, table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_lease(tmp_path, context={"host": {"value": "codex"}}, **changes)
    log = tmp_path / "logs/one.log"
    log.parent.mkdir()
    log.touch()

    ended.read_living(table, str(path.parent))

    assert log.read_text(encoding="utf-8").endswith(f" x ended: {why}\n")


def test_each_server_of_a_launch_reads_like_a_launch_of_its_own() -> None:
    both: dict[str, Json] = {"launcher": {"pid": 10}, "host": {"pid": 9}}
    record: dict[str, Json] = {
        "launch": "l-1",
        "mark": "m",
        "calls": 5,
        "refusals": 2,
        "processes": both | {"server": {"pid": 20}},
        "backends": [
            {"name": "server", "calls": 4, "processes": {"server": {"pid": 20}}},
            {"name": "server-2", "calls": 1, "processes": {"server": {"pid": 30}}},
        ],
    }

    first, second = leases.list_servers(record)

    assert (first["name"], first["calls"], first["refusals"]) == ("server", 4, 2)
    assert first["processes"] == record["processes"]
    assert second == {
        "launch": "l-1",
        "mark": "m",
        "name": "server-2",
        "calls": 1,
        "processes": both | {"server": {"pid": 30}},
    }


def test_a_file_that_is_not_ours_is_kept(table: FakeProcessTable, tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("not json", encoding="utf-8")
    (tmp_path / "deep.json").write_text("[" * 100_000 + "]" * 100_000, encoding="utf-8")
    (tmp_path / "other.txt").write_text("{}", encoding="utf-8")

    assert ended.read_living(table, str(tmp_path)) == {}
    assert len(list(tmp_path.glob("*.*"))) == 3


SEVERAL = [
    {"binding": {"state": "confirmed", "thread": "t-1"}},
    {"binding": {"state": "confirmed", "thread": "t-2"}, "processes": {}},
    {"binding": {"state": "tentative", "thread": "t-3"}, "processes": {}},
]


@pytest.mark.parametrize(
    ("changes", "argv", "taken"),
    [
        ({}, ["srv"], {"t-1"}),
        ({}, ["another server"], set()),
        ({"binding": {"state": "tentative", "thread": "t-1"}}, ["srv"], set()),
        ({"processes": {"launcher": GONE, "host": ALIVE}}, ["srv"], set()),
        ({"processes": {"launcher": ALIVE, "host": GONE}}, ["srv"], set()),
        ({"binding": None}, ["srv"], set()),
        ({"processes": {"launcher": ALIVE, "host": ALIVE}, "state": "resting"}, ["srv"], {"t-1"}),
        ({"backends": SEVERAL}, ["srv"], {"t-1", "t-2"}),
    ],
    ids=[
        *("a sibling", "another server", "only tentative", "dead", "another host"),
        *("says nothing", "a sibling whose server rests", "a sibling with several servers"),
    ],
)
def test_a_thread_is_taken_by(
    changes: dict[str, object],
    argv: list[str],
    taken: set[str],
    table: FakeProcessTable,
    tmp_path: Path,
) -> None:
    directory = str(make_lease(tmp_path, **changes).parent)

    assert leases.list_confirmed_threads(table, directory, 10, argv) == taken


OTHERS: dict[str, Callable[[Path], object]] = {
    "a link": lambda path: path.symlink_to(path.rename(path.with_name("elsewhere"))),
    "writable by the group": lambda path: path.chmod(0o620),
    "writable by all": lambda path: path.chmod(0o602),
    "in a directory that all can write": lambda path: path.parent.chmod(0o777),
    "a pipe": lambda path: path.unlink() or os.mkfifo(path),  # type: ignore[func-returns-value]
}
if os.geteuid() == 0:  # only root can give files away
    OTHERS["another user's"] = lambda path: os.chown(path, 65534, -1)
    OTHERS["in another user's directory"] = lambda path: os.chown(path.parent, 65534, -1)


@pytest.mark.parametrize("change", OTHERS.values(), ids=list(OTHERS))
def test_a_lease_that_another_user_may_have_written_is_not_believed(
    change: Callable[[Path], object], table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_lease(tmp_path, boot="boot-0")
    directory = str(path.parent)
    assert leases.read(str(path))

    change(path)

    assert leases.read(str(path)) is None
    assert leases.list_confirmed_threads(table, directory, 10, ["srv"]) == set()
    assert ended.read_living(table, directory) == {}
    assert path.exists()


# The processes of a pool, and whether they prove that it is dead.
POOLS: dict[str, tuple[object, bool]] = {
    "all gone": ({"pool": GONE, "guardian": GONE, "server": GONE}, True),
    "all other processes now": ({"pool": REUSED, "guardian": REUSED, "server": REUSED}, True),
    "its server ended": ({"pool": ALIVE, "guardian": GONE, "server": GONE}, False),
    "guardian left": ({"pool": GONE, "guardian": ALIVE, "server": GONE}, False),
    "server left": ({"pool": GONE, "guardian": GONE, "server": ALIVE}, False),
    "a server that failed at once": ({"pool": GONE, "guardian": UNSEEN, "server": UNSEEN}, True),
    "start of the server unknown": ({"pool": GONE, "guardian": GONE, "server": UNSURE}, False),
    "start of the pool unknown": ({"pool": UNSURE, "guardian": GONE, "server": GONE}, False),
    "no server yet": ({"pool": GONE}, True),
    "no pool": ({"guardian": GONE, "server": GONE}, False),
    "nonsense": ("nonsense", False),
}


def make_pool(home: Path, **changes: object) -> Path:
    """Write the files of a pool, all of whose processes are gone."""
    path = write(home / "pools/5f3a.json", {"processes": {"pool": GONE}} | changes)
    path.with_suffix(".sock").touch()
    return path


@pytest.mark.parametrize(("processes", "is_dead"), POOLS.values(), ids=list(POOLS))
def test_a_pool_is_reclaimed_only_on_proof_of_death(
    processes: object, is_dead: bool, table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_pool(tmp_path, processes=processes)

    pools.reclaim_stale(table, str(path.parent))

    assert path.exists() != is_dead
    assert path.with_suffix(".sock").exists() != is_dead


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [({"boot": "boot-0", "processes": {"pool": ALIVE}}, False), ({"namespace": "pid:[1]"}, True)],
    ids=["another boot", "a container that shares our home"],
)
def test_a_pool_of_elsewhere_is_kept_and_that_of_another_boot_reclaimed(
    changes: dict[str, object], is_kept: bool, table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_pool(tmp_path, **changes)

    pools.reclaim_stale(table, str(path.parent))

    assert path.exists() is is_kept


def test_a_pool_that_is_just_being_started_again_is_kept(
    table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_pool(tmp_path)
    with path.with_suffix(".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pools.reclaim_stale(table, str(path.parent))

    assert path.exists()
    pools.reclaim_stale(table, str(path.parent))
    assert list(path.parent.iterdir()) == []


def test_a_pool_that_another_user_may_have_written_is_not_believed(
    table: FakeProcessTable, tmp_path: Path
) -> None:
    path = make_pool(tmp_path)
    path.chmod(0o620)

    pools.reclaim_stale(table, str(path.parent))

    assert path.exists()


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
