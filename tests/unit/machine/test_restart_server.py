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


def make_further(**facts: Any) -> list[dict[str, Any]]:
    usual = {"name": "server-2", "state": "running", "restart_requests": 2}
    processes = {"server": {"pid": 80, "start": "1"}}
    return [{"name": "server"}, {**usual, "processes": processes, **facts}]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shared": {"pool": {"pid": 69, "start": "1"}, "key": "5f3a"}},
        {"state": leases.FAILED},
        {"state": leases.RESTING, "backends": make_further(), "server": None},
    ],
    ids=["a server", "one that it shares", "none because it failed", "another that runs"],
)
def test_a_launcher_gets_the_signal_that_has(changes: dict[str, Any], signals: list[int]) -> None:
    write_lease(**changes)

    asked = ask()

    assert isinstance(asked, AskedLauncher)
    if "backends" not in changes:
        assert (asked.before, asked.done) == ({"server": 70}, {"server": 1})
    assert signals == [signal.SIGUSR1]


OTHER = {"launcher": {"pid": os.getpid(), "start": "another time"}}
IMPOSSIBLE = {"launcher": {"pid": 10**30, "start": "ticks:1"}}
UNKNOWN = {"launcher": {"pid": os.getpid(), "start": None}}
WHY = {"problem": "npx was not found", "fix": "install it"}
RESTING = make_further(state=leases.RESTING)

# What a lease says, and what is answered without a signal.
NOBODY: dict[str, tuple[dict[str, Any] | None, str]] = {
    "reused pid": ({"processes": OTHER}, "has ended, or is out of reach"),
    "unsure": ({"processes": UNKNOWN}, "has ended, or is out of reach"),
    "impossible pid": ({"processes": IMPOSSIBLE}, "has ended, or is out of reach"),
    "another container": ({"namespace": "pid:[1]"}, "has ended, or is out of reach"),
    "ignored": ({"restarts_on": None}, "its host ignores SIGUSR1"),
    "direct": ({"wire": "direct"}, "--direct"),
    "failed for good": (
        {"state": leases.FAILED, "restarts_on": None, "failure": WHY},
        "it could not be started: npx was not found",
    ),
    "just ended": (None, "its launch has just ended"),
    "not started": ({"state": leases.NOT_STARTED}, ""),
    "resting": ({"state": leases.RESTING}, ""),
    "ended": ({"state": leases.ENDED}, ""),
    "all of several rest": (
        {"state": leases.RESTING, "backends": RESTING, "server": None},
        "",
    ),
}


@pytest.mark.parametrize(("changes", "problem"), NOBODY.values(), ids=list(NOBODY))
def test_nobody_gets_the_signal_if_the_launch_is(
    changes: dict[str, Any] | None, problem: str, signals: list[int]
) -> None:
    if changes is not None:
        write_lease(**changes)

    told = ask()

    assert isinstance(told, Restarted)
    assert told.outcome == ("failed" if problem else "not running")
    assert problem in told.problem
    if problem and changes:
        assert "reconnect" in told.fix
    assert not signals


def wait(before: dict[str, int], limit: float = 10.0, **changes: Any) -> dict[str, Restarted]:
    """Return the outcomes of a request to this process, which has carried out one before."""
    launcher: Any = leases.describe_processes(TABLE, launcher=os.getpid())["launcher"]
    if "launcher" in changes:
        launcher = changes.pop("launcher")
    path = f"{state.find_leases(os.environ)}/L.json"
    done = dict.fromkeys(before, 1)
    asked = AskedLauncher(path, "L", before, done, time.time(), launcher)
    write_lease(**changes)
    return restart_server.wait(TABLE, asked, limit)


GO_ON = "its launcher goes on"
REPLACED = {"restart_requests": 2, "server": 71}

# What the lease says then, and of each server: the outcome, its old and new process, the problem.
OUTCOMES: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "a new server": (REPLACED, {"server": ("restarted", 70, 71, "")}),
    "replaced by another request": (
        {"restart_requests": 2},
        {"server": ("restarted", 0, 70, "")},
    ),
    "nothing within the limit": ({"limit": 0.0}, {"server": ("failed", 70, 0, GO_ON)}),
    "one of two within the limit": (
        {**REPLACED, "limit": 0.0, "backends": make_further(restart_requests=1)},
        {"server-2": ("failed", 80, 0, GO_ON)},
    ),
    "a failure": (
        {"restart_requests": 2, "server": None, "state": leases.FAILED, "failure": WHY},
        {"server": ("failed", 70, 0, WHY["problem"])},
    ),
    "an end meanwhile": (
        {"launcher": OTHER["launcher"]},
        {"server": ("failed", 70, 0, "its launch has ended (mcp-launch logs)")},
    ),
    "one of two that failed": (
        {**REPLACED, "backends": make_further(state="failed", processes={}, failure=WHY)},
        {
            "server": ("restarted", 70, 71, ""),
            "server-2": ("failed", 80, 0, "npx was not found"),
        },
    ),
}


@pytest.mark.parametrize(("changes", "expected"), OUTCOMES.values(), ids=list(OUTCOMES))
def test_a_request_to_restart_comes_to(
    changes: dict[str, Any], expected: dict[str, tuple[Any, ...]]
) -> None:
    before = {"server": 70, **({"server-2": 80} if "backends" in changes else {})}

    told = wait(before, **changes)

    for name, (outcome, old, new, problem) in expected.items():
        assert (told[name].outcome, told[name].before, told[name].after) == (outcome, old, new)
        assert problem in told[name].problem
