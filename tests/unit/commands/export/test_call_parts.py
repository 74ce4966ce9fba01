"""Reading records onwards: every complete line once, whatever happens to the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from export_records import CallParts, make_record

from mcp_launch.commands.export import call_parts
from mcp_launch.commands.export.call_parts import Reach, read_batch

if TYPE_CHECKING:
    from pathlib import Path

LATER = "20261118-120000-02"


@pytest.fixture
def parts(tmp_path: Path) -> CallParts:
    return CallParts(tmp_path)


def list_numbers(batch: call_parts.RecordBatch) -> list[object]:
    return [record["number"] for record in batch.records]


def read_on(
    parts: CallParts, batch: call_parts.RecordBatch | None = None
) -> call_parts.RecordBatch:
    return read_batch(str(parts.path), batch.parts if batch else {})


def test_without_records_there_is_nothing_to_read(tmp_path: Path) -> None:
    batch = read_batch(str(tmp_path / "calls"), {})

    assert batch.is_last
    assert batch == ([], {}, 0, 0)


def test_each_record_is_read_once(parts: CallParts) -> None:
    parts.write(make_record(1), make_record(2))
    first = read_on(parts)
    parts.write(make_record(3))

    assert list_numbers(first) == [1, 2]
    assert list_numbers(read_on(parts, first)) == [3]


def test_several_parts_grow_at_the_same_time(parts: CallParts) -> None:
    parts.write(make_record(1))
    parts.write(make_record(2), part=LATER)
    first = read_on(parts)
    parts.write(make_record(3))
    parts.write(make_record(4), part=LATER)

    assert list_numbers(first) == [1, 2]
    assert list_numbers(read_on(parts, first)) == [3, 4]


def test_a_line_without_an_end_waits_for_it(parts: CallParts) -> None:
    parts.write(make_record(1), b'{"number": 2, "ti')
    first = read_on(parts)
    parts.write(b'me": 3}\n')

    assert list_numbers(first) == [1]
    assert first.is_last
    assert list_numbers(read_on(parts, first)) == [2]


@pytest.mark.parametrize(
    "line", [b"{torn\n", b"[]\n", b"\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"17\n"]
)
def test_what_is_not_a_record_is_skipped_and_counted(parts: CallParts, line: bytes) -> None:
    parts.write(make_record(1), line, make_record(2))

    batch = read_on(parts)

    assert list_numbers(batch) == [1, 2]
    assert batch.torn == 1


def test_a_batch_is_bounded_and_the_next_one_goes_on(parts: CallParts) -> None:
    parts.write(*(make_record(number) for number in range(1, 8)))
    parts.write(make_record(8), part=LATER)

    numbers: list[object] = []
    batch = read_batch(str(parts.path), {}, 3)
    while True:
        assert len(batch.records) <= 3
        numbers += list_numbers(batch)
        if batch.is_last:
            break
        batch = read_batch(str(parts.path), batch.parts, 3)

    assert numbers == list(range(1, 9))


def test_a_batch_is_bounded_in_bytes(parts: CallParts) -> None:
    parts.write(*(make_record(number, arguments="x" * 600_000) for number in range(1, 5)))

    batch = read_on(parts)

    assert list_numbers(batch) == [1, 2]
    assert not batch.is_last


def test_a_line_longer_than_any_record_does_not_stop_the_reader(
    parts: CallParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_parts, "_LONGEST", 1000)
    parts.write(b"x" * 2500 + b"\n", make_record(1))

    assert list_numbers(read_on(parts)) == [1]


def test_a_part_that_was_read_may_vanish(parts: CallParts) -> None:
    parts.write(make_record(1), b"{torn, and the last of its part")
    first = read_on(parts)
    parts.delete()
    parts.write(make_record(2), part=LATER)

    batch = read_on(parts, first)

    assert (list_numbers(batch), batch.missed) == ([2], 0)
    assert list(batch.parts) == [f"{LATER}.jsonl"]


def test_a_part_that_vanishes_unread_is_counted_once(parts: CallParts) -> None:
    parts.write(*(make_record(number) for number in range(1, 5)))
    first = read_batch(str(parts.path), {}, 2)
    parts.delete()

    second = read_on(parts, first)

    assert (first.missed, second.missed) == (0, 1)
    assert read_on(parts, second).missed == 0


def test_a_part_that_became_shorter_is_another_one(parts: CallParts) -> None:
    parts.write(make_record(1), make_record(2))
    first = read_on(parts)
    parts.delete()
    parts.write(make_record(3))

    assert list_numbers(read_on(parts, first)) == [3]


def test_what_others_may_have_written_is_not_read(parts: CallParts, tmp_path: Path) -> None:
    parts.write(make_record(1))
    (parts.path / "20261118-110501.jsonl").chmod(0o622)
    parts.write(make_record(2), part="notes")
    other = tmp_path / "other.jsonl"
    other.write_text('{"number": 3}\n', encoding="utf-8")
    (parts.path / "20261118-110502.jsonl").symlink_to(other)

    assert read_on(parts).records == []
    (parts.path / "20261118-110501.jsonl").chmod(0o600)
    assert list_numbers(read_on(parts)) == [1]
    parts.path.chmod(0o777)
    assert read_on(parts).records == []


def test_a_position_is_where_the_next_line_begins(parts: CallParts) -> None:
    parts.write(b"{}\n", b"{}\n", b"{}")

    assert read_on(parts).parts == {"20261118-110501.jsonl": Reach(6, 6)}
