"""Profiles in the user's file, and what a launch makes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from launches import ENVIRONMENT_SERVER, LaunchRunner

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def user_file(own_home: Path) -> Path:
    """Return the user's file, which is not there yet."""
    path = own_home / ".config" / "mcp-launch" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def spell(command: list[str]) -> str:
    return f"command = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"


def test_a_server_is_launched_by_its_name_and_a_broken_table_stops_only_its_own(
    user_file: Path, runner: LaunchRunner
) -> None:
    broken = "[servers.other]\ncomand = 10\n"
    write(user_file, f'{broken}[servers.probe]\n{spell(ENVIRONMENT_SERVER)}env = {{ A = "b" }}\n')

    for _ in range(2):  # from the file, and from what was kept of it
        launch = runner.launch("--server", "probe")
        assert launch.ask("look")["env"]["A"] == "b"
        assert launch.finish()[0] == 0
        other = runner.launch("--server", "other", "--", *ENVIRONMENT_SERVER)
        error = other.initialize()["error"]["message"]
        assert f"{user_file}:2:1: unknown key `comand`" in error
        assert "did you mean command?" in error
        assert other.finish()[0] == 125


@pytest.mark.parametrize("is_option", [True, False], ids=["option", "variable"])
def test_a_server_gets_a_fixed_value(
    is_option: bool, user_file: Path, runner: LaunchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(user_file, '[servers.probe]\nenv = { A = "b" }\n')
    monkeypatch.setenv("LEVEL", "info")
    if not is_option:
        monkeypatch.setenv("MCP_LAUNCH_SET", "A=c, ${LEVEL}")
    words = ["--set", "A=c, ${LEVEL}"] if is_option else []

    launch = runner.launch("--server", "probe", "--trace", *words, "--", *ENVIRONMENT_SERVER)

    environ = launch.ask("look")["env"]
    assert environ["A"] == "c, info"
    assert "MCP_LAUNCH_SET" not in environ
    code, _, err = launch.finish()
    assert code == 0
    assert b"sets A (--set)" in err
    assert b"c, info" not in err


def test_a_command_in_a_project_is_not_run(runner: LaunchRunner) -> None:
    """Only the user names commands, whatever a checkout brings with it."""
    for name in (".mcp-launch.toml", ".config/mcp-launch/config.toml"):
        file = runner.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")

    code, _, err = runner.launch("--server", "probe").finish()

    assert code == 125
    assert b"no profile defines the server probe, and no command was given" in err
    assert b"fix: add [servers.probe] to ~/.config/mcp-launch/config.toml" in err
