"""A repository that tracks some files."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

GIT = shutil.which("git") or ""


def git(directory: Path, *words: str) -> str:
    """Run Git, and return what it prints."""
    given = ("protocol.file.allow=always", "user.name=x", "user.email=x", "core.fsmonitor=")
    done = subprocess.run(
        [GIT, *(word for one in given for word in ("-c", one)), *words],
        cwd=directory,
        check=True,
        capture_output=True,
        env={"PATH": os.defpath, "HOME": os.environ["HOME"], "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return os.fsdecode(done.stdout)


def track(project: Path, *names: str) -> None:
    """Make a directory a repository that tracks these files, whether they exist or not."""
    project.mkdir(parents=True, exist_ok=True)
    git(project, "init", "-q")
    for name in names:
        blob = f"100644,{'1' * 40},{os.path.relpath(project / name, project)}"
        git(project, "update-index", "--add", "--cacheinfo", blob)


def add_worktree(project: Path, tree: Path) -> None:
    """Make a directory a worktree of a repository."""
    directory = project / ".git" / "worktrees" / tree.name
    directory.mkdir(parents=True)
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {directory}\n", encoding="utf-8")
    (directory / "gitdir").write_text(f"{tree}/.git\n", encoding="utf-8")
    (directory / "commondir").write_text("../..\n", encoding="utf-8")
    (directory / "HEAD").write_text("ref: refs/heads/tree\n", encoding="utf-8")
