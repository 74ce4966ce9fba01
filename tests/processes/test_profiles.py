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


def test_an_error_in_one_servers_table_stops_only_that_server(
    user_file: Path, runner: LaunchRunner
) -> None:
    broken = "[servers.other]\ncomand = 'x'\n"
    write(user_file, f'{broken}[servers.probe]\n{spell(ENVIRONMENT_SERVER)}env = {{ A = "b" }}\n')

    for _ in range(2):  # from the file, and from what was kept of it
        launch = runner.launch("--server", "probe")
        assert launch.ask("look")["env"]["A"] == "b"
        assert launch.finish()[0] == 0
        other = runner.launch("--server", "other", "--", "cat")
        error = other.initialize()["error"]["message"]
        assert f"{user_file}:2:1: unknown key `comand`" in error
        assert "did you mean command?" in error
        assert other.finish()[0] == 125

    launch = runner.launch("--server", "nobody", "--", *ENVIRONMENT_SERVER)
    assert launch.ask("look")["argv"] == [], "a name without a profile is only a name"


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


def test_an_unknown_server_needs_a_command_which_only_the_user_can_name(
    runner: LaunchRunner,
) -> None:
    for name in (".mcp-launch.toml", ".config/mcp-launch/config.toml"):
        file = runner.project / name  # whatever a checkout brings with it
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, f"[servers.nobody]\n{spell(ENVIRONMENT_SERVER)}")

    code, _, err = runner.launch("--server", "nobody").finish()

    assert code == 125
    assert b"no profile defines the server nobody, and no command was given" in err
    assert b"fix: add [servers.nobody] to ~/.config/mcp-launch/config.toml" in err


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        # It may say what a server is not to get; nobody can know.
        ("this is not valid TOML", 0o600, "{file}:1:6: not valid TOML"),
        ("", 0o620, "{file} can be written by other users"),
        ("", 0o602, "fix: run: chmod go-w {file}"),
    ],
    ids=["no TOML", "writable by the group", "writable by all"],
)
def test_a_users_file_that_cannot_be_trusted_stops_every_launch(
    text: str, mode: int, problem: str, user_file: Path, runner: LaunchRunner
) -> None:
    write(user_file, text)
    user_file.chmod(mode)

    code, _, err = runner.launch("--", *ENVIRONMENT_SERVER).finish()

    assert code == 125
    assert problem.format(file=user_file).encode() in err
