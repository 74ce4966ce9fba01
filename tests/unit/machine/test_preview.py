"""What a launch would be: one prediction, which `env` shows and the doctor's checks read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_launch.machine.preview import predict

if TYPE_CHECKING:
    from fake_machine import FakeMachine

    from mcp_launch.machine.preview import Preview

LAUNCHER = "/opt/bin/mcp-launch"


def configure(machine: FakeMachine, path: str = "~/.claude.json", **entry: Any) -> None:
    key = "servers" if "vscode" in path else "mcpServers"
    machine.write(path, json.dumps({key: {"it": entry}}))


def wrap(machine: FakeMachine, *words: str, path: str = "~/.claude.json", **entry: Any) -> None:
    configure(machine, path, command=LAUNCHER, args=["run", *words], **entry)


def look(machine: FakeMachine) -> Preview:
    survey = machine.survey()
    [item] = survey.servers
    return predict(survey, item)


def test_an_editor_has_windows_anywhere(machine: FakeMachine) -> None:
    machine.table.add(7, "code")
    machine.table.variables[7] = {"HOME": str(machine.home), "MINE": "the host's"}
    wrap(machine, "--", "/bin/sh", path=".vscode/mcp.json")

    assert look(machine).server_environ["MINE"] == "the host's"


def test_a_host_that_may_start_servers_anywhere_has_several_places(machine: FakeMachine) -> None:
    wrap(machine, "--", "/bin/sh", path="~/.cursor/mcp.json")

    found = look(machine)

    assert found.places == ["/", str(machine.home), str(machine.project)]
    assert found.list_homes() == ["/", str(machine.home)]
    # `env` assumes what ML408 reports.
    assert found.situation.cwd == str(machine.home)
    assert found.decided.place_note == "the home directory"
    assert found.situation.notes[-1].endswith(f"it may also be / or {machine.project}")
    assert not found.is_place_known


def test_a_private_server_of_another_project_starts_there(machine: FakeMachine) -> None:
    other = machine.home / "other"
    (other / ".git").mkdir(parents=True)
    entry = {"command": LAUNCHER, "args": ["run", "--cwd", "project_root", "--", "/bin/sh"]}
    known = {"projects": {str(other): {"mcpServers": {"it": entry}}}}
    machine.write("~/.claude.json", json.dumps(known))

    found = look(machine)

    assert found.places == [str(other)]
    assert found.situation.environ["CLAUDE_PROJECT_DIR"] == str(other)


def test_a_tilde_is_the_home_where_the_host_says_so(machine: FakeMachine) -> None:
    wrap(machine, "--cwd", "x", "--", "~/bin/server", path=".vscode/mcp.json")

    assert look(machine).places == [f"{machine.project}/x"]
    assert look(machine).is_place_known
    assert look(machine).command == [f"{machine.home}/bin/server"]
