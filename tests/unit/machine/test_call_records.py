"""The records of calls are read, whatever launches do to them meanwhile."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from call_parts import CallParts, make_call, make_line, make_record
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.machine.call_records import (
    CallFilter,
    Follower,
    parse,
    read_each,
    read_last,
)

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.machine.call_records import RecordedCall

NOW = time.time()


@pytest.fixture
def parts(tmp_path: Path) -> CallParts:
    return CallParts(tmp_path / "state")


def list_numbers(calls: list[RecordedCall]) -> list[int | None]:
    return [call.number for call in calls]


def add_series(parts: CallParts, count: int, **facts: Any) -> None:
    """Write a series of calls, one a second, the last one now."""
    lines = [
        make_line(number=number, time=NOW - count + number, **facts)
        for number in range(1, count + 1)
    ]
    parts.append(*lines)


@given(
    st.lists(
        st.tuples(st.floats(0, 5000), st.floats(0, 900), st.integers(0, 2), st.booleans()),
        max_size=60,
    ),
    st.integers(1, 60),
    st.sampled_from([0.0, 1000.0, 4000.0]),
)
def test_what_is_found_is_what_a_reader_of_everything_finds(
    tmp_path_factory: pytest.TempPathFactory,
    calls: list[tuple[float, float, int, bool]],
    count: int,
    since: float,
) -> None:
    parts = CallParts(tmp_path_factory.mktemp("state"))
    ended = sorted((come + took, come, took, part, flag) for come, took, part, flag in calls)
    for number, (end, come, took, part, has_failed) in enumerate(ended):
        outcome = "died" if has_failed else "ok"
        facts = {"time": come, "ms": took * 1000, "number": number, "outcome": outcome}
        path = parts.add(facts, name=f"20261118-11050{part}.jsonl")
        os.utime(path, (end, end))

    is_wanted = CallFilter(only_failed=True).make_test()
    found = read_last(parts.list(), count, since=since, is_wanted=is_wanted)

    wanted = [number for number, one in enumerate(ended) if one[4] and one[1] >= since]
    ends = sorted((ended[number][0] for number in wanted), reverse=True)[:count]
    assert sorted(list_numbers(found)) == sorted(set(list_numbers(found)))  # type: ignore[type-var]
    assert sorted(call.ended for call in found) == pytest.approx(sorted(ends))
    assert [call.time for call in found] == sorted(call.time for call in found)
    assert sum(1 for _ in read_each(parts.list())) == len(calls)


DAMAGED = {
    "torn": b'{"time": 1794999925.1, "tool": "se',
    "not JSON": b"hello",
    "not an object": b"[1, 2]",
    "without a time": b'{"tool": "search"}',
    "a time that is text": b'{"time": "now"}',
    "a time that is not a number": b'{"time": NaN}',
    "a time far off": b'{"time": 1e300}',
    "a number too long": b'{"time": 1' + b"0" * 5000 + b"}",
    "nested too deep": b'{"time": 1, "arguments": ' + b"[" * 100_000,
    "not UTF-8": b'{"time": 1,\xff',
    "empty": b"",
    "what would join its neighbours": b'{"time": 1, "x": [1',
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=list(DAMAGED))
def test_a_damaged_line_costs_no_other(line: bytes) -> None:
    data = make_line(number=1) + line + b"\n" + make_line(number=2)

    assert list_numbers(parse(data)) == [1, 2]


def test_members_of_another_type_are_unknown() -> None:
    [call] = parse(
        b'{"time": 5, "ms": "long", "tool": 7, "pid": true, "changed": "cwd", "id": [], '
        b'"request": -1, "waited": 1, "host": null}\n'
    )

    assert call == make_call(**dict.fromkeys(make_record()) | {"time": 5})
    assert call.ended == 5
    assert (call.ms, call.tool, call.pid, call.id, call.request) == (None, "", None, None, None)


def test_files_of_others_are_not_read(parts: CallParts, tmp_path: Path) -> None:
    own = parts.add({"number": 1})
    writable = parts.add({"number": 2}, name="20261118-110502.jsonl")
    writable.chmod(0o622)
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_bytes(make_line(number=3))
    (parts.directory / "20261118-110503.jsonl").symlink_to(elsewhere)
    os.mkfifo(parts.directory / "20261118-110504.jsonl")
    parts.add({"number": 4}, name="notes.jsonl")

    found = parts.list()
    assert [part.path for part in found] == [str(own)]
    moved = tmp_path / "moved.jsonl"
    own.rename(moved)
    own.symlink_to(moved)  # between listing and reading
    assert read_last(found, 5) == []
    parts.directory.chmod(0o777)
    assert parts.list() == []


def test_a_part_that_is_replaced_by_a_link_is_not_read(parts: CallParts, tmp_path: Path) -> None:
    path = parts.add({"number": 1})
    found = parts.list()
    elsewhere = tmp_path / "elsewhere.jsonl"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)

    assert read_last(found, 5) == []


def test_a_part_may_be_removed_before_it_is_read(parts: CallParts) -> None:
    add_series(parts, 5)
    old = parts.add({"time": NOW - 10**6, "number": 0}, name="20261101-000000.jsonl")
    found = parts.list()
    old.unlink()

    assert list_numbers([*read_each(found)]) == [5, 4, 3, 2, 1]


def test_a_follower_reads_whole_lines_that_are_new_in_any_part(parts: CallParts) -> None:
    line = make_line(number=2)
    old = parts.append(make_line(number=1) + line[:20])
    follower = Follower(str(parts.directory))

    assert list_numbers(read_last(follower.parts, 5)) == [1]
    assert follower.read() == []
    parts.append(line[20:-1])
    assert follower.read() == []
    parts.append(b"\n" + make_line(number=3)[:7])
    assert list_numbers(follower.read()) == [2]
    parts.append(make_line(number=3)[7:])
    parts.add({"number": 4, "time": NOW - 1}, name="20261118-110502.jsonl")
    assert sorted(filter(None, list_numbers(follower.read()))) == [3, 4]
    old.unlink()
    parts.add({"number": 5}, name="20261118-110502.jsonl")
    assert list_numbers(follower.read()) == [5]
    assert follower.read() == []
    assert list_numbers(read_last(follower.parts, 30)) == [], "what was there at the start is gone"
