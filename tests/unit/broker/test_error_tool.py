"""A launch that failed stands in for its server, with one tool that says why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broker_playbooks import HANDSHAKE, Playbook

from mcp_launch.broker import error_tool
from mcp_launch.errors import LaunchError

FAILED = """
    >> start failed server
    << fail: it cannot be started
"""
MODERN: dict[str, Any] = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
ERROR = LaunchError("it is broken", fix="repair it")
TEXT = "The MCP server `srv` could not be started: it is broken. Fix: repair it. "


def open_failed(on_failure: str = "tool") -> Playbook:
    playbook = Playbook(on_failure=on_failure)
    playbook.play(FAILED)
    return playbook


def answer(method: str, *, is_listed: bool = True, **params: Any) -> dict[str, Any]:
    """Return what a failed launch answers to a request."""
    request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    line = json.dumps(request).encode() + b"\n"
    said = error_tool.answer_as_server(line, "srv", ERROR, is_listed=is_listed)
    assert said.endswith(b"\n")
    message = json.loads(said)
    assert message.pop("jsonrpc") == "2.0"
    assert message.pop("id") == 7
    assert isinstance(message, dict)
    return message


# The answers


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        (None, "2025-11-25"),
    ],
)
def test_a_known_protocol_version_is_accepted(asked: str | None, given: str) -> None:
    result = answer("initialize", protocolVersion=asked)["result"]

    assert result["protocolVersion"] == given
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "srv"
    assert result["instructions"].startswith(TEXT)


def test_a_host_of_the_newer_era_learns_the_version_and_keeps_nothing() -> None:
    result = answer("server/discover", **MODERN)["result"]

    assert result["supportedVersions"] == ["2026-07-28"]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == (
        "complete",
        0,
        "private",
    )


def test_the_only_tool_says_what_is_wrong() -> None:
    (tool,) = answer("tools/list")["result"]["tools"]

    assert tool["name"] == "mcp_launch_error"
    assert tool["description"].startswith(TEXT)
    assert tool["description"].endswith("Calling this tool returns the same text.")
    assert tool["inputSchema"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize("params", [{}, MODERN], ids=["older era", "newer era"])
def test_a_call_of_any_tool_returns_the_reason(params: dict[str, Any]) -> None:
    result = answer("tools/call", name="anything", **params)["result"]

    assert result["isError"] is True
    assert result["content"][0]["text"].startswith(f"[mcp-launch] {TEXT}")
    assert result.get("resultType") == ("complete" if params else None)


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("ping", {}),
        ("prompts/list", {"prompts": []}),
        ("resources/list", {"resources": []}),
        ("resources/templates/list", {"resourceTemplates": []}),
    ],
)
def test_what_such_a_server_does_not_have_is_empty(method: str, result: dict[str, Any]) -> None:
    assert answer(method)["result"] == result


@pytest.mark.parametrize("method", ["resources/read", "prompts/get", "logging/setLevel", "x"])
def test_what_such_a_server_cannot_do_is_an_error_of_our_own(method: str) -> None:
    error = answer(method)["error"]

    assert not -32099 <= error["code"] <= -32000
    assert "it is broken" in error["message"]


def test_a_host_that_keeps_lists_gets_none() -> None:
    assert "it is broken" in answer("tools/list", is_listed=False)["error"]["message"]
    assert answer("tools/call", is_listed=False, name="known before")["result"]["isError"]


def test_a_description_is_short_whatever_the_problem() -> None:
    error = LaunchError("x" * 5000, fix="y" * 5000)
    line = b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}\n'

    said = error_tool.answer_as_server(line, "srv", error, is_listed=True)

    assert len(said) < 1400
    assert "\\u2026" in said.decode()


# The launch


def test_a_host_gets_a_server_with_one_tool() -> None:
    open_failed().play("""
        >> host: 0 initialize {"protocolVersion":"2025-06-18"}
        << host: 0 = {"protocolVersion":"2025-06-18",…
        >> host: notifications/initialized
        >> host: 1 tools/list
        << host: 1 = {"tools":[{"name":"mcp_launch_error",…
        >> host: 2 tools/call {"name":"mcp_launch_error"}
        << host: 2 refused [mcp-launch] The MCP server `srv` could not be started: …
        >> host: 3 prompts/get
        << host: 3 error -31000 …
        >> host closed host
        << timer grace: 2
        << finish 125
    """)


def test_a_server_that_ends_early_leaves_the_tool() -> None:
    Playbook(on_failure="tool").play("""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> exited server 3
        >> gone server
        << fail: srv ended with exit code 3 before it answered
        << host: 0 = {"protocolVersion":…
        >> host: 1 tools/call {}
        << host: 1 refused …srv ended with exit code 3 before it answered…
        >> signal 15
        << signal server: 15
        << timer leave: 0.45
        << finish 3
    """)


def test_a_refused_handshake_is_a_failure() -> None:
    playbook = Playbook(on_failure="tool", mask=lambda text: text.replace("secret", "***"))
    playbook.play("""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> server: 0 error -32602 no license: secret
        << fail: srv refused the handshake: no license: ***
        << host: 0 = {"protocolVersion":…
        << end server: input ended
        >> server: 5 roots/list
        >> exited server 0
        >> gone server
        >> host: 1 tools/call {}
        << host: 1 refused …no license: ***…
        >> host lost now
        << timer grace: 2
        << finish 1
    """)


def test_what_follows_a_refusal_does_not_reach_the_host() -> None:
    playbook = Playbook(on_failure="tool")
    playbook.play("""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> server: b'{"id":0,"error":{"code":1,"message":"no"}}\\n{"id":9,"method":"ping"}\\n'
        << fail: srv refused the handshake: no
        << host: 0 = …
        << end server: input ended
    """)


def test_what_a_server_asked_before_it_failed_is_taken_back() -> None:
    Playbook(on_failure="tool").play("""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> server: 5 ping
        << host: 5 ping
        >> exited server 1
        >> gone server
        << fail: srv ended with exit code 1 before it answered
        << host: notifications/cancelled {"requestId":5,"reason":"the server that asked is gone"}
        << host: 0 = …
    """)


def test_a_refused_discovery_is_the_hosts_to_see() -> None:
    Playbook(on_failure="tool").play("""
        >> started server
        >> host: 0 server/discover
        << server: 0 server/discover
        >> server: 0 error -32601 what?
        << host: 0 error -32601 what?
    """)


def test_the_error_answer_of_a_server_passes_where_hosts_show_errors() -> None:
    Playbook().play("""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> server: 0 error -32602 no license
        << host: 0 error -32602 no license
    """)


def test_a_stream_is_confirmed_and_stays_open() -> None:
    open_failed().play("""
        >> host: 4 subscriptions/listen {"notifications":{"toolsListChanged":true}}
        << host: notifications/subscriptions/acknowledged …"notifications":{}}
        >> host: notifications/cancelled {"requestId":4}
    """)


@pytest.mark.parametrize(
    "event", ["host closed host", "host lost now", "reader lost host", "signal 15"]
)
def test_a_failed_launch_ends_with_its_host(event: str) -> None:
    playbook = open_failed()

    playbook.play_event(event)

    assert playbook.take()[-1] == "finish 125"


def test_a_host_that_has_its_tools_gets_an_error_as_before() -> None:
    playbook = Playbook(on_failure="tool")
    playbook.play(HANDSHAKE)
    playbook.play("""
        >> gone server
        << start server
        >> start failed server
        << fail: it cannot be started
        << timer linger: 3
    """)


def test_a_host_that_has_closed_its_end_gets_an_error() -> None:
    playbook = Playbook(on_failure="tool")
    playbook.play("""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> host closed host
        << timer grace: 2
        << close input of server
        >> exited server 1
        >> gone server
        << fail: srv ended with exit code 1 before it answered
        << timer linger: 1
        << host: 0 error -31000 …
        << finish 1
    """)
