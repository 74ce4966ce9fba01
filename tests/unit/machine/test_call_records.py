"""The records of calls are read from their ends, whatever launches do to them meanwhile."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from call_parts import CallParts, make_call, make_line, make_record
from hypothesis import given
from hypothesis import strategies as st
from made_up_launches import MadeUpLaunches, record

from mcp_launch.machine import call_records
from mcp_launch.machine.call_records import (
    CallFilter,
    Follower,
    RunningHosts,
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


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a few lines at once, so that lines lie on the borders."""
    monkeypatch.setattr(call_records, "_CHUNK", 700)


def list_numbers(calls: list[RecordedCall]) -> list[int | None]:
    return [call.number for call in calls]


def add_series(parts: CallParts, count: int, **facts: Any) -> None:
    """Write a series of calls, one a second, the last one now."""
    lines = [
        make_line(number=number, time=NOW - count + number, **facts)
        for number in range(1, count + 1)
    ]
    parts.append(*lines)


@pytest.mark.usefixtures("small_chunks")
def test_a_line_may_be_longer_than_a_chunk(parts: CallParts) -> None:
    add_series(parts, 3, arguments={"text": "x" * 5000})

    assert list_numbers(read_last(parts.list(), 2)) == [2, 3]
    assert read_last(parts.list(), 1)[0].arguments == {"text": "x" * 5000}


def test_the_last_calls_are_found_without_reading_everything(
    parts: CallParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in range(10, 20):
        moment = NOW - (20 - hour) * 3600
        lines = [make_line(time=moment + number, number=number) for number in range(1000)]
        path = parts.append(*lines, name=f"20261118-{hour}0000.jsonl")
        os.utime(path, (moment + 1000, moment + 1000))
    read, sizes = os.pread, list[int]()

    def read_and_count(fd: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return read(fd, size, offset)

    monkeypatch.setattr(os, "pread", read_and_count)

    assert list_numbers(read_last(parts.list(), 30)) == [*range(970, 1000)]
    assert sum(sizes) < 300_000  # of more than 3 MB
    sizes.clear()
    assert len(read_last(parts.list(), None, since=NOW - 3600 + 900)) == 100
    assert sum(sizes) < 300_000


@pytest.mark.usefixtures("small_chunks")
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


@pytest.mark.usefixtures("small_chunks")
def test_a_part_may_be_removed_while_it_is_read(parts: CallParts) -> None:
    add_series(parts, 50)
    old = parts.add({"time": NOW - 10**6, "number": 0}, name="20261101-000000.jsonl")
    os.utime(old, (NOW, NOW))
    found = parts.list()
    old.unlink()
    reading = read_each(found)
    first = next(reading)
    for part in parts.directory.iterdir():
        part.unlink()

    assert first.number in range(45, 51)
    assert len([*reading]) < 10


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


def test_an_unknown_host_is_named_while_its_launch_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record may only say that its host is none that we know."""
    made_up = MadeUpLaunches(tmp_path / "state", monkeypatch)
    host = made_up.start("my-agent")
    made_up.write_lease("8fe1", {"host": record(host)})

    def name(host: str = "unknown", launch: str = "8fe1") -> str:
        hosts = RunningHosts({"MCP_LAUNCH_HOME": str(made_up.state)}, made_up.table)
        return hosts.name(make_call(host=host, launch=launch))

    assert (name(), name(host="codex")) == ("my-agent", "codex")
    assert {name(launch=other) for other in ("", "77aa", "../8fe1")} == {"unknown"}
    made_up.end(host)
    assert name() == "unknown"
