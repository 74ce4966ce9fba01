"""`doctor --live` shows no secret, whatever the servers that it starts say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from git_repository import track
from secret_entries import SECRET, SECRETS

if TYPE_CHECKING:
    from fake_machine import FakeMachine


@pytest.mark.parametrize("entry", list(SECRETS.values()), ids=list(SECRETS))
def test_no_secret_is_ever_shown(entry: dict[str, Any], machine: FakeMachine) -> None:
    text = json.dumps({"mcpServers": {"it": entry}})
    machine.write("~/.cursor/mcp.json", text)
    machine.write(".mcp.json", text)
    track(machine.project, ".mcp.json")

    done = run_command("doctor", "--live", cwd=machine.project)

    assert done.returncode in {0, 1}, done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_a_server_may_be_called_by_a_secret(machine: FakeMachine) -> None:
    name = "ghp_0123456789abcdefghij0123"
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": {name: {"command": "nope"}}}))

    done = run_command("doctor", "--live", cwd=machine.project)

    assert "ML201" in done.stdout
    assert name not in done.stdout + done.stderr
