"""Indexes of Git that are damaged, or of no repository."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_launch.config_files import git_index, git_tracking

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_in_no_repository_is_not_tracked(project: Path) -> None:
    """The project's `.git` is an empty directory."""
    assert git_tracking.judge(str(project / "a.json")) == "no"


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: nowhere", "x" * 2_000_000])
def test_a_repository_that_cannot_be_found_leaves_it_unknown(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text, encoding="utf-8")

    assert git_tracking.judge(str(tmp_path / "a.json")) == "unknown"


def seal(content: bytes) -> bytes:
    return content + hashlib.sha1(content, usedforsecurity=False).digest()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=300), version=st.sampled_from([2, 3, 4, 5]), count=st.integers(0, 9))
def test_any_bytes_are_an_answer_or_unreadable(
    tmp_path: Path, body: bytes, version: int, count: int
) -> None:
    (tmp_path / "index").write_bytes(seal(struct.pack(">4sII", b"DIRC", version, count) + body))

    try:
        assert git_index.look_up(str(tmp_path), "sha1", b"a") in {"yes", "no", "unknown"}
    except git_index.IndexUnreadable:
        pass  # that is an answer, too


def test_names_that_grow_without_end_are_not_read(tmp_path: Path) -> None:
    """Each entry of version 4 repeats the one before it, and adds a little."""
    entry = bytes(60) + b"\x00\x00" + b"\x00" + b"a" * 1000 + b"\x00"
    (tmp_path / "index").write_bytes(seal(struct.pack(">4sII", b"DIRC", 4, 9) + entry * 9))

    with pytest.raises(git_index.IndexUnreadable, match="too long"):
        git_index.look_up(str(tmp_path), "sha1", b"a")


@pytest.mark.parametrize(("hash_format", "why"), [("sha3", "object format"), ("sha256", "damaged")])
def test_another_hash_is_not_taken_for_this_one(tmp_path: Path, hash_format: str, why: str) -> None:
    (tmp_path / "index").write_bytes(seal(struct.pack(">4sII", b"DIRC", 2, 0) + bytes(40)))

    with pytest.raises(git_index.IndexUnreadable, match=why):
        git_index.look_up(str(tmp_path), hash_format, b"a")


def test_an_extension_that_is_needed_and_not_known_leaves_it_unknown(tmp_path: Path) -> None:
    content = struct.pack(">4sII4sI", b"DIRC", 2, 0, b"newx", 0)
    (tmp_path / "index").write_bytes(seal(content))

    with pytest.raises(git_index.IndexUnreadable, match="unknown"):
        git_index.look_up(str(tmp_path), "sha1", b"a")
