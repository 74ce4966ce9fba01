"""What Claude Code requires of an entry."""

from __future__ import annotations

import pytest
from mcp_launch.hosts.claude.keys import list_faults


@pytest.mark.parametrize(
    ("entry", "faults"),
    [
        ({"command": "x"}, {}),
        ({"type": "stdio", "command": "x", "args": [], "env": {}, "timeout": 1}, {}),
        ({"command": "x", "later": object()}, {}),
        ({"type": "http", "url": "https://x", "headers": {"a": "b"}}, {}),
        ("text", {"": "it is not a table"}),
        ({}, {"": "it has no command"}),
        ({"type": "http"}, {"": "it has no url"}),
        ({"url": "https://x"}, {"url": "it has a url, but no type"}),
        ({"type": "docker", "command": "x"}, {"type": "there is no type docker"}),
        ({"type": 1, "command": "x"}, {"type": "type must be a string"}),
        ({"command": ""}, {"command": "its command is empty"}),
        ({"command": ["x"]}, {"command": "command must be a string"}),
        (
            {"command": "x", "args": "y", "env": {"A": 1}},
            {"args": "args must be a list of strings", "env": "env must be a table of strings"},
        ),
        ({"command": "x", "timeout": 0}, {"timeout": "timeout must be a whole number above 0"}),
        (
            {"command": "x", "timeout": True},
            {"timeout": "timeout must be a whole number above 0"},
        ),
    ],
)
def test_what_an_entry_is_skipped_for(entry: object, faults: dict[str, str]) -> None:
    assert {key: why for key, why, _ in list_faults(entry)} == faults


def test_every_fault_has_a_way_out() -> None:
    for entry in ("text", {}, {"url": "x"}, {"type": 1}, {"command": ""}, {"command": 1}):
        assert all(fix for _, _, fix in list_faults(entry))
