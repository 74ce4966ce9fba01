"""Files that others get, the copies of files, and the record of what was wrapped where."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from typing import TYPE_CHECKING

import pytest
from command_line import Done, run_command
from git_repository import track
from privileges import run_unprivileged
from wrap_requests import TEXT, find_script, write

from mcp_launch import main
from mcp_launch import state as state_directory
from mcp_launch.config_files import wrapped_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Above the largest pid of any Linux.
NO_PID = (1 << 22) + 1


def run(*words: str) -> Done:
    return run_command(*words, "--yes")


def read_command(path: Path) -> str:
    entry = json.loads(path.read_text(encoding="utf-8"))["mcpServers"]["it"]
    return str(entry["command"])


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return our state directory, which does not exist yet."""
    return tmp_path / "state"


@pytest.fixture
def shared(project: Path) -> Path:
    """Return a file that Git tracks."""
    path = write(project / ".mcp.json")
    track(project, ".mcp.json")
    return path


@pytest.fixture
def wrapped(project: Path) -> Path:
    """Return a wrapped file of the project in which we are."""
    path = write(project / ".mcp.json")
    assert run("wrap").returncode == 0
    return path


@pytest.fixture
def elsewhere(wrapped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a wrapped file of another project than the one in which we are."""
    (tmp_path / "here" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    return wrapped


def list_copies(state: Path) -> list[Path]:
    return sorted((state / "backups").iterdir()) if (state / "backups").exists() else []


def list_recorded(state: Path) -> list[str]:
    """Return the files that are recorded as wrapped."""
    files: dict[str, object] = json.loads((state / "wrapped.json").read_text(encoding="utf-8"))[
        "files"
    ]
    return sorted(files)


def test_a_tracked_file_is_skipped_and_the_way_to_include_it_is_said(
    shared: Path, own_home: Path
) -> None:
    own = write(own_home / ".cursor" / "mcp.json")

    done = run("wrap")

    assert done.returncode == 0
    assert shared.read_text(encoding="utf-8") == TEXT
    assert read_command(own) == find_script()
    assert "Skipped: 1 in files that Git tracks.\n" in done.stdout
    assert f"Skipped {shared}: Git tracks it" in done.stdout
    assert f"mcp-launch wrap --file {shared}\n" in done.stdout


def test_a_tracked_file_that_is_named_is_wrapped_by_the_bare_name(shared: Path) -> None:
    wrapping = run("wrap", "--file", str(shared))

    assert wrapping.returncode == 0
    assert f"{shared} is tracked by Git" in wrapping.stdout
    assert read_command(shared) == "mcp-launch"
    unwrapping = run("unwrap")  # undoing needs no permission
    assert shared.read_text(encoding="utf-8") == TEXT
    assert f"Git tracks {shared}: if it was committed with mcp-launch in it" in unwrapping.stdout
    assert "committing this removes mcp-launch for others" in unwrapping.stdout


def test_a_path_of_this_machine_in_a_tracked_file_becomes_the_bare_name(wrapped: Path) -> None:
    text = wrapped.read_text(encoding="utf-8")
    track(wrapped.parent, ".mcp.json")
    assert run("wrap").returncode == 0
    assert wrapped.read_text(encoding="utf-8") == text

    assert run("wrap", "--file", str(wrapped)).returncode == 0

    assert wrapped.read_text(encoding="utf-8") == text.replace(find_script(), "mcp-launch")


@pytest.mark.usefixtures("project")
def test_a_file_in_the_home_that_git_tracks_is_shared_too(own_home: Path) -> None:
    dotfiles = own_home / "dotfiles"
    real = write(dotfiles / "mcp.json")
    track(dotfiles, "mcp.json")
    (own_home / ".cursor").mkdir()
    (own_home / ".cursor" / "mcp.json").symlink_to(real)

    assert run("wrap").returncode == 0

    assert real.read_text(encoding="utf-8") == TEXT


def test_a_copy_is_kept_in_our_own_directory_for_the_user_alone(project: Path, state: Path) -> None:
    write(project / ".mcp.json").chmod(0o644)

    done = run("wrap", "--verbose")

    [copy] = list_copies(state)
    assert copy.read_text(encoding="utf-8") == TEXT
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    assert f"a copy of the original is in {copy}" in done.stdout
    assert sorted(one.name for one in project.iterdir()) == [".git", ".mcp.json"]


@pytest.mark.usefixtures("project")
def test_a_copy_goes_with_the_last_unwrap_though_its_host_has_rewritten_the_file(
    own_home: Path, state: Path
) -> None:
    servers = {"a": {"command": "x", "args": []}, "b": {"command": "y", "args": []}}
    path = write(own_home / ".claude.json", json.dumps({"mcpServers": servers}))
    assert run("wrap").returncode == 0
    [copy] = list_copies(state)
    value = json.loads(path.read_text(encoding="utf-8"))
    write(path, json.dumps(value | {"numStartups": 7}, indent=2))

    assert run("unwrap", "a").returncode == 0
    assert copy.exists()  # something of ours is left
    assert f"removed its copy {copy}" in run("unwrap", "-v").stdout

    assert not copy.exists()
    assert json.loads(path.read_text(encoding="utf-8"))["mcpServers"] == servers
    assert list_recorded(state) == []


def test_a_copy_is_replaced_or_removed_where_somebody_else_took_us_out(
    wrapped: Path, state: Path
) -> None:
    later = TEXT.replace('"1"', '"2"')
    write(wrapped, later)  # by hand
    assert run("wrap").returncode == 0
    [copy] = list_copies(state)
    assert copy.read_text(encoding="utf-8") == later

    write(wrapped, TEXT)
    assert run("unwrap").returncode == 0
    assert list_copies(state) == []
    assert list_recorded(state) == []


def test_two_copies_of_files_of_the_same_name_do_not_meet(
    wrapped: Path, own_home: Path, state: Path
) -> None:
    assert wrapped.exists()
    write(own_home / ".codex" / ".mcp.json")
    other = write(own_home / ".warp" / ".mcp.json", TEXT.replace("1", "2"))

    assert run("wrap").returncode == 0

    assert other.read_text(encoding="utf-8") != TEXT
    texts = {copy.read_text(encoding="utf-8") for copy in list_copies(state)}
    assert texts == {TEXT, TEXT.replace("1", "2")}


def test_a_link_in_place_of_the_copy_is_not_followed(
    wrapped: Path, state: Path, tmp_path: Path
) -> None:
    [copy] = list_copies(state)
    assert run("unwrap").returncode == 0
    copy.symlink_to(tmp_path / "precious")

    assert run("wrap").returncode == 0

    assert not (tmp_path / "precious").exists()
    assert read_command(wrapped) == find_script()


def test_unwrap_says_what_stays_wrapped_elsewhere_and_all_undoes_it(
    elsewhere: Path, state: Path
) -> None:
    said = run("unwrap").stdout
    assert f"1 other file is still wrapped: {elsewhere}." in said
    assert "mcp-launch unwrap --all" in said
    assert json.loads(run("unwrap", "--json").stdout)["still_wrapped"] == [str(elsewhere)]

    done = json.loads(run("unwrap", "--all", "--json").stdout)

    assert done["still_wrapped"] == []
    assert elsewhere.read_text(encoding="utf-8") == TEXT
    assert list_copies(state) == []


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_wrapped_file_that_was_away_for_a_while_is_still_known(
    everywhere: bool, elsewhere: Path, tmp_path: Path, state: Path
) -> None:
    [copy] = list_copies(state)
    away = elsewhere.rename(tmp_path / "stash")

    assert run("unwrap", *["--all"] * everywhere).returncode == 0
    away.rename(elsewhere)

    assert copy.exists()
    assert run("unwrap", "--all").returncode == 0
    assert elsewhere.read_text(encoding="utf-8") == TEXT
    assert list_copies(state) == []


def test_unwrapping_everything_names_a_file_that_is_gone(elsewhere: Path, state: Path) -> None:
    [copy] = list_copies(state)
    shutil.rmtree(elsewhere.parent)
    told = f"{elsewhere} was wrapped and is gone"
    named = run("unwrap", "--file", str(elsewhere))
    assert named.returncode == 2
    assert told in named.stderr
    assert "mcp-launch unwrap --file NEWPATH" in named.stderr

    assert told not in run("unwrap").stdout
    assert told not in run("unwrap", "--all", "--host", "codex").stdout
    said = run("unwrap", "--all").stdout

    assert told in said
    assert "mcp-launch unwrap --file NEWPATH" in said
    assert f"A copy of the original is in {copy}" in said


def test_a_file_in_a_directory_that_is_closed_is_not_taken_for_gone(tmp_path: Path) -> None:
    path = write(tmp_path / "closed" / "x.json")
    path.parent.chmod(0)

    is_gone = run_unprivileged(lambda: wrapped_files.is_gone(str(path)))

    path.parent.chmod(0o700)
    assert not is_gone


@pytest.mark.parametrize("command", ["wrap", "unwrap"])
def test_a_deleted_working_directory_is_said(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = tmp_path / "deleted"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()

    assert main([command]) == 2
    assert "the current directory was deleted" in capsys.readouterr().err
    # Whoever asks only what runs need not be anywhere.
    assert main(["ps"]) == 0


@pytest.mark.usefixtures("project")
def test_what_was_wrapped_by_hand_is_recorded(project: Path, state: Path) -> None:
    entry = {"command": "mcp-launch", "args": ["run", "--", "x"]}
    path = write(project / ".mcp.json", json.dumps({"mcpServers": {"it": entry}}))

    assert run("wrap").returncode == 0

    assert list_recorded(state) == [str(path)]


def test_the_record_is_private_and_keeps_what_it_does_not_know(
    wrapped: Path, own_home: Path, state: Path
) -> None:
    record = state / "wrapped.json"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    known = json.loads(record.read_text(encoding="utf-8"))
    known["later"] = 1
    known["files"][str(wrapped)]["more"] = [2]
    write(record, json.dumps(known))
    write(own_home / ".cursor" / "mcp.json")

    assert run("wrap").returncode == 0

    after = json.loads(record.read_text(encoding="utf-8"))
    assert after["later"] == 1
    assert after["files"][str(wrapped)]["more"] == [2]
    assert len(after["files"]) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"files": []}'])
def test_nothing_is_wrapped_while_the_record_is_damaged(
    text: str, project: Path, state: Path
) -> None:
    write(state / "wrapped.json", text)
    path = write(project / ".mcp.json")

    for words in (("unwrap", "--all"), ("wrap",)):
        said = run(*words).stderr
        assert f"{state}/wrapped.json, the record of wrapped files, is damaged" in said

    assert path.read_text(encoding="utf-8") == TEXT


@pytest.mark.parametrize("how", ["a link", "writable by others", "a pipe"])
def test_nothing_is_written_over_a_record_that_may_be_anothers(
    how: str, wrapped: Path, own_home: Path, state: Path
) -> None:
    record = state / "wrapped.json"
    before = wrapped.read_text(encoding="utf-8")
    if how == "a link":
        record.symlink_to(record.rename(state / "elsewhere"))
    elif how == "a pipe":
        record.unlink()
        os.mkfifo(record)
    else:
        record.chmod(0o666)
    other = write(own_home / ".cursor" / "mcp.json")

    wrapping, unwrapping = run("wrap"), run("unwrap", "--all")

    assert (wrapping.returncode, unwrapping.returncode) == (1, 1)
    assert f"{record}, the record of wrapped files" in wrapping.stderr
    assert f"{record}, the record of wrapped files" in unwrapping.stderr
    assert other.read_text(encoding="utf-8") == TEXT
    assert wrapped.read_text(encoding="utf-8") in {before, TEXT}


@pytest.fixture
def _shared_group() -> Iterator[None]:
    """Have a umask as where each user has a group of their own."""
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_shared_group")
@pytest.mark.parametrize("is_there", [False, True], ids=["no directory", "an open directory"])
def test_files_are_remembered_whatever_the_umask_is(
    is_there: bool, state: Path, project: Path, own_home: Path
) -> None:
    if is_there:
        state.mkdir()
        assert state.stat().st_mode & 0o020
    paths = [write(project / ".mcp.json"), write(own_home / ".cursor" / "mcp.json")]

    assert run("wrap").returncode == 0

    assert list_recorded(state) == sorted(map(str, paths))
    assert not state.stat().st_mode & 0o022
    assert run("unwrap", "--all").returncode == 0
    assert [path.read_text(encoding="utf-8") for path in paths] == [TEXT, TEXT]


def test_a_directory_that_is_open_to_everybody_on_purpose_stays_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)

    state_directory.make_directory(str(tmp_path))

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


@pytest.mark.parametrize(
    ("pid", "age", "is_swept"),
    [(NO_PID, 7200, True), (NO_PID, 10, False), (os.getpid(), 7200, False)],
    ids=["left behind", "too young", "its process lives"],
)
def test_only_a_draft_that_was_left_behind_is_removed(
    pid: int, age: float, is_swept: bool, project: Path
) -> None:
    write(project / ".mcp.json")
    draft = write(project / f".mcp-launch-draft-{pid}-{'0af' * 10}00")
    names = (".mcp-launch-old.toml", ".mcp-launch-abcd1234", f".mcp-launch-draft-{NO_PID}-short")
    mine = [write(project / name) for name in names]  # of other people
    for one in (draft, *mine):
        os.utime(one, (time.time() - age,) * 2)

    assert run("wrap").returncode == 0

    assert draft.exists() is not is_swept
    assert all(one.exists() for one in mine)


@pytest.mark.usefixtures("project")
def test_a_file_with_two_names_is_left_as_it_is(own_home: Path, state: Path) -> None:
    path = write(own_home / ".cursor" / "mcp.json")
    (own_home / "other.json").hardlink_to(path)

    done = run("wrap")

    assert done.returncode != 0
    assert "it has 2 names (hard links)" in done.stderr
    assert path.read_text(encoding="utf-8") == TEXT
    assert list_copies(state) == []
