"""Files that Git tracks are shared with others; asking Git runs nothing that a repository names."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from command_line import run_command
from git_repository import GIT, git

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not GIT, reason="Git is not installed")

SERVERS = json.dumps({"mcpServers": {"it": {"command": "x"}}})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a configuration file that Git tracks."""
    directory = tmp_path / "work"
    directory.mkdir()
    git(directory, "init", "-q")
    (directory / ".mcp.json").write_text(SERVERS, encoding="utf-8")
    git(directory, "add", ".mcp.json")
    git(directory, "commit", "-qm", "one")
    return directory


TRACKED = "Git tracks its file"
PERHAPS = "Git may track its file, but could not be asked"


def find_reasons(directory: Path) -> dict[str, str | None]:
    """Return why `wrap` skips the only entry of each file of a project; None: it does not."""
    done = run_command("wrap", "--json", "--dry-run", cwd=directory)
    return {
        os.path.relpath(file["file"], directory): file["entries"][0].get("reason")
        for file in json.loads(done.stdout)["files"]
    }


def test_each_worktree_and_submodule_tracks_its_own_files(repository: Path, tmp_path: Path) -> None:
    tree, outer = tmp_path / "tree", tmp_path / "outer"
    git(repository, "worktree", "add", "-q", str(tree))
    git(tree, "rm", "-q", "--cached", ".mcp.json")
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "--quiet", "add", str(repository), "inner")

    assert find_reasons(repository) == {".mcp.json": TRACKED}
    assert find_reasons(tree) == {".mcp.json": None}
    assert find_reasons(outer / "inner") == {".mcp.json": TRACKED}


def test_git_variables_around_do_not_lead_to_another_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook of another repository runs with these."""
    git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))

    assert find_reasons(repository) == {".mcp.json": TRACKED}


def say_skipped(directory: Path) -> str:
    done = run_command("wrap", "--yes", cwd=directory)
    assert (directory / ".mcp.json").read_text(encoding="utf-8") == SERVERS
    return " ".join(done.stdout.split())


def test_without_git_a_file_in_a_repository_is_not_wrapped_until_it_is_named(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    said = say_skipped(repository)

    assert "1 in files that Git may track" in said
    assert "Git is missing or gave no answer. To wrap it, too: mcp-launch wrap --file " in said
    done = run_command("wrap", "--yes", "--file", ".mcp.json", cwd=repository)
    assert done.returncode == 0
    assert "mcp-launch" in (repository / ".mcp.json").read_text(encoding="utf-8")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_repository_that_git_refuses_leaves_a_file_as_it_is(
    repository: Path,
) -> None:
    """Git does not read the repositories of other users (`safe.directory`)."""
    for path in (repository, repository / ".git"):
        os.chown(path, 4711, -1)

    assert "1 in files that Git may track" in say_skipped(repository)


def test_an_index_that_git_cannot_read_leaves_a_file_as_it_is(repository: Path) -> None:
    (repository / ".git" / "index").write_bytes(b"DIRC")

    assert "1 in files that Git may track" in say_skipped(repository)


def test_nothing_that_a_repository_names_is_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "it ran"
    programs = repository / "bin"
    programs.mkdir()
    (programs / "program").write_text(f"#!/bin/sh\necho $0 >> '{mark}'\n", encoding="utf-8")
    (programs / "program").chmod(0o700)
    for name in ("git", "post-index-change", "pre-auto-gc"):
        shutil.copy2(programs / "program", programs / name)
    # The tree of .cursor is not there: to look into it, Git would fetch it.
    inner = repository / ".cursor" / "mcp.json"
    inner.parent.mkdir()
    inner.write_text(SERVERS, encoding="utf-8")
    git(repository, "add", ".cursor")
    git(repository, "commit", "-qm", "two")
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "with")
    trees = git(repository, "ls-files", "--sparse", "-s", ".cursor")
    [tree] = [line.split()[1] for line in trees.splitlines()]
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    inner.parent.mkdir(exist_ok=True)
    inner.write_text(SERVERS, encoding="utf-8")
    program = str(programs / "program")
    for key, value in {
        "alias.ls-files": f"!{program}",
        "core.fsmonitor": program,
        "core.hooksPath": str(programs),
        "core.pager": program,
        "core.sshCommand": program,
        "pager.ls-files": program,
        "remote.origin.url": "ssh://nowhere/x",
        "remote.origin.promisor": "true",
        "remote.origin.partialclonefilter": "tree:0",
        "remote.origin.uploadpack": program,
        "extensions.partialclone": "origin",
    }.items():
        git(repository, "config", key, value)
    mark.unlink(missing_ok=True)
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs), ".", "bin", os.environ["PATH"]]))

    found = find_reasons(repository)

    assert not mark.exists(), mark.read_text(encoding="utf-8")
    assert found == {".mcp.json": TRACKED, ".cursor/mcp.json": PERHAPS}
