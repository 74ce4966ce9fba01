"""The command with which a person wraps an entry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from git_repository import track

from mcp_launch.machine import wrap_warnings

if TYPE_CHECKING:
    from fake_machine import FakeMachine

    from mcp_launch.machine.survey import Item

TEXT = json.dumps({"mcpServers": {"my docs": {"command": "x"}}})


def find_entry(machine: FakeMachine) -> Item:
    [item] = machine.survey("claude").items
    return item


def test_an_entry_of_the_users_own_is_wrapped_by_its_name(machine: FakeMachine) -> None:
    machine.write("~/.claude.json", TEXT)
    item = find_entry(machine)

    assert wrap_warnings.find_reach(item) == "own"
    assert wrap_warnings.tell_how(item) == "mcp-launch wrap --host claude 'my docs'"


def test_whoever_shares_a_file_is_mentioned(machine: FakeMachine) -> None:
    machine.write(".mcp.json", TEXT)
    track(machine.project, ".mcp.json")
    item = find_entry(machine)

    assert wrap_warnings.find_reach(item) == "file"
    assert wrap_warnings.tell_how(item) == (
        f"mcp-launch wrap --file {machine.project}/.mcp.json 'my docs' "
        "(Git tracks the file, so this changes it for everyone who uses it)"
    )


def test_an_entry_that_is_found_nowhere_else_is_wrapped_by_its_file(machine: FakeMachine) -> None:
    machine.write("~/.claude.json", TEXT)
    item = find_entry(machine)
    outside = item._replace(file=item.file._replace(is_outside=True))

    assert wrap_warnings.find_reach(outside) == "file"
    assert wrap_warnings.tell_how(outside) == (
        f"mcp-launch wrap --file {machine.home}/.claude.json 'my docs'"
    )
