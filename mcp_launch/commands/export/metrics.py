"""Make metrics: of all calls so far, and of the servers that there are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)

from mcp_launch.commands.export.attributes import make_attributes
from mcp_launch.commands.export.call_facts import ERROR_TYPES, make_text
from mcp_launch.commands.export.spans import METHOD
from mcp_launch.commands.export.totals import BOUNDS, OVERFLOW
from mcp_launch.machine import units
from mcp_launch.machine.running import list_distinct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.commands.export.attributes import Value
    from mcp_launch.commands.export.totals import Durations, Kind, Totals
    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Census

_NANO = 1_000_000_000


def make_metrics(totals: Totals, census: Census, begun: float, now: float) -> list[Metric]:
    """Return all metrics."""
    times = (round(begun * _NANO), round(now * _NANO))
    metrics = [
        *_make_call_metrics(totals, times),
        _make_counter(
            "mcp_launch.restarts",
            "{restart}",
            "How often a server was replaced below its connection.",
            [(_name_server(*key), count) for key, count in totals.restarts.items()],
            times,
        ),
        *_make_server_metrics(census, times[1]),
    ]
    return [metric for metric in metrics if _has_points(metric)]


def _has_points(metric: Metric) -> bool:
    return any(kind.data_points for kind in (metric.sum, metric.gauge, metric.histogram))


def list_restarts(census: Census) -> dict[str, tuple[str, str, int]]:
    """Return host, server and restarts of every living launch, by its id."""
    return {
        server.launch.id: (host.name, server.name, server.launch.restarts)
        for host in census.hosts
        for server in host.servers
        if server.launch
    }


def _make_call_metrics(totals: Totals, times: tuple[int, int]) -> list[Metric]:
    calls = totals.calls.items()
    failed = [(kind, one) for kind, one in calls if kind[3] in ERROR_TYPES]
    return [
        Metric(
            name="mcp.server.operation.duration",
            unit="s",
            description="How long a call took, from its arrival until the host had its answer.",
            histogram=Histogram(
                aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE,
                data_points=[_make_durations(kind, one, times) for kind, one in calls],
            ),
        ),
        _make_counter(
            "mcp_launch.calls",
            "{call}",
            "How many calls there were.",
            _add_up([(_name_call(kind), one.count) for kind, one in calls]),
            times,
        ),
        _make_counter(
            "mcp_launch.failures",
            "{call}",
            "How many calls failed.",
            _add_up([(_name_call(kind), one.count) for kind, one in failed]),
            times,
        ),
    ]


def _add_up(points: Iterable[tuple[dict[str, Value], int]]) -> list[tuple[dict[str, Value], int]]:
    """Return one point for each set of attributes: two of the same would be refused."""
    sums: dict[tuple[tuple[str, Value], ...], int] = {}
    for attributes, count in points:
        key = tuple(attributes.items())
        sums[key] = sums.get(key, 0) + count
    return [(dict(key), count) for key, count in sums.items()]


def _make_durations(kind: Kind, one: Durations, times: tuple[int, int]) -> HistogramDataPoint:
    attributes: dict[str, Value] = {
        **_name_call(kind),
        "mcp.method.name": METHOD,
        "gen_ai.operation.name": "execute_tool",
        "network.transport": "pipe",
        "mcp.protocol.version": kind[4],
        "error.type": ERROR_TYPES.get(kind[3], ""),
    }
    return HistogramDataPoint(
        attributes=make_attributes({key: value for key, value in attributes.items() if value}),
        start_time_unix_nano=times[0],
        time_unix_nano=times[1],
        count=one.count,
        sum=one.sum,
        min=one.shortest,
        max=one.longest,
        bucket_counts=one.buckets,
        explicit_bounds=BOUNDS,
    )


def _name_call(kind: Kind) -> dict[str, Value]:
    if kind == OVERFLOW:
        return {"otel.metric.overflow": True}
    host, server, tool, outcome, _ = kind
    return _name_server(host, server) | {"gen_ai.tool.name": tool, "mcp_launch.outcome": outcome}


def _name_server(host: str, server: str) -> dict[str, Value]:
    return {"mcp_launch.host": make_text(host), "mcp_launch.server": make_text(server)}


def _make_counter(
    name: str,
    unit: str,
    description: str,
    points: list[tuple[dict[str, Value], int]],
    times: tuple[int, int],
) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        description=description,
        sum=Sum(
            is_monotonic=True,
            aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE,
            data_points=[
                NumberDataPoint(
                    attributes=make_attributes(attributes),
                    start_time_unix_nano=times[0],
                    time_unix_nano=times[1],
                    as_int=count,
                )
                for attributes, count in points
            ],
        ),
    )


def _make_server_metrics(census: Census, now: int) -> list[Metric]:
    states: dict[tuple[str, str, str], int] = {}
    memory: dict[tuple[str, str], list[Server]] = {}
    for host in census.hosts:
        for server in list_distinct(host.servers):
            state = server.launch.server_state if server.launch else "not wrapped"
            key = (host.name, server.name, state)
            states[key] = states.get(key, 0) + 1
            memory.setdefault((host.name, server.name), []).append(server)
    numbers = [
        (_name_server(host, server) | {"mcp_launch.state": state}, count)
        for (host, server, state), count in states.items()
    ]
    sizes = [(_name_server(*key), _measure(servers)) for key, servers in memory.items()]
    saved = [
        (_name_server(*key), sum(server.saved for server in servers))
        for key, servers in memory.items()
    ]
    return [
        _make_gauge("mcp_launch.servers", "{server}", "How many servers there are.", numbers, now),
        _make_gauge("mcp_launch.memory", "By", "What servers and launchers take.", sizes, now),
        _make_gauge("mcp_launch.memory.saved", "By", "What resting servers took.", saved, now),
    ]


def _measure(servers: list[Server]) -> int:
    shares = {pid: share for server in servers for pid, share in server.shares.items()}
    return units.add_up(shares.values()).amount


def _make_gauge(
    name: str, unit: str, description: str, points: list[tuple[dict[str, Value], int]], now: int
) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        description=description,
        gauge=Gauge(
            data_points=[
                NumberDataPoint(
                    attributes=make_attributes(attributes), time_unix_nano=now, as_int=value
                )
                for attributes, value in points
            ]
        ),
    )
