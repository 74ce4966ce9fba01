"""A file has its old content or its new one, and nothing is left beside it."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import TYPE_CHECKING

import pytest

from mcp_launch import state
from mcp_launch.config_files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

# No system has so many processes.
NOBODY = 1 << 30


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "place" / "file"
    path.parent.mkdir()
    path.write_bytes(b"old")
    path.chmod(0o640)
    return path


def list_names(file: Path) -> list[str]:
    return [path.name for path in file.parent.iterdir()]


@pytest.mark.parametrize("is_lasting", [True, False])
def test_a_file_gets_another_content(file: Path, *, is_lasting: bool) -> None:
    assert state.write_whole(str(file), b"new", is_lasting=is_lasting)

    assert file.read_bytes() == b"new"
    assert list_names(file) == ["file"]


def test_a_file_is_made_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "made"

    assert state.write_whole(str(file), b"new")

    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_can_be_like_the_one_before(file: Path) -> None:
    assert state.write_whole(str(file), b"new", like=file.stat())

    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_link_is_replaced_and_not_followed(file: Path) -> None:
    link = file.parent / "link"
    link.symlink_to(file)

    assert state.write_whole(str(link), b"new")

    assert (link.read_bytes(), file.read_bytes()) == (b"new", b"old")


def test_readers_see_no_part_of_it(file: Path) -> None:
    seen = []

    def look() -> bool:
        seen.append(file.read_bytes())
        return True

    assert state.write_whole(str(file), b"new", is_wanted=look)

    assert seen == [b"old"]


def test_what_is_not_wanted_any_more_is_not_written(file: Path) -> None:
    assert not state.write_whole(str(file), b"new", is_wanted=lambda: False)

    assert file.read_bytes() == b"old"
    assert list_names(file) == ["file"]


@pytest.mark.parametrize("failing", ["write", "fsync", "chmod", "replace"])
def test_a_failure_leaves_the_file_as_it_was(
    failing: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.ENOSPC))):
        state.write_whole(str(file), b"new", like=file.stat(), is_lasting=True)
    monkeypatch.undo()

    assert file.read_bytes() == b"old"
    assert list_names(file) == ["file"]


def test_a_disk_that_takes_a_part_at_a_time_gets_all_parts(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, data[:1]))

    assert state.write_whole(str(file), b"new")

    assert file.read_bytes() == b"new"


def test_a_draft_is_known_by_its_name_and_abandoned_when_its_writer_has_ended(file: Path) -> None:
    drafts: list[str] = []

    def look() -> bool:
        drafts.extend(name for name in list_names(file) if name != "file")
        return True

    state.write_whole(str(file), b"new", is_wanted=look)

    [draft] = drafts
    assert not replace_file.is_abandoned(draft)
    assert replace_file.is_abandoned(draft.replace(f"-{os.getpid()}-", f"-{NOBODY}-"))
    assert not replace_file.is_abandoned("file")
