"""The calls of each tool, counted."""

from __future__ import annotations

from call_parts import make_call
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.machine.call_statistics import count_calls, find_percentile

NOW = 1_795_000_000.0


@given(st.lists(st.floats(0, 1e6), max_size=300), st.sampled_from([1, 50, 95, 99, 100]))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    values: list[float], percent: int
) -> None:
    ordered = sorted(values)
    enough = [
        value
        for value in ordered
        if sum(one <= value for one in ordered) * 100 >= percent * len(ordered)
    ]

    assert find_percentile(ordered, percent) == (min(enough) if enough else None)


def test_each_tool_of_each_server_is_counted_for_itself() -> None:
    calls = [
        make_call(time=NOW - 7200, ms=10.0, request=100, response=1000),
        make_call(time=NOW - 3500, ms=30.0, request=100, response=1000, outcome="tool error"),
        make_call(time=NOW - 1, ms=20.0, request=None, response=1000),
        make_call(server="git", ms=5.0, outcome="cancelled"),
        make_call(tool="fetch", ms=None, outcome="died"),
    ]

    counted = count_calls(calls, NOW)

    assert [(one.server, one.tool, one.calls, one.failures) for one in counted] == [
        ("docs", "search", 3, 1),
        ("docs", "fetch", 1, 1),
        ("git", "search", 1, 0),
    ]
    search = counted[0]
    assert (search.p50, search.p95, search.slowest) == (20.0, 30.0, 30.0)
    assert (search.request, search.response, search.bytes) == (200, 3000, 3200)
    assert (search.first, search.last) == (NOW - 7200, NOW - 1)
    assert search.last_hour == (1, *[0] * 10, 1)
    assert counted[1].p50 is None


def test_refused_calls_do_not_make_a_tool_look_fast_and_the_busiest_tool_is_first() -> None:
    calls = [make_call(ms=400.0), *[make_call(ms=0.1, outcome="refused")] * 9]

    busiest, other = count_calls([make_call(tool="other"), *calls], NOW)

    assert (busiest.calls, busiest.failures, busiest.p50) == (10, 9, 400.0)
    assert other.tool == "other"
