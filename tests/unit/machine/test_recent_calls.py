"""What the records say of a census's servers: calls of a minute, failures of an hour."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from call_parts import CallParts
from made_up_census import make_census, make_host, make_launch, make_server, make_session

from mcp_launch.machine.process_snapshot import RecentCalls
from mcp_launch.machine.recent_calls import RecentRecords

if TYPE_CHECKING:
    from pathlib import Path

LAUNCH = "8fe1"


@pytest.fixture
def parts(tmp_path: Path) -> CallParts:
    return CallParts(tmp_path / "state")


@pytest.fixture
def records(parts: CallParts) -> RecentRecords:
    return RecentRecords(str(parts.directory))


def look(records: RecentRecords, *servers: Any) -> list[RecentCalls | None]:
    """Return what becomes known of servers of one host and session."""
    (host,) = records.add_to(make_census(make_host(make_session(*servers, thread="t-1")))).hosts
    return [server.recent for server in host.servers]


def make_calls(**ages: float) -> list[dict[str, Any]]:
    """Return calls of these ages; the name of one that failed begins with `bad`."""
    return [
        {
            "launch": LAUNCH,
            "time": time.time() - age,
            "outcome": "died" if name.startswith("bad") else "ok",
        }
        for name, age in ages.items()
    ]


def test_calls_of_the_last_minute_and_failures_of_the_last_hour_are_counted(
    parts: CallParts, records: RecentRecords
) -> None:
    parts.add(*make_calls(older=4000, bad_older=3700, bad=3000, bad_too=70, one=50, two=1))
    parts.add({"launch": "another", "time": time.time(), "outcome": "died"})

    assert look(records, make_server("docs", 5, launch=make_launch())) == [RecentCalls(2, 2)]
    # Refused calls are neither calls nor failures of the server.
    parts.add(*(one | {"outcome": "refused"} for one in make_calls(one=1, two=2)))
    launch = make_launch(calls=3, last_call=time.time() - 5000)
    assert look(records, make_server("docs", 5, launch=launch)) == [RecentCalls(2, 2)]


def test_each_look_adds_what_is_new_and_drops_what_is_old(
    parts: CallParts, records: RecentRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server("docs", 5, launch=make_launch())
    parts.add(*make_calls(bad=30))
    assert look(records, server) == [RecentCalls(1, 1)]

    parts.add(*make_calls(new=0), name="20261118-120000.jsonl")
    assert look(records, server) == [RecentCalls(2, 1)]

    later = time.time() + 3590
    monkeypatch.setattr(time, "time", lambda: later)
    assert look(records, server) == [RecentCalls(0, 0)]


@pytest.mark.parametrize(
    "launch",
    [
        pytest.param(None, id="not launched by us"),
        pytest.param(make_launch(wire="direct"), id="connected directly"),
        pytest.param(make_launch(calls=3, last_call=4e9), id="called, but not recorded"),
    ],
)
def test_nothing_is_said_of_calls_that_are_not_recorded(
    launch: Any, records: RecentRecords
) -> None:
    assert look(records, make_server("docs", 5, launch=launch)) == [None]


def test_each_server_of_a_launch_has_the_calls_of_its_session(
    parts: CallParts, records: RecentRecords
) -> None:
    threads = {"server": "t-1", "server-2": "t-2"}
    calls = make_calls(bad=1, good=2, other=3)
    for call, thread in zip(calls, ("t-1", "t-2", "t-2"), strict=True):
        parts.add(call | {"thread": thread})
    servers = [
        make_server("docs", pid, launch=make_launch(backend=name), thread=thread)
        for pid, (name, thread) in enumerate(threads.items(), start=5)
    ]

    assert look(records, *servers) == [RecentCalls(1, 1), RecentCalls(2, 0)]
    assert look(records, make_server("docs", 5, launch=make_launch())) == [RecentCalls(3, 1)]
