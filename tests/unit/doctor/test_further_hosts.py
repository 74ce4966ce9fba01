"""What `doctor` finds in the files of hosts that do something in their own way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_machine import FakeMachine, examine_module, list_codes
from mcp_launch.doctor.checks import environment, skipped_entries, unreadable_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    """Return a machine with an empty home and project."""
    made = FakeMachine(tmp_path / "home", tmp_path / "project")
    made.project.mkdir()
    return made


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('{"args": ["x"]}', "it has neither a command nor a serverUrl"),
        ('{"command": ["x"]}', "command must be a string"),
        ('{"command": "x", "args": "y"}', "args must be a list of strings"),
        ('{"command": "x", "env": {"A": 1}}', "env must be a table of strings"),
        ('"x"', "it is not a table"),
    ],
)
def test_an_entry_that_antigravity_drops_is_found(
    machine: FakeMachine, entry: str, problem: str
) -> None:
    good = '"a": {"command": "x"}, "b": {"serverUrl": "https://example.org"}'
    machine.write("~/.gemini/config/mcp_config.json", f'{{"mcpServers": {{{good}, "c": {entry}}}}}')

    [finding] = examine_module(machine.survey(), skipped_entries)

    assert finding.code == "ML122"
    assert finding.message == f"Antigravity skips 'c': {problem}"


def test_a_command_that_is_one_list_is_to_be_split(machine: FakeMachine) -> None:
    entry = '{"command": ["x", "y"]}'
    machine.write("~/.gemini/config/mcp_config.json", f'{{"mcpServers": {{"c": {entry}}}}}')

    [finding] = examine_module(machine.survey(), skipped_entries)

    assert finding.fix == "move all but the first word to args"


def test_a_file_that_keeps_antigravity_from_starting_is_found(machine: FakeMachine) -> None:
    machine.write("~/.gemini/config/mcp_config.json", '{"mcpServers": {')

    [finding] = examine_module(machine.survey(), unreadable_file)

    assert finding.message.endswith("`agy` does not start")


def test_a_list_is_right_where_a_host_has_one(machine: FakeMachine) -> None:
    machine.write("~/.continue/config.yaml", "mcpServers:\n- name: a\n  command: x\n")
    machine.write("~/.vibe/config.toml", '[[mcp_servers]]\nname = "a"\ncommand = "x"\n')

    survey = machine.survey()

    assert examine_module(survey, skipped_entries) == []
    assert [(item.host.name, item.name, item.words) for item in survey.servers] == [
        ("continue", "a", ["x"]),
        ("vibe", "a", ["x"]),
    ]


def test_a_table_is_wrong_where_a_host_has_a_list(machine: FakeMachine) -> None:
    machine.write("~/.vibe/config.toml", '[mcp_servers.a]\ncommand = "x"\n')

    [finding] = examine_module(machine.survey(), skipped_entries)

    assert finding.code == "ML124"
    assert finding.message == "Mistral Vibe finds no servers: mcp_servers is a table"
    assert "[[mcp_servers]]" in finding.fix


def test_the_place_of_an_entry_in_a_list_is_known(machine: FakeMachine) -> None:
    machine.write("~/.continue/config.yaml", "mcpServers:\n- name: a\n  command: x\n- name: b\n")

    [finding] = examine_module(machine.survey(), skipped_entries)

    assert (finding.subject.server, finding.subject.line) == ("b", 4)


def test_the_directory_of_an_entry_has_another_name_in_warp(machine: FakeMachine) -> None:
    machine.write(
        "~/.warp/.mcp.json",
        '{"mcpServers": {"a": {"command": "/bin/sh", "working_directory": "/no/such"}}}',
    )

    [finding] = [
        one for one in examine_module(machine.survey(), environment) if one.code == "ML207"
    ]

    assert finding.message.startswith("/no/such (working_directory) does not exist")


def test_the_program_of_cline_gets_what_its_extension_does_not(machine: FakeMachine) -> None:
    path = "saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
    entry = '{"mcpServers": {"it": {"command": "/opt/mcp-launch", "args": ["run", "--", "x"]}}}'
    machine.write(f"~/.config/Code/User/globalStorage/{path}", entry)
    machine.write("~/.cline/data/settings/cline_mcp_settings.json", entry)

    extension, program = machine.survey("cline").items

    assert (extension.running_as, program.running_as) == ("vscode", "cline")
    assert extension.environment.list_passed({}) is not None
    assert program.environment.list_passed({}) is None
    assert (extension.starts_anywhere, program.starts_anywhere) == (True, False)


def test_what_a_script_adds_is_listed_with_its_line(machine: FakeMachine) -> None:
    machine.write("~/.config/crush/crushrc", "# mine\nmcp add docs --command x\n")
    machine.write("~/.config/crush/crush.json", '{"mcp": {}}')

    survey = machine.survey()
    [item] = survey.items

    assert (item.name, item.point().line, survey.servers) == ("docs", 2, [])
    assert "shell script" in item.why_not
    assert list_codes(examine_module(survey, skipped_entries)) == []
