"""The records of calls: parts that many launches append to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_launch.state import calls
from mcp_launch.state.calls import CallLog, list_parts


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Return the directory of the records, which does not exist yet."""
    return str(tmp_path / "state" / "calls")


def read_all(directory: str) -> bytes:
    return b"".join(Path(part).read_bytes() for part in list_parts(directory))


def test_lines_are_appended_to_one_part_that_only_the_user_can_read(directory: str) -> None:
    log = CallLog(directory)

    assert log.append(b"1\n")
    assert log.append(b"2\n")

    [part] = list_parts(directory)
    assert read_all(directory) == b"1\n2\n"
    assert os.stat(part).st_mode & 0o777 == 0o600
    assert os.stat(directory).st_mode & 0o777 == 0o700


def test_another_launch_appends_to_the_same_part(directory: str) -> None:
    CallLog(directory).append(b"1\n")
    CallLog(directory).append(b"2\n")

    assert len(list_parts(directory)) == 1
    assert read_all(directory) == b"1\n2\n"


def test_a_full_part_is_followed_by_another(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "PART_LIMIT", 10)
    log = CallLog(directory)

    for number in range(5):
        assert log.append(b"%d23456789\n" % number)

    assert len(list_parts(directory)) == 5
    assert sorted(read_all(directory).splitlines()) == [b"%d23456789" % n for n in range(5)]


def test_a_part_of_yesterday_is_followed_by_another(directory: str) -> None:
    os.makedirs(directory)
    old = f"{directory}/20200101-000000.jsonl"
    with open(old, "wb") as file:
        file.write(b"0\n")

    CallLog(directory).append(b"1\n")

    assert len(list_parts(directory)) == 2
    assert read_all(directory) == b"0\n1\n"


def test_the_oldest_parts_make_room(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PART_LIMIT", 10)
    monkeypatch.setattr(calls, "KEPT_IN_ALL", 40)
    log = CallLog(directory)

    for number in range(20):
        assert log.append(b"%09d\n" % number)

    kept = read_all(directory).split()
    assert len(kept) <= 4
    assert b"%09d" % 19 in kept
    assert b"%09d" % 0 not in kept


def test_parts_older_than_two_weeks_are_removed(directory: str) -> None:
    os.makedirs(directory)
    old = f"{directory}/20200101-000000.jsonl"
    with open(old, "wb") as file:
        file.write(b"0\n")
    os.utime(old, (0, 0))

    CallLog(directory).append(b"1\n")

    assert read_all(directory) == b"1\n"


def test_a_part_that_was_removed_is_followed_by_another(directory: str) -> None:
    log = CallLog(directory)
    log.append(b"1\n")
    for part in list_parts(directory):
        os.unlink(part)

    assert log.append(b"2\n")

    assert read_all(directory) == b"2\n"


def test_a_part_of_somebody_else_is_left_alone(directory: str) -> None:
    os.makedirs(directory)
    foreign = f"{directory}/29990101-000000.jsonl"
    with open(foreign, "wb") as file:
        file.write(b"")
    os.chmod(foreign, 0o660)

    CallLog(directory).append(b"1\n")

    with open(foreign, "rb") as file:
        assert file.read() == b""
    assert read_all(directory) == b"1\n"


def test_a_link_in_place_of_a_part_is_not_followed(directory: str, tmp_path: Path) -> None:
    os.makedirs(directory)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"")
    os.symlink(elsewhere, f"{directory}/29990101-000000.jsonl")

    assert CallLog(directory).append(b"1\n")

    assert elsewhere.read_bytes() == b""


def test_records_are_lost_where_there_is_no_directory_for_them(directory: str) -> None:
    os.makedirs(os.path.dirname(directory))
    with open(directory, "wb"):
        pass

    assert not CallLog(directory).append(b"1\n")


def test_a_line_after_one_that_was_cut_off_begins_anew(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that is full for a moment."""
    log = CallLog(directory)
    log.append(b"1\n")
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
        assert not log.append(b"22222\n")
    monkeypatch.setattr(calls, "_clock", lambda: 1e9)

    assert log.append(b"3\n")

    assert read_all(directory) == b"1\n222\n3\n"


def test_a_slow_disk_gets_no_records_for_a_while(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 1.0, 1.0, 30.0, 100.0, 100.0])
    monkeypatch.setattr(calls, "_clock", lambda: next(times))
    log = CallLog(directory)

    assert log.append(b"1\n")
    assert not log.append(b"2\n")
    assert log.append(b"3\n")

    assert read_all(directory) == b"1\n3\n"
