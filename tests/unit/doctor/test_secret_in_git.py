"""Secrets in a file that Git tracks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fake_machine import examine_module
from git_repository import track
from mcp_launch.doctor.checks import secret_in_git

if TYPE_CHECKING:
    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

SECRET = "hunter2-hunter2"
GITHUB = "ghp_" + "a1B2" * 9


def look(machine: FakeMachine) -> list[Finding]:
    return examine_module(machine.survey(), secret_in_git)


@pytest.fixture
def tracked(machine: FakeMachine) -> None:
    """Make the project's .mcp.json one that Git tracks, whatever is in it."""
    track(machine.project, ".mcp.json")


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ({"command": "x", "env": {"API_KEY": SECRET}}, "API_KEY"),
        ({"command": "x", "env": {"DB_PASSWORD": "correct horse"}}, "DB_PASSWORD"),
        ({"command": "x", "env": {"ANYTHING": GITHUB}}, "ANYTHING"),
        ({"command": "x", "args": ["--token", SECRET]}, "--token"),
        ({"command": "x", "args": [f"--api-key={SECRET}"]}, "--api-key"),
        ({"command": "docker", "args": ["run", "-e", f"A_TOKEN={SECRET}"]}, "A_TOKEN"),
        (
            {"command": "x", "args": ["--header", f"Authorization: Bearer {SECRET}"]},
            "Authorization",
        ),
        ({"command": "x", "args": [f"postgres://me:{SECRET}@db/x"]}, "a secret in the arguments"),
        ({"url": "https://x", "headers": {"X-Api-Key": SECRET}}, "the header X-Api-Key"),
        ({"url": f"https://me:{SECRET}@example.org"}, "a secret in the address"),
    ],
)
@pytest.mark.usefixtures("tracked")
def test_a_secret_in_a_tracked_file_is_reported_but_not_shown(
    machine: FakeMachine, entry: dict[str, Any], name: str
) -> None:
    machine.write(".mcp.json", json.dumps({"mcpServers": {"docs": entry}}))

    [finding] = look(machine)

    assert finding.code == "ML111"
    assert finding.message == f"{name} of 'docs' is in plain text in a file that Git tracks"
    assert finding.subject.line == 1
    assert SECRET not in finding.fix
    assert GITHUB not in finding.fix


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"API_KEY": "${API_KEY}", "TOKEN": "", "A_SECRET": "your-secret-here-123"}},
        {"env": {"AUTH_METHOD": "oauth2-device", "MAX_TOKENS": "40960", "KEYBOARD": "us-101-keys"}},
        {"env": {"PRIVATE_KEY": "/home/me/.ssh/id_ed25519", "SORT_KEY": "created"}},
        {"args": ["--token", "--verbose", "--key=<API_KEY_1>", "Authorization: Bearer ${T0}"]},
        {"args": ["postgres://postgres:postgres@localhost/db", "https://example.org/a?b=1"]},
    ],
    ids=["placeholders", "other things", "paths and words", "options", "addresses"],
)
@pytest.mark.usefixtures("tracked")
def test_what_is_no_secret_may_be_tracked(machine: FakeMachine, entry: dict[str, Any]) -> None:
    machine.write(".mcp.json", json.dumps({"mcpServers": {"docs": {"command": "x", **entry}}}))

    assert look(machine) == []


@pytest.mark.usefixtures("tracked")
def test_a_secret_in_a_file_that_git_does_not_have_is_all_right(machine: FakeMachine) -> None:
    entry = {"command": "x", "env": {"API_KEY": SECRET}}
    for path in (".cursor/mcp.json", "~/.claude.json"):
        machine.write(path, json.dumps({"mcpServers": {"docs": entry}}))

    assert look(machine) == []


@pytest.mark.usefixtures("tracked")
def test_where_the_index_is_damaged_git_may_track_the_file(machine: FakeMachine) -> None:
    entry = {"command": "x", "env": {"API_KEY": SECRET}}
    machine.write(".mcp.json", json.dumps({"mcpServers": {"docs": entry}}))
    machine.write(".git/index", "damaged")

    [finding] = look(machine)

    assert finding.message.endswith("in a file that Git may track (it could not be asked)")
