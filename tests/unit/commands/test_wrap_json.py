"""What `wrap`, `unwrap` and `uninstall` print for programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import run_command
from git_repository import track
from secret_entries import SECRET, SECRETS
from wrap_requests import TEXT, find_script, write

from mcp_launch.config_files import backups

WRAPPED = ["run", "--server", "it", "x", "1"]


@pytest.fixture
def cursor(own_home: Path, project: Path) -> Path:
    """Return a file of Cursor with one server."""
    assert project.is_dir()
    return write(own_home / ".cursor" / "mcp.json")


def read(command: str, *words: str, code: int = 0) -> Any:
    done = run_command(command, "--json", *words)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_what_would_change_is_listed_and_nothing_is_written(cursor: Path) -> None:
    document = read("wrap", "--dry-run")

    entry = {
        "server": "it",
        "scope": "user",
        "status": "would wrap",
        "reason": None,
        "before": ["x", "1"],
        "after": [find_script(), *WRAPPED],
    }
    assert document["files"] == [
        {
            "host": "cursor",
            "scope": "user",
            "file": str(cursor),
            "is_tracked": False,
            "is_changed": False,
            "copy": None,
            "removed_copies": [],
            "entries": [entry],
        }
    ]
    assert (document["is_dry_run"], document["changed"]) == (True, False)
    assert any("not found on this machine: x" in one for one in document["warnings"])
    assert cursor.read_text(encoding="utf-8") == TEXT


def test_what_was_changed_is_listed_with_its_copy(cursor: Path) -> None:
    copy = backups.name_copy(os.environ["MCP_LAUNCH_HOME"], str(cursor))

    wrapped = read("wrap", "--yes")
    again = read("wrap", "--yes")
    unwrapped = read("unwrap", "--yes")

    [file] = wrapped["files"]
    assert wrapped["changed"]
    assert (file["is_changed"], file["copy"]) == (True, copy)
    assert file["entries"][0]["status"] == "wrapped"
    [skipped] = again["files"][0]["entries"]
    assert not again["changed"]
    assert (skipped["status"], skipped["reason"]) == ("skipped", "it is already wrapped")
    assert skipped["before"] == skipped["after"] == [find_script(), *WRAPPED]
    [file] = unwrapped["files"]
    assert file["removed_copies"] == [copy]
    assert file["entries"][0]["status"] == "unwrapped"
    assert file["entries"][0]["after"] == ["x", "1"]
    assert cursor.read_text(encoding="utf-8") == TEXT


@pytest.mark.parametrize("command", ["wrap", "unwrap", "uninstall"])
def test_without_an_answer_nothing_is_printed_and_nothing_is_written(
    command: str, cursor: Path
) -> None:
    if command != "wrap":
        assert run_command("wrap", "--yes").returncode == 0
    before = cursor.read_text(encoding="utf-8")

    done = run_command(command, "--json")

    assert (done.returncode, done.stdout) == (2, "")
    assert "fix: add --yes" in done.stderr
    assert cursor.read_text(encoding="utf-8") == before


def test_a_file_of_no_host_has_no_host_and_no_scope(tmp_path: Path) -> None:
    path = write(tmp_path / "some.json")

    [file] = read("wrap", "--dry-run", "--file", str(path))["files"]

    assert (file["host"], file["scope"], file["entries"][0]["scope"]) == (None, None, None)
    said = run_command("wrap", "--dry-run", "--file", str(path)).stdout
    assert said.startswith(f"{path}\n  it\n")


def test_errors_and_tracked_files_are_listed(cursor: Path, own_home: Path, project: Path) -> None:
    broken = write(own_home / ".claude.json", '{"mcpServers": {')
    shared = write(project / ".mcp.json")
    track(project, ".mcp.json")

    document = read("wrap", "--yes", code=1)

    [error] = document["errors"]
    assert error["message"].startswith(f"{broken}:1:17: this is not valid JSON: expected }}")
    files = {file["file"]: file for file in document["files"]}
    assert files[str(cursor)]["is_changed"]
    assert files[str(shared)]["is_tracked"]
    assert files[str(shared)]["entries"][0]["reason"] == "Git tracks its file"


def test_files_that_stay_wrapped_elsewhere_are_listed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(project / ".mcp.json")
    assert run_command("wrap", "--yes").returncode == 0
    (tmp_path / "other" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "other")

    assert read("unwrap", "--yes")["still_wrapped"] == [str(path)]
    assert read("unwrap", "--yes", "--all")["still_wrapped"] == []


@pytest.mark.parametrize("entry", SECRETS.values(), ids=list(SECRETS))
def test_no_secret_is_printed(entry: dict[str, Any], cursor: Path) -> None:
    write(cursor, json.dumps({"mcpServers": {"it": entry}}))

    for command in ("wrap", "unwrap"):
        done = run_command(command, "--json", "--yes")
        json.loads(done.stdout)
        assert SECRET not in done.stdout


def test_what_uninstall_did_is_listed(cursor: Path, own_home: Path) -> None:
    assert run_command("wrap", "--yes").returncode == 0
    config = write(own_home / ".config" / "mcp-launch" / "config.toml", "")
    state = os.environ["MCP_LAUNCH_HOME"]

    planned = read("uninstall", "--dry-run")
    assert Path(state).is_dir()
    done = read("uninstall", "--yes")

    assert (planned["changed"], planned["state"]["is_removed"]) == (False, False)
    assert planned["files"][0]["entries"][0]["status"] == "would unwrap"
    assert done["files"][0]["entries"][0]["status"] == "unwrapped"
    assert done["state"] == {"directory": state, "is_removed": True, "kept": []}
    assert done["profiles"] == str(config)
    assert done["obstacles"] == []
    assert "uninstall" in done["remove_program"]
    assert cursor.read_text(encoding="utf-8") == TEXT


def test_what_is_in_the_way_of_uninstall_is_listed(cursor: Path) -> None:
    entry = {"command": "uvx", "args": ["mcp-launch", "run", "--", "x"]}
    write(cursor, json.dumps({"mcpServers": {"it": entry}}))

    planned = read("uninstall", "--dry-run", code=1)
    done = read("uninstall", "--yes", code=1)

    assert planned["obstacles"] == [
        f"it in {cursor} starts mcp-launch through another program: change it by hand"
    ]
    assert "still starts mcp-launch" in done["obstacles"][0]
