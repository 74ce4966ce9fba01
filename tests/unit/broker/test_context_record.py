"""What a lease and a server are told of a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakes import make_context

from mcp_launch.broker.context_record import describe_facts, name_context
from mcp_launch.values import Found

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json


def test_what_was_found_is_described_with_its_origin_and_the_rest_is_left_out() -> None:
    context = make_context(thread=Found("t-1", "a lock"))

    assert describe_facts(context, Found("/work/app", "inherited")) == {
        "host": {"value": "codex", "origin": "process 10 (codex) above us"},
        "thread": {"value": "t-1", "origin": "a lock"},
        "project_root": {"value": "/work/app", "origin": ".git in it"},
        "cwd": {"value": "/work/app", "origin": "inherited"},
    }


def test_a_server_sees_the_names_of_the_protocol() -> None:
    facts = describe_facts(make_context(session=Found("s-1", "a record")), Found("/x", "asked for"))

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
