"""The records of calls: parts that many launches append to."""

from __future__ import annotations

import os
import time
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


def test_launches_append_to_one_part_that_only_the_user_can_read(directory: str) -> None:
    log = CallLog(directory)
    assert log.append(b"1\n")
    assert log.append(b"2\n")
    assert CallLog(directory).append(b"3\n")

    [part] = list_parts(directory)
    assert read_all(directory) == b"1\n2\n3\n"
    assert os.stat(part).st_mode & 0o777 == 0o600
    assert os.stat(directory).st_mode & 0o777 == 0o700

    os.unlink(part)
    assert log.append(b"4\n")
    assert read_all(directory) == b"4\n"


def test_a_full_part_is_followed_by_another_until_the_oldest_make_room(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "PART_LIMIT", 10)
    monkeypatch.setattr(calls, "KEPT_IN_ALL", 40)
    log = CallLog(directory)

    for number in range(4):
        assert log.append(b"%09d\n" % number)
    assert sorted(read_all(directory).split()) == [b"%09d" % number for number in range(4)]
    for number in range(4, 20):
        assert log.append(b"%09d\n" % number)

    kept = read_all(directory).split()
    assert len(kept) <= 4
    assert b"%09d" % 19 in kept
    assert b"%09d" % 0 not in kept


@pytest.mark.parametrize(
    ("age", "left"), [(0, b"0\n1\n"), (15 * 86_400, b"1\n")], ids=["of yesterday", "too old"]
)
def test_an_earlier_part_is_followed_by_another(age: int, left: bytes, directory: str) -> None:
    os.makedirs(directory)
    old = Path(directory, "20200101-000000.jsonl")
    old.write_bytes(b"0\n")
    os.utime(old, (time.time() - age,) * 2)

    CallLog(directory).append(b"1\n")

    assert read_all(directory) == left


@pytest.mark.parametrize("is_link", [True, False], ids=["a link", "somebody else's"])
def test_what_may_not_be_a_part_of_ours_is_left_alone(
    directory: str, tmp_path: Path, *, is_link: bool
) -> None:
    os.makedirs(directory)
    foreign = Path(directory, "29990101-000000.jsonl")
    if is_link:
        foreign.symlink_to(tmp_path / "elsewhere")
    foreign.write_bytes(b"")
    foreign.chmod(0o600 if is_link else 0o660)

    assert CallLog(directory).append(b"1\n")

    assert foreign.read_bytes() == b""
    assert b"1\n" in [Path(part).read_bytes() for part in list_parts(directory)]


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
