"""The files of hosts that run with another directory for their settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from fake_machine import FakeMachine

from mcp_launch.config_files.site import Site
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import known_files

if TYPE_CHECKING:
    from pathlib import Path

SERVER = '[mcp_servers.docs]\ncommand = "npx"\n'

# The variable that moves a host's directory, and one of its files below it.
MOVED = {
    "amp": ("XDG_CONFIG_HOME", "amp/settings.json"),
    "claude": ("CLAUDE_CONFIG_DIR", ".claude.json"),
    "cline": ("CLINE_DIR", "data/settings/cline_mcp_settings.json"),
    "codex": ("CODEX_HOME", "config.toml"),
    "continue": ("CONTINUE_GLOBAL_DIR", "config.yaml"),
    "copilot": ("COPILOT_HOME", "mcp-config.json"),
    "crush": ("CRUSH_GLOBAL_CONFIG", "crush.json"),
    "gemini": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
    "goose": ("XDG_CONFIG_HOME", "goose/config.yaml"),
    "grok": ("GROK_HOME", "config.toml"),
    "kilo": ("XDG_CONFIG_HOME", "kilo/kilo.json"),
    "kimi": ("KIMI_CODE_HOME", "mcp.json"),
    "opencode": ("XDG_CONFIG_HOME", "opencode/opencode.json"),
    "openhands": ("OPENHANDS_PERSISTENCE_DIR", "mcp.json"),
    "qwen": ("QWEN_HOME", "settings.json"),
    "vibe": ("VIBE_HOME", "config.toml"),
    "zed": ("XDG_CONFIG_HOME", "zed/settings.json"),
}


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    """Return a machine on which Codex runs with a directory of its own, and one server in it."""
    made = FakeMachine(tmp_path / "home", tmp_path / "project")
    made.project.mkdir()
    made.write("~/.codex/config.toml", SERVER)
    made.write("~/work/config.toml", SERVER)
    made.table.add(10, "codex")
    made.table.variables[10] = {"HOME": str(made.home), "CODEX_HOME": str(made.home / "work")}
    return made


def list_paths(machine: FakeMachine) -> list[str]:
    return [os.path.relpath(file.path, machine.home) for _, file in machine.survey("codex").files]


@pytest.mark.parametrize("name", list(HOSTS))
def test_a_variable_moves_a_file(name: str) -> None:
    variable, path = MOVED.get(name, ("", ""))
    assert HOSTS[name].quirks.home_variable == variable

    files = HOSTS[name].list_files(Site("/home/me", "/work", {variable: "/elsewhere"}))

    assert (f"/elsewhere/{path}" in [file.path for file in files]) == bool(variable)


def test_the_files_of_a_running_host_with_another_directory_are_found(machine: FakeMachine) -> None:
    assert list_paths(machine) == [".codex/config.toml", "work/config.toml"]
    assert [item.file.path for item in machine.survey("codex").servers] == [
        str(machine.home / path) for path in list_paths(machine)
    ]


def test_the_usual_files_are_found_from_a_shell_with_another_directory(
    machine: FakeMachine,
) -> None:
    machine.environ["CODEX_HOME"] = str(machine.home / "work")
    machine.table.variables[10] = {"HOME": str(machine.home)}

    assert list_paths(machine) == ["work/config.toml", ".codex/config.toml"]


@pytest.mark.parametrize(
    "facts",
    [
        {"HOME": "/home/other", "CODEX_HOME": "{}/work"},
        {"CODEX_HOME": "{}/work"},
        {"HOME": "{}", "CODEX_HOME": "work"},
        {"HOME": "{}", "CODEX_HOME": "{}/.codex"},
        {"HOME": "{}", "CLAUDE_CONFIG_DIR": "{}/work"},
    ],
    ids=["another home", "no home", "a relative path", "the usual place", "another host's"],
)
def test_no_other_file_is_found_with(machine: FakeMachine, facts: dict[str, str]) -> None:
    machine.table.variables[10] = {name: text.format(machine.home) for name, text in facts.items()}

    assert list_paths(machine) == [".codex/config.toml"]


def test_the_processes_of_other_users_are_not_asked(machine: FakeMachine) -> None:
    machine.table.owners[10] = os.getuid() + 1

    assert list_paths(machine) == [".codex/config.toml"]


def test_the_number_of_directories_is_limited(machine: FakeMachine) -> None:
    for pid in range(20, 60):
        machine.table.add(pid, "codex")
        place = str(machine.home / f"place{pid}")
        machine.table.variables[pid] = {"HOME": str(machine.home), "CODEX_HOME": place}
    site = machine.survey().site

    found = known_files.list_all([HOSTS["codex"]], site, machine.table)

    assert len([file for _, file in found if file.is_of_profile]) == 20
