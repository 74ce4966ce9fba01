"""Profiles whose keys contradict each other: the finding is about the file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from fake_machine import examine_module
from mcp_launch.doctor.checks import contradictory_profiles, launcher_refuses

if TYPE_CHECKING:
    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

USERS = "~/.config/mcp-launch/config.toml"

ISOLATED = "share = 'project'\non_change = 'isolate'\n"


def write_profile(machine: FakeMachine, text: str) -> str:
    path = machine.write(USERS, text)
    path.chmod(0o600)
    return str(path)


def write_entry(machine: FakeMachine, *words: str) -> None:
    entry = {"command": "mcp-launch", "args": ["run", "--server", "docs", *words, "--", "x"]}
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": {"docs": entry}}))


def check(machine: FakeMachine) -> list[Finding]:
    survey = machine.survey()
    return [*contradictory_profiles.check(survey), *examine_module(survey, launcher_refuses)]


@pytest.mark.parametrize(
    ("text", "line", "says", "fix"),
    [
        ("[servers.docs]\n" + ISOLATED, 3, "`on_change` of [servers.docs]", "remove `on_change`"),
        ("[defaults]\n" + ISOLATED, 3, "`on_change` of [defaults]", 'share = "off"'),
        (
            "[defaults]\nshare = 'project'\n[servers.docs]\ndirect = true\n",
            4,
            "`share` of [defaults] and `direct` of [servers.docs]",
            "remove `direct`",
        ),
        (
            "[defaults]\ndirect = true\n[servers.docs]\nshare = 'project'\n",
            4,
            "`share` of [servers.docs] and `direct` of [defaults]",
            "remove `direct`",
        ),
        (
            "[servers.docs]\nshare = 'project'\nenv_vars = [{name = 'T', source = 'thread'}]\n",
            3,
            "T (source thread)",
            "remove `env_vars`",
        ),
        (
            "[servers.docs]\ndirect = true\ntools = {deny = ['x']}\n",
            3,
            "`direct` of [servers.docs] and `tools` of [servers.docs]",
            "remove `direct`, or `tools`",
        ),
    ],
    ids=["isolate", "defaults", "direct", "share", "variable", "policies"],
)
def test_keys_that_contradict_each_other_are_reported_where_they_are(
    text: str, line: int, says: str, fix: str, machine: FakeMachine
) -> None:
    path = write_profile(machine, text)
    (unused,) = check(machine)
    write_entry(machine)

    (finding,) = check(machine)

    assert unused == finding

    assert (finding.code, finding.subject.file, finding.subject.line) == ("ML013", path, line)
    assert says in finding.message
    assert "contradict each other" in finding.message
    assert fix in finding.fix


@pytest.mark.parametrize(
    "text",
    [
        "[servers.docs]\nshare = 'project'\n[servers.files]\non_change = 'isolate'\n",
        "[defaults]\nshare = 'project'\n[servers.docs]\nshare = 'off'\ndirect = true\n",
        "[servers.docs]\ndirect = true\n[servers.files]\ntools = {deny = ['x']}\n",
    ],
    ids=["other servers", "overridden", "policies of another"],
)
def test_keys_of_different_servers_do_not_contradict_each_other(
    text: str, machine: FakeMachine
) -> None:
    write_profile(machine, text)
    write_entry(machine)

    assert check(machine) == []


def test_an_entry_that_contradicts_its_profile_is_reported_itself(machine: FakeMachine) -> None:
    write_profile(machine, "[servers.docs]\nshare = 'project'\n")
    write_entry(machine, "--on-change", "isolate")

    (finding,) = check(machine)

    assert (finding.code, finding.subject.host) == ("ML121", "cursor")


def test_a_profile_does_not_hide_another_mistake_of_an_entry(machine: FakeMachine) -> None:
    write_profile(machine, "[servers.docs]\n" + ISOLATED)
    write_entry(machine, "--no-such")

    assert [one.code for one in check(machine)] == ["ML013", "ML121"]
