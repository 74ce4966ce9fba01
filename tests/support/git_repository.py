"""A repository that tracks some files, written without Git."""

from __future__ import annotations

import hashlib
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# The fields of an entry before its name: times, device, mode, owner and size, which are not
# used here; then the object, and the name's length.
_ENTRY = struct.Struct(">40s20sH")


def track(project: Path, *names: str) -> None:
    """Make a directory a repository that tracks these files."""
    directory = project / ".git"
    for inner in ("objects", "refs"):
        (directory / inner).mkdir(parents=True, exist_ok=True)
    (directory / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    tracked = sorted(os.fsencode(os.path.relpath(project / name, project)) for name in names)
    content = struct.pack(">4sII", b"DIRC", 2, len(tracked))
    content += b"".join(_make_entry(name) for name in tracked)
    (directory / "index").write_bytes(content + hashlib.sha1(content).digest())  # noqa: S324


def _make_entry(name: bytes) -> bytes:
    entry = _ENTRY.pack(bytes(40), bytes(20), len(name)) + name
    return entry + bytes(8 - len(entry) % 8)  # at least one zero, to a multiple of eight


def add_worktree(project: Path, tree: Path) -> None:
    """Make a directory a worktree of a repository."""
    directory = project / ".git" / "worktrees" / tree.name
    directory.mkdir(parents=True)
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {directory}\n", encoding="utf-8")
    (directory / "gitdir").write_text(f"{tree}/.git\n", encoding="utf-8")
    (directory / "commondir").write_text("../..\n", encoding="utf-8")
    (directory / "HEAD").write_text("ref: refs/heads/tree\n", encoding="utf-8")
