"""Leases: what they hold, and who reads them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable

from mcp_launch import system
from mcp_launch.state import leases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_launch.protocol.json_text import Json


def make_lease(directory: Path, **changes: object) -> Path:
    alive = {"pid": 10, "start": "ticks:5"}
    record = {
        "boot": "boot-1",
        "mark": leases.mark_command(["srv"]),
        "processes": {"launcher": alive, "guardian": alive, "server": alive, "host": alive},
        "binding": {"state": "confirmed", "thread": "t-1"},
        "from the future": True,
    }
    directory.mkdir(exist_ok=True)
    path = directory / "one.json"
    path.write_text(json.dumps(record | changes), encoding="utf-8")
    path.chmod(0o600)
    directory.chmod(0o700)
    return path


ALIVE = {"pid": 10, "start": "ticks:5"}


GONE = {"pid": 11, "start": "ticks:5"}


REUSED = {"pid": 10, "start": "ticks:4"}


UNSURE = {"pid": 10, "start": None}


UNSEEN = {"pid": 11, "start": None}


FOREIGN = {"pid": 10, "start": "time:4.00"}


@pytest.mark.parametrize(
    ("launcher", "guardian", "server", "reclaimed"),
    [
        (ALIVE, ALIVE, ALIVE, False),
        (GONE, GONE, GONE, True),
        (REUSED, REUSED, REUSED, True),
        (REUSED, GONE, GONE, True),
        (GONE, ALIVE, GONE, False),
        (GONE, GONE, ALIVE, False),
        (UNSURE, GONE, GONE, False),
        (UNSEEN, GONE, GONE, False),
        (GONE, UNSEEN, UNSEEN, True),  # a server that failed at once
        (GONE, UNSURE, UNSEEN, False),
        (GONE, UNSEEN, UNSURE, False),
        (FOREIGN, GONE, GONE, False),
        (None, GONE, GONE, False),
        ("nonsense", GONE, GONE, False),
    ],
)
def test_a_lease_is_reclaimed_only_on_proof_of_death(
    launcher: object,
    guardian: object,
    server: object,
    reclaimed: bool,
    tmp_path: Path,
) -> None:
    table = FakeProcessTable()
    table.add(10, "x")
    parts = {"launcher": launcher, "guardian": guardian, "server": server}
    path = make_lease(tmp_path / "leases", processes=parts)

    assert bool(leases.reclaim_stale(table, str(tmp_path / "leases"))) == reclaimed
    assert path.exists() != reclaimed


@pytest.mark.parametrize(
    ("processes", "reclaimed"),
    [
        ({"launcher": ALIVE, "host": ALIVE}, False),
        ({"launcher": GONE, "host": ALIVE}, True),
        ({"launcher": REUSED, "host": ALIVE}, True),
        ({"launcher": UNSURE, "host": GONE}, False),
        ({"launcher": FOREIGN, "host": GONE}, False),
        ({"host": GONE}, False),
        ({}, False),
        ({"launcher": GONE, "guardian": GONE}, False),
        ({"launcher": GONE, "keeper": GONE}, False),
        ({"launcher": GONE, "server": GONE}, False),
    ],
    ids=[
        *("alive", "gone", "another process now", "start unknown", "another system's start"),
        *("no launcher", "nothing", "server not recorded", "only a keeper", "no guardian"),
    ],
)
@pytest.mark.parametrize("state", ["not started", "resting", "starting", None])
def test_a_launch_without_a_server_is_over_with_its_launcher(
    state: str | None, processes: dict[str, object], reclaimed: bool, tmp_path: Path
) -> None:
    table = FakeProcessTable()
    table.add(10, "x")
    path = make_lease(tmp_path / "leases", processes=processes, state=state)

    assert bool(leases.reclaim_stale(table, str(tmp_path / "leases"))) == reclaimed
    assert path.exists() != reclaimed


def make_backend(**processes: object) -> dict[str, object]:
    return {"name": "server-2", "processes": processes}


WHOLE = {"launcher": GONE, "guardian": GONE, "server": GONE, "host": ALIVE}


@pytest.mark.parametrize(
    ("further", "reclaimed"),
    [
        ([make_backend(keeper=GONE, guardian=GONE, server=GONE)], True),
        ([make_backend()], True),
        ([], True),
        ([make_backend(keeper=GONE, guardian=ALIVE, server=GONE)], False),
        ([make_backend(keeper=GONE, guardian=GONE, server=ALIVE)], False),
        ([make_backend(), make_backend(guardian=GONE, server=ALIVE)], False),
        ([make_backend(guardian=GONE, server=UNSURE)], False),
        ([make_backend(guardian=GONE, server=UNSEEN)], True),
        ([make_backend(server=GONE)], False),
        ([{"name": "server-2"}], False),
        (["nonsense"], False),
    ],
    ids=[
        *(
            "all gone",
            "absent",
            "only one",
            "a guardian lives",
            "a server lives",
            "the third lives",
        ),
        *("start unknown", "failed at once", "no guardian", "no processes", "nonsense"),
    ],
)
def test_a_launch_with_several_servers_is_over_with_the_last_of_them(
    further: list[object], reclaimed: bool, tmp_path: Path
) -> None:
    table = FakeProcessTable()
    table.add(10, "x")
    backends = [{"name": "server", "processes": {"guardian": GONE, "server": GONE}}, *further]
    make_lease(tmp_path / "leases", processes=WHOLE, backends=backends)

    assert bool(leases.reclaim_stale(table, str(tmp_path / "leases"))) == reclaimed


def test_a_list_of_servers_that_is_damaged_proves_nothing(tmp_path: Path) -> None:
    make_lease(tmp_path / "leases", processes=WHOLE, backends="two")

    assert leases.reclaim_stale(FakeProcessTable(), str(tmp_path / "leases")) == []


@pytest.mark.parametrize(
    ("launcher", "reclaimed"), [(ALIVE, False), (GONE, True), (REUSED, True), (UNSURE, False)]
)
@pytest.mark.parametrize("server", [ALIVE, GONE])
def test_a_launch_that_shares_a_server_is_over_with_its_launcher(
    launcher: object, server: object, reclaimed: bool, tmp_path: Path
) -> None:
    table = FakeProcessTable()
    table.add(10, "x")
    parts = {"launcher": launcher, "host": ALIVE, "server": server}
    shared = {"pool": ALIVE, "key": "5f3a", "sessions": 2}
    make_lease(tmp_path / "leases", processes=parts, shared=shared)

    assert bool(leases.reclaim_stale(table, str(tmp_path / "leases"))) == reclaimed


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


def test_a_lease_of_another_boot_is_reclaimed(tmp_path: Path) -> None:
    table = FakeProcessTable()
    table.add(10, "x")
    path = make_lease(tmp_path / "leases", boot="boot-0")

    leases.reclaim_stale(table, str(tmp_path / "leases"))

    assert not path.exists()


def test_a_lease_of_a_container_that_shares_our_home_is_kept(tmp_path: Path) -> None:
    path = make_lease(tmp_path / "leases", namespace="pid:[1]", processes={})

    leases.reclaim_stale(FakeProcessTable(), str(tmp_path / "leases"))

    assert path.exists()


def test_a_file_that_is_not_ours_is_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("not json", encoding="utf-8")
    (tmp_path / "other.txt").write_text("{}", encoding="utf-8")

    assert leases.reclaim_stale(system.open_table(), str(tmp_path)) == []
    assert len(list(tmp_path.glob("*.*"))) == 2


@pytest.mark.parametrize(
    ("changes", "argv", "taken"),
    [
        ({}, ["srv"], {"t-1"}),
        ({}, ["another server"], set()),
        ({"binding": {"state": "tentative", "thread": "t-1"}}, ["srv"], set()),
        ({"processes": {"launcher": GONE, "host": ALIVE}}, ["srv"], set()),
        ({"processes": {"launcher": ALIVE, "host": GONE}}, ["srv"], set()),
        ({"binding": None}, ["srv"], set()),
        (
            {"processes": {"launcher": ALIVE, "host": ALIVE}, "state": "resting"},
            ["srv"],
            {"t-1"},
        ),
        (
            {
                "backends": [
                    {"binding": {"state": "confirmed", "thread": "t-1"}},
                    {"binding": {"state": "confirmed", "thread": "t-2"}, "processes": {}},
                    {"binding": {"state": "tentative", "thread": "t-3"}, "processes": {}},
                ]
            },
            ["srv"],
            {"t-1", "t-2"},
        ),
    ],
    ids=[
        *("a sibling", "another server", "only tentative", "dead", "another host"),
        *("says nothing", "a sibling whose server rests", "a sibling with several servers"),
    ],
)
def test_a_thread_is_taken_by(
    changes: dict[str, object], argv: list[str], taken: set[str], tmp_path: Path
) -> None:
    table = FakeProcessTable()
    table.add(10, "x")
    make_lease(tmp_path / "leases", **changes)

    assert leases.list_confirmed_threads(table, str(tmp_path / "leases"), 10, argv) == taken


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
    change: Callable[[Path], object], tmp_path: Path
) -> None:
    table = FakeProcessTable()
    table.add(10, "x")
    path = make_lease(tmp_path / "leases", boot="boot-0")
    directory = str(tmp_path / "leases")
    assert leases.read(str(path))

    change(path)

    assert leases.read(str(path)) is None
    assert leases.read_all(directory) == {}
    assert leases.list_confirmed_threads(table, directory, 10, ["srv"]) == set()
    assert leases.reclaim_stale(table, directory) == []
    assert path.exists()
