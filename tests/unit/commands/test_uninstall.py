"""`mcp-launch uninstall`: nothing of ours stays behind, and nothing else goes."""

from __future__ import annotations

import json
import os
import shutil
import socket
from typing import TYPE_CHECKING

import pytest
from git_repository import track
from wrap_requests import TEXT, unwrap, wrap, write

from mcp_launch.commands import output
from mcp_launch.commands import uninstall as uninstall_command
from mcp_launch.config_files import wrapped_files
from mcp_launch.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


OLD = "0123456789abcdef012345"


def uninstall(**answers: bool) -> int:
    return uninstall_command.run(os.environ, **({"is_sure": True} | answers))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return our state directory, with what a month of use leaves in it."""
    directory = tmp_path / "state"
    boot = json.dumps({"version": 1, "boot": "another", "processes": {}})
    write(directory / "leases" / f"{OLD}.json", boot)
    write(directory / "logs" / f"{OLD}.log")
    write(directory / "logs" / f"{OLD}.log.1")
    write(directory / "config.json")
    write(directory / "runners" / "0a1b2c3d0a1b2c3d")
    write(directory / "handshakes" / f"{'0a1b2c3d' * 4}-{'4e5f' * 4}.jsonl")
    write(directory / "crash-12.txt")
    write(directory / "pools" / "5f3a.json", boot)
    write(directory / "pools" / "5f3a.lock")
    with socket.socket(socket.AF_UNIX) as pool:
        pool.bind(os.path.relpath(directory / "pools" / "5f3a.sock"))
    (directory / "nowhere").mkdir()
    return directory


@pytest.fixture
def elsewhere(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a wrapped file of another project than the one we are in."""
    assert state.is_dir()
    for name in ("other", "here"):
        (tmp_path / name / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "other")
    path = write(tmp_path / "other" / ".mcp.json")
    assert wrap() == 0
    monkeypatch.chdir(tmp_path / "here")
    return path


def test_everything_is_unwrapped_and_our_state_is_gone(
    elsewhere: Path, own_home: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = write(own_home / ".cursor" / "mcp.json")
    assert wrap() == 0
    config = write(own_home / ".config" / "mcp-launch" / "config.toml", "")
    capsys.readouterr()

    assert uninstall() == 0

    said = capsys.readouterr().out
    for path in (elsewhere, own):
        assert path.read_text(encoding="utf-8") == TEXT
        assert f"\n{path} (" in f"\n{said}"
    assert not state.exists()
    assert f"Removed {state}" in said
    assert config.exists()
    assert f"Your own profiles stay: {config}" in said
    assert "To remove the program: " in said


def test_a_dry_run_changes_nothing_and_nobody_is_not_asked(elsewhere: Path, state: Path) -> None:
    before = elsewhere.read_text(encoding="utf-8")

    assert uninstall(is_sure=False, is_dry=True) == 0
    with pytest.raises(UsageError, match="cannot be asked"):
        uninstall(is_sure=False)

    assert elsewhere.read_text(encoding="utf-8") == before
    assert (state / "logs" / f"{OLD}.log").exists()


def test_what_is_not_known_to_be_ours_stays_and_is_named(
    elsewhere: Path, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert elsewhere.exists()
    mine = [write(state / name) for name in ("notes.txt", "logs/mine.log", "backups/copy.json")]
    precious = write(tmp_path / "precious" / f"{OLD}.json")
    (state / "runners" / "0a1b2c3d0a1b2c3d").unlink()
    (state / "runners").rmdir()
    (state / "runners").symlink_to(precious.parent)
    (state / "leases" / f"{OLD[::-1]}.json").symlink_to(precious)

    assert uninstall() == 0

    assert all(one.exists() for one in mine)
    assert precious.exists()
    said = capsys.readouterr().out
    for name in ("notes.txt", "logs/mine.log", "backups/copy.json"):
        assert name in said
    assert not (state / "logs" / f"{OLD}.log").exists()
    assert not (state / wrapped_files.NAME).exists()


def test_a_draft_goes_unless_its_writer_may_be_at_it(elsewhere: Path, state: Path) -> None:
    assert elsewhere.exists()
    drafts = [
        write(state / place / f".mcp-launch-draft-{pid}-{'0af' * 10}00")
        for pid in (1 << 30, os.getpid())
        for place in ("", "leases", "runners", "backups")
    ]

    assert uninstall() == 0

    assert [draft.exists() for draft in drafts] == [False] * 4 + [True] * 4


def test_copies_stay_as_long_as_something_could_not_be_unwrapped(
    elsewhere: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = elsewhere.read_text(encoding="utf-8")
    elsewhere.write_text(text[:-1], encoding="utf-8")  # somebody is in the middle of an edit

    assert uninstall() == 1

    assert [one.read_text(encoding="utf-8") for one in (state / "backups").iterdir()] == [TEXT]
    assert [file.path for _, file in wrapped_files.list_files(str(state))] == [str(elsewhere)]
    assert "run mcp-launch uninstall again" in capsys.readouterr().out
    elsewhere.write_text(text, encoding="utf-8")
    assert uninstall() == 0
    assert elsewhere.read_text(encoding="utf-8") == TEXT
    assert not state.exists()


@pytest.mark.parametrize("how", ["not believed", "damaged", "set aside", "lost"])
def test_nothing_is_done_as_long_as_it_is_not_known_what_was_wrapped(
    how: str, elsewhere: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = state / wrapped_files.NAME
    kept = record.read_text(encoding="utf-8")
    [copy] = (state / "backups").iterdir()
    if how == "not believed":
        record.chmod(0o666)
    elif how == "damaged":
        record.write_text(kept[:-9], encoding="utf-8")
    elif how == "set aside":
        record.rename(state / wrapped_files.UNREADABLE)
    else:
        record.unlink()

    assert uninstall(is_dry=True) == 1
    assert f"\n{state} will be removed" not in capsys.readouterr().out
    assert uninstall() == 1

    said = capsys.readouterr().out
    assert f"{copy} is a copy of a wrapped file" in said
    assert (str(record) in said) is (how != "lost")
    assert copy.exists()
    assert "To remove the program" not in said
    assert unwrap(files=[str(elsewhere)]) == 0
    assert not copy.exists()
    for name in (wrapped_files.NAME, wrapped_files.UNREADABLE):
        (state / name).unlink(missing_ok=True)
    assert uninstall() == 0


def test_an_entry_that_will_not_start_without_us_is_named(
    elsewhere: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert elsewhere.exists()
    entry = {"command": "uvx", "args": ["mcp-launch", "run", "--", "x"]}
    path = write(own_home / ".cursor" / "mcp.json", json.dumps({"mcpServers": {"it": entry}}))

    assert uninstall() == 1

    assert f"it in {path} still starts mcp-launch" in capsys.readouterr().out


def test_an_entry_with_an_option_that_is_not_known_stands_in_the_way(
    elsewhere: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = elsewhere.read_text(encoding="utf-8")
    text = text.replace('"x"', '"--novel", "user", "x"')
    elsewhere.write_text(text, encoding="utf-8")

    assert unwrap(is_everywhere=True) == 0
    assert "profile" not in capsys.readouterr().out
    assert uninstall() == 1

    assert "unknown option --novel" in capsys.readouterr().out
    assert elsewhere.read_text(encoding="utf-8") == text
    assert [one.read_text(encoding="utf-8") for one in (state / "backups").iterdir()] == [TEXT]
    assert [file.path for _, file in wrapped_files.list_files(str(state))] == [str(elsewhere)]


def test_a_tracked_file_is_unwrapped_too(project: Path) -> None:
    path = write(project / ".mcp.json")
    track(project, ".mcp.json")
    assert wrap(is_shared=True) == 0

    assert uninstall() == 0

    assert path.read_text(encoding="utf-8") == TEXT


def test_a_wrapped_project_that_is_gone_does_not_stand_in_the_way(
    elsewhere: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(elsewhere.parent)
    [copy] = (state / "backups").iterdir()

    assert uninstall(is_dry=True) == 0

    told = f"{elsewhere} was wrapped and is gone"
    said = capsys.readouterr().out
    assert told in said
    assert "mcp-launch unwrap --file NEWPATH" in said
    assert copy.exists()
    assert uninstall() == 0
    said = capsys.readouterr().out
    assert said.index(told) < said.index(f"Removed {copy}") < said.index(f"Removed {state}\n")
    assert not state.exists()


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_the_copy_of_a_file_that_is_gone_is_named_before_it_is_removed(
    is_forgotten: bool, elsewhere: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere.unlink()  # its project is there
    [copy] = (state / "backups").iterdir()
    if is_forgotten:
        assert unwrap(is_everywhere=True) == 0
    capsys.readouterr()

    assert uninstall(is_dry=True) == 0

    said = capsys.readouterr().out
    assert "on another branch or in a stash, bring it back first" in said
    assert f"its copy {copy} will be removed" in said
    assert copy.exists()
    assert uninstall() == 0
    assert not state.exists()


def test_a_copy_stays_whose_file_went_away_after_the_user_was_asked(
    elsewhere: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [copy] = (state / "backups").iterdir()

    def agree_late(*_: object, **__: object) -> bool:
        elsewhere.unlink()
        return True

    monkeypatch.setattr(output, "is_agreed", agree_late)

    assert uninstall() == 1

    assert copy.exists()


def test_a_broken_file_that_was_never_wrapped_does_not_stand_in_the_way(
    elsewhere: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert elsewhere.exists()
    empty = write(own_home / ".cursor" / "mcp.json", "")

    assert uninstall() == 0

    said = capsys.readouterr().out
    assert f"Note: {empty}" in said
    assert "mcp-launch has not changed this file" in said


def test_a_broken_file_that_names_us_stands_in_the_way(
    elsewhere: Path, own_home: Path, state: Path
) -> None:
    assert elsewhere.exists()
    write(own_home / ".cursor" / "mcp.json", '{"mcpServers": {"it": {"command": "mcp-launch"')

    assert uninstall() == 1

    assert state.exists()


def test_what_will_be_removed_is_announced_as_it_will_be(
    elsewhere: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert uninstall(is_dry=True) == 0
    assert f"\n{state} will be removed (records of calls, logs, " in capsys.readouterr().out
    text = elsewhere.read_text(encoding="utf-8")
    elsewhere.write_text(text[:-1], encoding="utf-8")
    assert uninstall(is_dry=True) == 1
    said = capsys.readouterr().out
    assert f"\n{state} will be removed" not in said
    assert "copies of files stay" in said


@pytest.mark.usefixtures("project")
def test_nothing_is_said_to_be_removed_where_nothing_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("in the way", encoding="utf-8")

    assert uninstall() == 0

    said = capsys.readouterr().out.lower()
    assert "removed" not in said
    assert "there is nothing to undo" in said


@pytest.mark.parametrize(
    ("mark", "has_pip", "how"),
    [
        ("uv-receipt.toml", False, "uv tool uninstall mcp-launch"),
        ("pipx_metadata.json", True, "pipx uninstall mcp-launch"),
        ("pyvenv.cfg", True, "/x/bin/python -m pip uninstall mcp-launch"),
        ("pyvenv.cfg", False, "uv pip uninstall --python /x/bin/python mcp-launch"),
    ],
)
def test_how_to_remove_the_program_is_said_as_it_was_installed(
    mark: str, has_pip: bool, how: str, tmp_path: Path
) -> None:
    write(tmp_path / mark, "")

    found = uninstall_command.choose_removal_command(
        str(tmp_path), "/x/bin/python", lambda name: name if has_pip else None
    )

    assert found == how
