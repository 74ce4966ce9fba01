"""Metrics: totals that survive, and the servers that there are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from export_records import make_record
from made_up_launches import MadeUpLaunches, make_binding, record
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric
from otlp_receiver import read_attributes

from mcp_launch.commands.export import metrics, totals
from mcp_launch.commands.export.totals import BOUNDS, Totals
from mcp_launch.machine.running import Census

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = Census([], [])


def count(*records: dict[str, Any]) -> Totals:
    found = Totals()
    for one in records:
        found.add_call(one)
    return found


def make(found: Totals, census: Census = NOTHING) -> dict[str, Metric]:
    return {one.name: one for one in metrics.make_metrics(found, census, 100.0, 200.0)}


def list_points(points: Any) -> dict[tuple[Any, ...], int]:
    return {tuple(read_attributes(one.attributes).values()): one.as_int for one in points}


def test_calls_and_failures_are_counted_by_host_server_tool_and_outcome() -> None:
    died = make_record(outcome="died", tool="fetch")
    other = make_record(protocol="2025-06-18")

    made = make(count(make_record(), make_record(), other, died))

    calls, failures = made["mcp_launch.calls"].sum, made["mcp_launch.failures"].sum
    assert list_points(calls.data_points) == {
        ("codex", "docs", "search", "ok"): 3,
        ("codex", "docs", "fetch", "died"): 1,
    }
    assert list_points(failures.data_points) == {("codex", "docs", "fetch", "died"): 1}
    assert calls.is_monotonic
    assert calls.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    [first, *_] = calls.data_points
    assert (first.start_time_unix_nano, first.time_unix_nano) == (100 * 10**9, 200 * 10**9)


def test_durations_are_a_histogram_with_the_bounds_of_the_conventions() -> None:
    made = make(count(*(make_record(ms=ms) for ms in (10, 11, 400, 1_000_000))))

    [point] = made["mcp.server.operation.duration"].histogram.data_points
    assert made["mcp.server.operation.duration"].unit == "s"
    assert list(point.explicit_bounds) == list(BOUNDS)
    assert list(point.bucket_counts) == [1, 1, 0, 0, 0, 1, *[0] * 8, 1]
    assert (point.count, point.min, point.max) == (4, 0.01, 1000)
    assert point.sum == pytest.approx(1000.421)
    attributes = read_attributes(point.attributes)
    assert attributes["mcp.method.name"] == "tools/call"
    assert attributes["mcp.protocol.version"] == "2025-11-25"
    assert "error.type" not in attributes


def test_totals_are_the_same_after_a_restart() -> None:
    found = count(make_record(), make_record(outcome="refused", tool="\ud800"))
    found.see_restarts({"l-1": ("codex", "docs", 2)})

    again = Totals.load(json.loads(json.dumps(found.dump())))

    assert make(again) == make(found)
    assert again.seen_restarts == {"l-1": 2}


def test_tools_without_end_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "_MOST", 3)

    made = make(count(*(make_record(tool=f"tool {number}") for number in range(10))))

    points = list_points(made["mcp_launch.calls"].sum.data_points)
    assert len(points) == 4
    assert points[True,] == 7


def test_each_restart_is_counted_once() -> None:
    found = Totals()

    assert found.see_restarts({"l-1": ("codex", "docs", 1), "l-2": ("codex", "docs", 0)})
    assert not found.see_restarts({"l-1": ("codex", "docs", 1), "l-2": ("codex", "docs", 0)})
    assert found.see_restarts({"l-1": ("codex", "docs", 3)})
    assert found.see_restarts({})  # the launch has ended

    assert found.restarts == {("codex", "docs"): 3}
    assert found.seen_restarts == {}


def test_servers_are_counted_by_state_with_their_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = MadeUpLaunches(tmp_path, monkeypatch)
    host = launches.start("codex")
    for launch in ("1a", "2b"):
        launcher = launches.start("mcp-launch", host, 5)
        server = launches.start_server(launcher, 50)
        processes = {"launcher": record(launcher), "host": record(host), **server}
        launches.write_lease(launch, processes, binding=make_binding(launch), restarts=2)
    idle = launches.start("mcp-launch", host, 5)
    processes = {"launcher": record(idle), "host": record(host)}
    launches.write_lease("3c", processes, state="resting", saved=50_000_000)
    census = launches.take()

    made = make(Totals(), census)

    assert list_points(made["mcp_launch.servers"].gauge.data_points) == {
        ("codex", "docs", "running"): 2,
        ("codex", "docs", "resting"): 1,
    }
    # Two servers with launcher, keeper and guardian each, and the launcher of the third.
    memory = list_points(made["mcp_launch.memory"].gauge.data_points)
    assert memory == {("codex", "docs"): (2 * 57 + 5) * 1_000_000}
    saved = list_points(made["mcp_launch.memory.saved"].gauge.data_points)
    assert saved == {("codex", "docs"): 50_000_000}
    assert metrics.list_restarts(census)["1a"] == ("codex", "docs", 2)


def test_without_calls_and_servers_there_are_no_metrics() -> None:
    assert make(Totals()) == {}
