"""The note about a host that does not notice changed tools: who sees it, and who does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from fake_machine import examine_module, list_codes
from mcp_launch.doctor.checks import changed_tools
from mcp_launch.doctor.finding import Finding

from mcp_launch.commands import doctor
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from fake_machine import FakeMachine

CODEX = "~/.codex/config.toml"
ENTRY = """
[mcp_servers.docs]
command = "/opt/mcp-launch"
args = ["run", "--server", "docs", "--", "npx", "docs"]
"""


def note(machine: FakeMachine, state: str, host: str = "codex") -> None:
    """Write the lease of a launch whose launcher runs."""
    machine.table.add(10, "mcp-launch")
    record = {
        "server": "docs",
        "state": state,
        "boot": machine.table.boot_id(),
        "processes": {"launcher": {"pid": 10, "start": "ticks:5"}},
        "context": {"host": {"value": host}},
    }
    path = machine.write("~/.local/state/mcp-launch/leases/one.json", json.dumps(record))
    path.chmod(0o600)
    path.parent.chmod(0o700)


def look(machine: FakeMachine) -> list[Finding]:
    return examine_module(machine.survey(), changed_tools)


def test_a_host_that_waits_for_a_call_and_ignores_changed_tools_is_noted(
    machine: FakeMachine,
) -> None:
    file = machine.write(CODEX, ENTRY)
    note(machine, "not started")

    (finding,) = look(machine)

    assert (finding.code, finding.level, finding.subject.host) == ("ML123", "note", "codex")
    assert finding.message == (
        "docs: until the first call, Codex is shown the remembered tools. If these have changed "
        "since, it does not notice: its feature mcp_tool_list_changed is off"
    )
    assert finding.fix == (
        f"write mcp_tool_list_changed = true under [features] into {file} (0.125 does not know "
        "this yet), then restart Codex"
    )


@pytest.mark.parametrize(
    ("features", "codes"),
    [
        ("[features]\nmcp_tool_list_changed = true\n", []),
        ("features = { mcp_tool_list_changed = true }\n", []),
        ("[features]\nmcp_tool_list_changed = false\n", ["ML123"]),
        ("[features]\nother = true\n", ["ML123"]),
        ("features = 3\n", ["ML123"]),
    ],
)
def test_the_feature_of_codex_is_looked_for_in_its_file(
    features: str, codes: list[str], machine: FakeMachine
) -> None:
    machine.write(CODEX, features + ENTRY)
    note(machine, "not started")

    assert list_codes(look(machine)) == codes


def test_an_entry_in_a_project_is_noted_too(machine: FakeMachine) -> None:
    trusted = f'[projects."{machine.project}"]\ntrust_level = "trusted"\n'
    machine.write(CODEX, trusted)
    machine.write(".codex/config.toml", ENTRY)
    note(machine, "not started")

    assert list_codes(look(machine)) == ["ML123"]


@pytest.mark.parametrize(
    ("option", "profile", "codes"),
    [
        ('"--start", "called", ', "", ["ML123"]),
        ("", '[servers.docs]\nstart = "called"\n', ["ML123"]),
        ("", '[defaults]\nstart = "called"\n', ["ML123"]),
        ('"--start", "now", ', '[defaults]\nstart = "called"\n', []),
        ("", '[servers.other]\nstart = "called"\n', []),
    ],
    ids=["by option", "by profile", "by default", "overridden", "another server"],
)
def test_a_server_that_is_always_started_by_a_call_is_noted(
    option: str, profile: str, codes: list[str], machine: FakeMachine
) -> None:
    machine.write(CODEX, ENTRY.replace('"--", ', f'{option}"--", '))
    machine.write("~/.config/mcp-launch/config.toml", profile).chmod(0o600)

    assert list_codes(look(machine)) == codes


@pytest.mark.parametrize("state", ["running", "starting", "resting"])
def test_nobody_sees_it_whose_servers_start_at_once(state: str, machine: FakeMachine) -> None:
    machine.write(CODEX, ENTRY)

    assert look(machine) == []
    note(machine, state)
    assert look(machine) == []


def test_a_launch_that_is_over_does_not_count(machine: FakeMachine) -> None:
    machine.write(CODEX, ENTRY)
    note(machine, "not started")
    del machine.table.processes[10]

    assert look(machine) == []


def test_a_host_that_notices_changed_tools_is_not_noted(machine: FakeMachine) -> None:
    entry = {"command": "/opt/mcp-launch", "args": ["run", "--server", "docs", "--", "npx"]}
    machine.write("~/.claude.json", json.dumps({"mcpServers": {"docs": entry}}))
    note(machine, "not started", "claude")

    assert look(machine) == []


def test_an_unreadable_file_is_not_noted_twice(machine: FakeMachine) -> None:
    machine.write(CODEX, "[features")
    machine.write(".codex/config.toml", ENTRY)
    note(machine, "not started")

    assert look(machine) == []


@pytest.mark.parametrize(
    ("code", "exit_code"), [("ML123", 0), ("ML117", 0), ("ML206", 1), ("ML201", 1), ("ML001", 2)]
)
def test_notes_are_not_problems(
    code: str, exit_code: int, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding(code, Subject(), "it could be better", "improve it")
    monkeypatch.setattr(doctor, "examine", lambda _: [finding])

    assert doctor.run(doctor.DoctorRequest([]), machine.environ) == exit_code
