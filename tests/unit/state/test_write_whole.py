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


@pytest.mark.parametrize("is_lasting", [True, False], ids=["lasting", "as the system likes"])
def test_a_file_gets_another_content_at_once(
    file: Path, monkeypatch: pytest.MonkeyPatch, *, is_lasting: bool
) -> None:
    seen: list[bytes] = []
    drafts: list[str] = []

    def look() -> bool:
        seen.append(file.read_bytes())
        drafts.extend(name for name in list_names(file) if name != "file")
        return True

    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:1]))  # a byte at a time
    assert state.write_whole(str(file), b"new", is_lasting=is_lasting, is_wanted=look)

    assert file.read_bytes() == b"new"
    assert list_names(file) == ["file"]
    assert seen == [b"old"]
    # A draft is known by its name, and abandoned when its writer has ended.
    [draft] = drafts
    assert not replace_file.is_abandoned(draft)
    assert replace_file.is_abandoned(draft.replace(f"-{os.getpid()}-", f"-{NOBODY}-"))
    assert not replace_file.is_abandoned("file")


def test_a_file_is_its_users_alone_or_like_the_one_before(file: Path) -> None:
    link = file.parent / "link"
    link.symlink_to(file)
    for path, like in ((file.parent / "made", None), (link, None), (file, file.stat())):
        assert state.write_whole(str(path), b"new", like=like)
        assert stat.S_IMODE(path.lstat().st_mode) == (0o640 if like else 0o600)

    assert not link.is_symlink(), "it was replaced and not followed"


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
