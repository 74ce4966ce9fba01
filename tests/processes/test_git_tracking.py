"""Whether Git tracks a file, found out without Git: the same as Git says, and nothing is run."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_launch.config_files import git_tracking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GIT = shutil.which("git") or ""

needs_git = pytest.mark.skipif(not GIT, reason="Git is not installed")


def git(directory: Path, *words: str) -> str:
    given = ("protocol.file.allow=always", "user.name=x", "user.email=x")
    done = subprocess.run(
        [GIT, *(word for one in given for word in ("-c", one)), *words],
        cwd=directory,
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return os.fsdecode(done.stdout)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with some files of which some are tracked."""
    directory = tmp_path / "work"
    directory.mkdir()
    git(directory, "init", "-q")
    fill(directory)
    git(directory, "add", "a.json", "sub", "with")
    git(directory, "commit", "-qm", "one")
    return directory


def fill(directory: Path) -> None:
    for name in ("a.json", "b.json", "sub/a.json", "sub/below/c.json", "with/\u00e4\n x.json"):
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}", encoding="utf-8")


def compare(directory: Path) -> dict[str, str]:
    """Return our answer for every file, which is also Git's."""
    tracked = set(git(directory, "ls-files", "-z").split("\0"))
    answers: dict[str, str] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_file() and ".git" not in path.relative_to(directory).parts:
            answers[name] = git_tracking.judge(str(path))
            assert answers[name] == ("yes" if name in tracked else "no"), name
    return answers


ODD: dict[str, Callable[[Path], object]] = {
    "plain": lambda _: None,
    "version 4": lambda here: git(here, "update-index", "--index-version", "4"),
    "split": lambda here: git(here, "update-index", "--split-index"),
    "removed": lambda here: git(here, "rm", "-q", "--cached", "a.json"),
    "without a checksum": lambda here: git(here, "-c", "index.skipHash=true", "add", "b.json"),
    "intent to add": lambda here: git(here, "add", "-N", "b.json"),
    "skipped": lambda here: git(here, "update-index", "--skip-worktree", "sub/a.json"),
}


@needs_git
@pytest.mark.parametrize("make", ODD.values(), ids=list(ODD))
def test_a_file_is_tracked_if_git_says_so(repository: Path, make: Callable[[Path], object]) -> None:
    make(repository)

    assert "yes" in compare(repository).values()


@needs_git
def test_a_split_index_is_read_with_its_base(repository: Path) -> None:
    for at in range(200):
        (repository / f"many-{at}.json").write_text("{}", encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "update-index", "--split-index")
    git(repository, "rm", "-q", "--cached", "a.json", "many-7.json", "many-150.json")
    (repository / "new.json").write_text("{}", encoding="utf-8")
    git(repository, "add", "new.json")
    (repository / "many-9.json").write_text("changed", encoding="utf-8")
    git(repository, "add", "many-9.json")
    assert list((repository / ".git").glob("sharedindex.*"))

    answers = compare(repository)

    assert (answers["a.json"], answers["new.json"], answers["many-9.json"]) == ("no", "yes", "yes")


@needs_git
def test_of_a_directory_that_a_sparse_index_lists_as_one_nothing_is_known(
    repository: Path,
) -> None:
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "with")
    assert not (repository / "sub" / "a.json").exists()
    (repository / "sub").mkdir(exist_ok=True)
    file = repository / "sub" / "a.json"
    file.write_text("{}", encoding="utf-8")

    assert git_tracking.judge(str(file)) == "unknown"
    assert git_tracking.is_tracked(str(file))
    assert git_tracking.judge(str(repository / "a.json")) == "yes"
    assert git_tracking.judge(str(repository / "b.json")) == "no"


@needs_git
def test_a_worktree_has_an_index_of_its_own(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(repository, "worktree", "add", "-q", str(other))
    git(other, "rm", "-q", "--cached", "a.json")
    git(other, "update-index", "--split-index")

    assert compare(other)["a.json"] == "no"
    assert compare(repository)["a.json"] == "yes"


@needs_git
def test_a_submodule_has_an_index_of_its_own(repository: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "--quiet", "add", str(repository), "inner")
    (outer / "inner" / "b.json").write_text("{}", encoding="utf-8")

    assert compare(outer / "inner") == compare(repository)


@needs_git
def test_a_repository_of_the_newer_hash_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256", "new")
    fill(tmp_path / "new")
    git(tmp_path / "new", "add", "sub")
    git(tmp_path / "new", "update-index", "--split-index")

    assert compare(tmp_path / "new")["sub/a.json"] == "yes"


@needs_git
def test_a_conflict_is_tracked(repository: Path) -> None:
    git(repository, "checkout", "-qb", "other")
    (repository / "a.json").write_text("1", encoding="utf-8")
    git(repository, "commit", "-qam", "two")
    git(repository, "checkout", "-q", "-")
    (repository / "a.json").write_text("2", encoding="utf-8")
    git(repository, "commit", "-qam", "three")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", "-q", "other")

    assert compare(repository)["a.json"] == "yes"


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1)
PATHS = st.lists(NAMES.filter(lambda name: name.strip(". ") != "" and len(name) < 60), max_size=3)


@needs_git
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    paths=st.lists(PATHS.filter(bool), min_size=1, max_size=8),
    later=st.integers(0, 8),
    version=st.sampled_from(["2", "4"]),
    kind=st.sampled_from(["--split-index", "--no-split-index"]),
)
def test_whatever_files_are_called_we_say_what_git_says(
    tmp_path_factory: pytest.TempPathFactory,
    paths: list[list[str]],
    later: int,
    version: str,
    kind: str,
) -> None:
    here = tmp_path_factory.mktemp("any")
    git(here, "init", "-q")
    made = []
    for parts in paths:
        file = here.joinpath(*parts)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}", encoding="utf-8")
        except OSError:
            continue  # a file is there already, or a directory
        made.append(str(file.relative_to(here)))
    words = ["update-index", "--index-version", version, kind, "--add"]
    git(here, *words, "--", *made[:-1])
    git(
        here,
        "--literal-pathspecs",
        "rm",
        "-q",
        "--cached",
        "--ignore-unmatch",
        "--",
        *made[later : later + 2],
        "x",
    )
    git(here, "update-index", "--add", "--", *made[-1:])

    compare(here)


@needs_git
def test_a_work_tree_may_be_elsewhere(repository: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / 'else "where'
    elsewhere.mkdir()
    git(repository, "config", "core.worktree", str(elsewhere))

    assert git_tracking.judge(str(repository / "a.json")) == "no"


@needs_git
def test_a_link_is_what_it_leads_to(repository: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}", encoding="utf-8")
    (repository / "link.json").symlink_to(outside)
    git(repository, "add", "link.json")
    link = tmp_path / "link.json"
    link.symlink_to(repository / "a.json")

    assert git_tracking.judge(str(repository / "link.json")) == "no"
    assert git_tracking.judge(str(link)) == "yes"


@needs_git
def test_without_git_a_file_is_still_known_to_be_tracked(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert git_tracking.is_tracked(str(repository / "a.json"))
    assert not git_tracking.is_tracked(str(repository / "b.json"))


@needs_git
def test_nothing_that_a_repository_names_is_run(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\nexit 1\n", encoding="utf-8")
    program.chmod(0o700)
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "with")
    for key, value in {
        "core.fsmonitor": str(program),
        "core.sshCommand": str(program),
        "core.hooksPath": str(tmp_path),
        "remote.origin.url": "ssh://nowhere/x",
        "remote.origin.promisor": "true",
        "remote.origin.partialclonefilter": "tree:0",
        "extensions.partialclone": "origin",
    }.items():
        git(repository, "-c", "core.fsmonitor=", "config", key, value)
    trees = git(repository, "-c", "core.fsmonitor=", "ls-files", "--sparse", "-s", "sub")
    [tree] = [line.split()[1] for line in trees.splitlines()]
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    mark.unlink(missing_ok=True)

    answers = [git_tracking.judge(str(repository / name)) for name in ("sub/a.json", "a.json")]

    assert not mark.exists()
    assert answers == ["unknown", "yes"]


@needs_git
@pytest.mark.parametrize(
    "damage", ["cut", "flipped", "empty", "a pipe", "a directory", "base gone"]
)
def test_an_index_that_cannot_be_read_leaves_it_unknown(repository: Path, damage: str) -> None:
    index = repository / ".git" / "index"
    git(repository, "update-index", "--split-index")
    content = index.read_bytes()
    if damage == "cut":
        index.write_bytes(content[:-7])
    elif damage == "flipped":
        index.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    elif damage == "empty":
        index.write_bytes(b"")
    elif damage == "base gone":
        [base] = (repository / ".git").glob("sharedindex.*")
        base.unlink()
    else:
        index.unlink()
        if damage == "a pipe":
            os.mkfifo(index)
        else:
            index.mkdir()

    assert git_tracking.judge(str(repository / "a.json")) == "unknown"
    assert git_tracking.is_tracked(str(repository / "a.json"))
