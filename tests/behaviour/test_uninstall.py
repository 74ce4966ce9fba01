"""`mcp-launch uninstall`: nothing of ours stays behind, and nothing else goes."""

from __future__ import annotations

import json
import os
import shutil
import socket
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Done, run_command
from git_repository import track
from wrap_requests import TEXT, write

from mcp_launch.commands.uninstall import choose_removal_command

if TYPE_CHECKING:
    from pathlib import Path


OLD = "0123456789abcdef012345"


def run(*words: str) -> Done:
    return run_command(*words, "--yes")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return our state directory, with what a month of use leaves in it."""
    directory = tmp_path / "state"
    boot = json.dumps({"version": 1, "boot": "another", "processes": {}})
    write(directory / "leases" / f"{OLD}.json", boot)
    write(directory / "logs" / f"{OLD}.log")
    write(directory / "logs" / f"{OLD}.log.1")
    write(directory / "calls" / "20261117-101112.jsonl")
    write(directory / "exports" / f"{OLD[:16]}.json")
    write(directory / "config.json")
    write(directory / "runners" / "0a1b2c3d0a1b2c3d")
    write(directory / "handshakes" / f"{'0a1b2c3d' * 4}-{'4e5f' * 4}.jsonl")
    write(directory / "leases" / f".mcp-launch-draft-12-{'0af' * 10}00")
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
    assert run("wrap").returncode == 0
    monkeypatch.chdir(tmp_path / "here")
    return path


def test_everything_is_unwrapped_and_our_state_is_gone(
    elsewhere: Path, own_home: Path, state: Path
) -> None:
    own = write(own_home / ".cursor" / "mcp.json")
    assert run("wrap").returncode == 0
    track(elsewhere.parent, ".mcp.json")  # which is no reason to leave it
    config = write(own_home / ".config" / "mcp-launch" / "config.toml", "")

    done = run("uninstall", "--json")

    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0
    assert [path.read_text(encoding="utf-8") for path in (elsewhere, own)] == [TEXT, TEXT]
    assert not state.exists()
    assert config.exists()
    assert document["state"] == {"directory": str(state), "is_removed": True}
    assert {one["file"] for one in document["files"]} == {str(elsewhere), str(own)}
    assert document["profiles"] == str(config)
    assert document["obstacles"] == document["errors"] == []


def test_a_dry_run_and_nobody_to_ask_change_nothing(elsewhere: Path, state: Path) -> None:
    before = elsewhere.read_text(encoding="utf-8")

    planned = run_command("uninstall", "--dry-run")
    refused = run_command("uninstall")

    assert (planned.returncode, refused.returncode) == (0, 2)
    assert f"\n{state} (records of calls, logs, " in planned.stdout
    assert "cannot be asked" in refused.stderr
    assert elsewhere.read_text(encoding="utf-8") == before
    assert (state / "logs" / f"{OLD}.log").exists()


@pytest.mark.parametrize("name", ["notes.txt", "logs/mine.log", "backups/copy.json", "mine/a"])
def test_a_directory_with_a_file_that_may_not_be_ours_stays_whole(
    name: str, elsewhere: Path, state: Path
) -> None:
    mine = write(state / name)

    done = run("uninstall")

    assert done.returncode == 1
    assert name.removesuffix("/a") in done.stdout
    assert mine.exists()
    assert (state / "logs" / f"{OLD}.log").exists()
    assert elsewhere.read_text(encoding="utf-8") == TEXT


def test_nothing_behind_a_link_is_removed(elsewhere: Path, state: Path, tmp_path: Path) -> None:
    assert elsewhere.exists()
    precious = write(tmp_path / "precious" / f"{OLD}.json")
    shutil.rmtree(state / "runners")
    (state / "runners").symlink_to(precious.parent)
    (state / "leases" / f"{OLD[::-1]}.json").symlink_to(precious)

    assert run("uninstall").returncode == 0

    assert precious.exists()
    assert not state.exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [("}}}", "}}"), ('"x"', '"--novel", "user", "x"')],
    ids=["in the middle of an edit", "with an option that is not known"],
)
def test_everything_stays_as_long_as_a_file_could_not_be_unwrapped(
    before: str, after: str, elsewhere: Path, state: Path
) -> None:
    text = elsewhere.read_text(encoding="utf-8")
    elsewhere.write_text(text.replace(before, after), encoding="utf-8")

    planned, done = run_command("uninstall", "--dry-run"), run("uninstall")

    assert (planned.returncode, done.returncode) == (1, 1)
    assert "run mcp-launch uninstall again" in done.stdout
    assert str(elsewhere) in done.stdout
    assert [one.read_text(encoding="utf-8") for one in (state / "backups").iterdir()] == [TEXT]
    elsewhere.write_text(text, encoding="utf-8")
    assert run("uninstall").returncode == 0
    assert elsewhere.read_text(encoding="utf-8") == TEXT
    assert not state.exists()


@pytest.mark.parametrize("how", ["not believed", "damaged", "lost"])
def test_everything_stays_as_long_as_it_is_not_known_what_was_wrapped(
    how: str, elsewhere: Path, state: Path
) -> None:
    record = state / "wrapped.json"
    kept = record.read_text(encoding="utf-8")
    [copy] = (state / "backups").iterdir()
    if how == "not believed":
        record.chmod(0o666)
    elif how == "damaged":
        record.write_text(kept[:-9], encoding="utf-8")
    else:
        record.unlink()

    assert run_command("uninstall", "--dry-run").returncode == 1
    done = run("uninstall")

    assert done.returncode == 1
    assert f"{copy} is a copy of a wrapped file" in done.stdout
    assert (str(record) in done.stdout) is (how != "lost")
    assert "To remove the program" not in done.stdout
    assert run("unwrap", "--file", str(elsewhere)).returncode == 0
    assert not copy.exists()
    record.unlink(missing_ok=True)
    assert run("uninstall").returncode == 0


@pytest.mark.parametrize(
    ("text", "is_in_the_way"),
    [
        ("", False),
        ('{"mcpServers": {"it": {"command": "mcp-launch"', True),
        ('{"mcpServers": {"it": {"command": "uvx", "args": ["mcp-launch", "run", "x"]}}}', True),
    ],
    ids=["broken", "broken and names us", "starts us through another program"],
)
def test_a_file_that_we_have_not_wrapped_is_in_the_way_if_it_names_us(
    text: str, is_in_the_way: bool, elsewhere: Path, own_home: Path, state: Path
) -> None:
    assert elsewhere.exists()
    path = write(own_home / ".cursor" / "mcp.json", text)

    done = run("uninstall")

    assert done.returncode == is_in_the_way
    assert state.exists() == is_in_the_way
    assert (str(path) in done.stdout) == is_in_the_way


def test_a_wrapped_file_that_is_gone_is_not_in_the_way_and_its_copy_is_named(
    elsewhere: Path, state: Path
) -> None:
    elsewhere.unlink()
    [copy] = (state / "backups").iterdir()

    planned = run_command("uninstall", "--dry-run")

    assert planned.returncode == 0
    assert f"{elsewhere} was wrapped and is gone" in planned.stdout
    assert str(copy) in planned.stdout
    assert copy.exists()
    assert run("uninstall").returncode == 0
    assert not state.exists()


@pytest.mark.usefixtures("project")
def test_nothing_is_said_to_be_removed_where_nothing_was(tmp_path: Path) -> None:
    write(tmp_path / "state", "in the way")

    done = run("uninstall")

    assert done.returncode == 0
    assert "Removed" not in done.stdout


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

    found = choose_removal_command(
        str(tmp_path), "/x/bin/python", lambda name: name if has_pip else None
    )

    assert found == how
