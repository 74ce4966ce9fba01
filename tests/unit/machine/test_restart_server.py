"""Who gets the signal of a restart, and what a lease says of the outcome."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_launch import state, system
from mcp_launch.machine import restart_server
from mcp_launch.machine.restart_server import AskedLauncher, Restarted
from mcp_launch.state import leases

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = system.open_table()
DIRECTORY = "leases"


@pytest.fixture
def signals() -> Iterator[list[int]]:
    """Return the signals of a restart that this process gets."""
    got: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: got.append(number))
    yield got
    signal.signal(signal.SIGUSR1, before)


def write_lease(**changes: Any) -> dict[str, Any]:
    """Write a lease whose launcher is this process."""
    directory = state.find_directory(os.environ)
    record: dict[str, Any] = {
        "namespace": system.read_namespace(),
        "processes": leases.describe_processes(TABLE, launcher=os.getpid()),
        "wire": "guarded",
        "state": "running",
        "restarts_on": "SIGUSR1",
        "restart_requests": 1,
        **changes,
    }
    server = {"pid": changes.get("server", 70), "start": "1"}
    record["processes"] = {**record["processes"], "server": server}
    state.make_private(f"{directory}/{DIRECTORY}")
    path = Path(directory, DIRECTORY, "L.json")
    path.write_text(json.dumps(record), encoding="utf-8")
    path.chmod(0o600)
    return record


def ask() -> AskedLauncher | Restarted:
    return restart_server.ask(TABLE, state.find_directory(os.environ), "L")


@pytest.mark.parametrize(
    "changes",
    [{}, {"shared": {"pool": {"pid": 69, "start": "1"}, "key": "5f3a"}}, {"state": leases.FAILED}],
    ids=["it has a server", "it shares one", "its server could not be started"],
)
def test_a_launcher_that_understands_the_signal_gets_it(
    changes: dict[str, Any], signals: list[int]
) -> None:
    write_lease(**changes)

    asked = ask()

    assert isinstance(asked, AskedLauncher)
    assert (asked.before, asked.done) == ({"server": 70}, {"server": 1})
    assert signals == [signal.SIGUSR1]


OTHER = {"launcher": {"pid": os.getpid(), "start": "another time"}}
IMPOSSIBLE = {"launcher": {"pid": 10**30, "start": "ticks:1"}}
UNKNOWN = {"launcher": {"pid": os.getpid(), "start": None}}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"processes": OTHER}, "has ended, or is out of reach"),
        ({"processes": UNKNOWN}, "has ended, or is out of reach"),
        ({"processes": IMPOSSIBLE}, "has ended, or is out of reach"),
        ({"namespace": "pid:[1]"}, "has ended, or is out of reach"),
        ({"restarts_on": None}, "its host ignores SIGUSR1"),
        ({"wire": "direct"}, "--direct"),
    ],
    ids=["reused pid", "unsure", "impossible pid", "another container", "ignored", "direct"],
)
def test_no_other_process_ever_gets_the_signal(
    changes: dict[str, Any], problem: str, signals: list[int]
) -> None:
    write_lease(**changes)

    told = ask()

    assert isinstance(told, Restarted)
    assert told.outcome == "failed"
    assert problem in told.problem
    assert "reconnect" in told.fix
    assert not signals


@pytest.mark.parametrize("name", [leases.NOT_STARTED, leases.RESTING, leases.ENDED])
def test_a_launch_without_a_server_is_left_as_it_is(name: str, signals: list[int]) -> None:
    write_lease(state=name)

    assert ask() == Restarted("not running")
    assert not signals


@pytest.mark.parametrize("others", ["running", "resting"])
def test_a_launch_with_several_servers_is_asked_if_one_of_them_runs(
    others: str, signals: list[int]
) -> None:
    further = {"name": "server-2", "state": others, "processes": {"server": {"pid": 80}}}
    write_lease(state=leases.RESTING, backends=[{"name": "server"}, further], server=None)

    assert isinstance(ask(), AskedLauncher) == (others == "running")
    assert bool(signals) == (others == "running")


def test_a_launch_that_failed_for_good_says_why(signals: list[int]) -> None:
    failure = {"problem": "npx was not found", "fix": "install it"}
    write_lease(state=leases.FAILED, restarts_on=None, failure=failure)

    told = ask()

    assert isinstance(told, Restarted)
    assert told.problem == "it could not be started: npx was not found"
    assert "reconnect" in told.fix
    assert not signals


def test_a_launch_that_has_just_ended_is_no_crash() -> None:
    told = ask()

    assert isinstance(told, Restarted)
    assert told.problem == "its launch has just ended"


def wait_for_all(
    before: dict[str, int], limit: float = 10.0, **changes: Any
) -> dict[str, Restarted]:
    """Return the outcomes of a request to this process, which has carried out one before."""
    launcher: Any = leases.describe_processes(TABLE, launcher=os.getpid())["launcher"]
    if "launcher" in changes:
        launcher = changes.pop("launcher")
    asked = AskedLauncher(
        f"{state.find_leases(os.environ)}/L.json",
        "L",
        before,
        dict.fromkeys(before, 1),
        time.time(),
        launcher,
    )
    write_lease(**changes)
    return restart_server.wait(TABLE, asked, limit)


def wait(limit: float = 10.0, **changes: Any) -> Restarted:
    """Return the outcome for a launch whose only server was process 70."""
    return wait_for_all({"server": 70}, limit, **changes)["server"]


def test_a_new_server_means_that_it_was_restarted() -> None:
    told = wait(restart_requests=2, server=71)

    assert told[:3] == ("restarted", 70, 71)


def make_further(**facts: Any) -> list[dict[str, Any]]:
    usual = {"name": "server-2", "state": "running", "restart_requests": 2}
    processes = {"server": {"pid": 81, "start": "1"}}
    return [{"name": "server"}, {**usual, "processes": processes, **facts}]


SEVERAL = {"server": 70, "server-2": 80}


def test_a_server_that_is_still_being_replaced_is_waited_for() -> None:
    backends = make_further(restart_requests=1)

    told = wait_for_all(SEVERAL, limit=0.0, restart_requests=2, server=71, backends=backends)

    assert "its launcher goes on" in told["server-2"].problem


def test_the_one_of_several_servers_that_has_failed_says_why() -> None:
    failure = {"problem": "no database", "fix": "start it"}
    backends = make_further(state="failed", processes={}, failure=failure)

    told = wait_for_all(SEVERAL, restart_requests=2, server=71, backends=backends)

    assert told["server"][:3] == ("restarted", 70, 71)
    assert (told["server-2"].outcome, told["server-2"].problem) == ("failed", "no database")


def test_a_server_that_another_request_has_replaced_counts_as_restarted() -> None:
    assert wait(restart_requests=2)[:3] == ("restarted", 0, 70)


def test_a_failure_is_quoted_from_the_lease() -> None:
    failure = {"problem": "no database", "fix": "start it"}

    told = wait(restart_requests=2, server=None, state=leases.FAILED, failure=failure)

    assert (told.outcome, told.problem) == ("failed", "no database")


def test_a_launch_that_ends_meanwhile_is_reported() -> None:
    assert wait(launcher=OTHER["launcher"]).problem == "its launch has ended (mcp-launch logs)"


def test_nothing_is_waited_for_for_ever() -> None:
    told = wait(limit=0.0)

    assert (told.outcome, told.before) == ("failed", 70)
    assert "its launcher goes on" in told.problem
