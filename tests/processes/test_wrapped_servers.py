"""What `wrap` writes is what a launch does."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from command_line import run_command
from launches import ENVIRONMENT_SERVER, RUN, LaunchRunner

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


def read_words(file: Path) -> list[str]:
    words: list[str] = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["it"]["args"]
    assert words[0] == "run"
    return words[1:]


def test_a_wrapped_server_gets_what_its_profile_says(
    own_home: Path, user_file: Path, runner: LaunchRunner
) -> None:
    file = own_home / ".claude.json"
    entry = {"command": ENVIRONMENT_SERVER[0], "args": ENVIRONMENT_SERVER[1:]}
    write(file, json.dumps({"mcpServers": {"it": entry}}))
    write(user_file, "[servers.it]\ncommand = 'not this'\nenv = { A = 'profile' }\n")

    assert run_command("wrap", "--host", "claude", "--yes").returncode == 0

    assert read_words(file) == ["--server", "it", "--", *ENVIRONMENT_SERVER]
    assert runner.launch(*read_words(file)).ask("look")["env"]["A"] == "profile"


def test_options_are_written_by_wrap(own_home: Path, runner: LaunchRunner) -> None:
    file = own_home / ".claude.json"
    text = json.dumps(
        {"mcpServers": {"it": {"command": ENVIRONMENT_SERVER[0], "args": ENVIRONMENT_SERVER[1:]}}}
    )
    write(file, text)
    safe = ["wrap", "it", "--host", "claude", "--yes", "--", "--pass-env", "safe"]

    for words in (["wrap", "--host", "claude", "--yes"], safe):
        assert run_command(*words).returncode == 0

    environ = {**os.environ, "ANTHROPIC_API_KEY": "secret"}
    assert read_words(file) == ["--server", "it", "--pass-env", "safe", "--", *ENVIRONMENT_SERVER]
    words = [*RUN, "--trace", *read_words(file)]
    launch = runner.launch_below_host("claude", command=words, env=environ)
    assert "ANTHROPIC_API_KEY" not in launch.ask("look")["env"]
    *_, said = launch.finish()
    assert b"withholds ANTHROPIC_API_KEY: Claude Code has it itself (--pass-env safe)\n" in said
    assert run_command("unwrap", "--host", "claude", "--yes").returncode == 0
    assert file.read_text(encoding="utf-8") == text
