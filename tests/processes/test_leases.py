"""Leases: written, learned from, removed, and reclaimed only on proof of death."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable
from launches import ENVIRONMENT_SERVER, LaunchRunner, request, wait_for_lease, wait_until_gone

from mcp_launch import system
from mcp_launch.state import leases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def read_lease(state: Path) -> dict[str, Any]:
    """Return the only lease; on the direct wire the server may be faster than it is written."""
    return wait_for_lease(state, lambda _lease: True)


def test_a_lease_names_the_host_and_its_server(
    wire: list[str], runner: LaunchRunner, tmp_path: Path
) -> None:
    launch = runner.launch(*wire, "--server", "docs", "--", *ENVIRONMENT_SERVER, "--token=s3cret")
    sight = launch.ask("look")

    lease = read_lease(tmp_path / "state")

    parts = {part: one["pid"] for part, one in lease["processes"].items()}
    assert parts["launcher"] == launch.pid
    assert parts["server"] == sight["pid"]
    assert parts["host"] == os.getpid()
    assert lease["launch"] == sight["env"]["MCP_LAUNCH_ID"]
    assert lease["server"] == "docs"
    assert lease["context"]["cwd"] == {"value": str(runner.project), "origin": "inherited"}
    assert lease["binding"]["state"] == "unbound"
    assert "s3cret" not in json.dumps(lease)


def test_a_lease_has_the_servers_own_directory(runner: LaunchRunner, tmp_path: Path) -> None:
    (runner.project / "sub").mkdir()
    sight = runner.launch("--cwd", "sub", "--", *ENVIRONMENT_SERVER).ask("look")

    assert read_lease(tmp_path / "state")["context"]["cwd"]["value"] == sight["cwd"]
    assert sight["cwd"] == str(runner.project / "sub")


def test_a_lease_learns_how_the_connection_opened(runner: LaunchRunner, tmp_path: Path) -> None:
    launch = runner.launch("--", *ENVIRONMENT_SERVER)
    launch.send(request("initialize"), request("second", 2))
    launch.answer()
    launch.answer()

    wait_for_lease(tmp_path / "state", lambda lease: lease.get("opened_with") == "initialize")


def test_leases_are_private(runner: LaunchRunner, tmp_path: Path) -> None:
    runner.launch("--", *ENVIRONMENT_SERVER).ask("look")
    directory = tmp_path / "state" / "leases"

    (file,) = directory.glob("[!.]*")

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_guardian_removes_the_lease_of_a_killed_launcher(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    launch = runner.launch("--", *ENVIRONMENT_SERVER)
    launch.ask("look")
    guardian = read_lease(tmp_path / "state")["processes"]["guardian"]["pid"]

    launch.process.kill()
    wait_until_gone(guardian)

    assert list((tmp_path / "state" / "leases").iterdir()) == []


def test_fifty_launches_at_once_lose_no_lease(runner: LaunchRunner, tmp_path: Path) -> None:
    launches = [runner.launch("--", "cat") for _ in range(50)]
    for launch in launches:
        launch.send(request("ping"))
    for launch in launches:
        launch.answer()

    assert len(list((tmp_path / "state" / "leases").glob("*.json"))) == 50
    for launch in launches:
        launch.close()
    for launch in launches:
        assert launch.wait() == 0
    assert list((tmp_path / "state" / "leases").iterdir()) == []


def test_our_files_are_never_put_into_a_project(runner: LaunchRunner, own_home: Path) -> None:
    runner.launch(
        "--", *ENVIRONMENT_SERVER, env={**os.environ, "MCP_LAUNCH_HOME": "somewhere"}
    ).ask("look")

    assert not (runner.project / "somewhere").exists()
    assert (own_home / "somewhere" / "leases").is_dir()


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/full/x"])
def test_a_launch_goes_on_without_a_lease(home: str, wire: list[str], runner: LaunchRunner) -> None:
    launch = runner.launch(
        *wire, "--trace", "--", *ENVIRONMENT_SERVER, env={**os.environ, "MCP_LAUNCH_HOME": home}
    )

    assert launch.ask("look")["pid"]
    assert b"[mcp-launch] no lease: " in launch.finish()[2]


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
    ],
    ids=["a sibling", "another server", "only tentative", "dead", "another host", "says nothing"],
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
