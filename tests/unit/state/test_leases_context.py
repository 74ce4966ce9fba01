"""What a lease and a server are told of a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_launch.state.leases import describe_facts, name_context
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json


def test_what_was_found_is_described_with_its_origin_and_the_rest_is_left_out() -> None:
    facts = describe_facts(
        session=Missing(["nowhere"]),
        thread=Found("t-1", "a lock"),
        cwd=Found("/work/app", "inherited"),
    )

    assert facts == {
        "thread": {"value": "t-1", "origin": "a lock"},
        "cwd": {"value": "/work/app", "origin": "inherited"},
    }


def test_a_server_sees_the_names_of_the_protocol() -> None:
    facts: Json = describe_facts(
        host=Found("codex", "process 10 (codex) above us"),
        session=Found("s-1", "a record"),
        project_root=Found("/work/app", ".git in it"),
        cwd=Found("/x", "asked for"),
    )

    assert name_context(facts, "launch-1", "bound", "a lock") == {
        "host": "codex",
        "sessionId": "s-1",
        "projectRoot": "/work/app",
        "cwd": "/x",
        "launchId": "launch-1",
        "binding": "bound",
        "origin": {
            "host": "process 10 (codex) above us",
            "sessionId": "a record",
            "projectRoot": ".git in it",
            "cwd": "asked for",
            "binding": "a lock",
        },
    }


@pytest.mark.parametrize("facts", [None, "text", {"host": "text"}, {"unknown": {}}])
def test_a_lease_of_another_version_may_hold_anything(facts: Json) -> None:
    told = name_context(facts, None, None, "")

    assert told == {"launchId": None, "binding": None, "origin": {}}
