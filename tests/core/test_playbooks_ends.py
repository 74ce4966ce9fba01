"""How a launch ends, how it fails, and what its host gets then."""

# ruff: noqa: E501  # what hosts are told is compared word for word

from __future__ import annotations

import json
from typing import Any

import pytest
from core_playbooks import HELLO, META, OFFERED, Playbook, open_playbook

from mcp_launch.broker.ending import StandIn
from mcp_launch.broker.request import Request
from mcp_launch.errors import LaunchError
from mcp_launch.protocol.message import read

OPEN_CALL = """
    >> host: 1 tools/call {"name":"x"}
    << server: #a tools/call {"name":"x"}
"""


# The end of the input


def test_a_server_has_two_seconds_after_its_last_sign_of_work() -> None:
    open_playbook(f"""
        {OPEN_CALL}
        >> input ended host
        << close server
        >> after 1.5
        >> server: notifications/x
        >> after 1.5
        >> bytes moved to host
        >> after 1.5
        >> server: #a = {{}}
        << host: 1 = {{}}
        >> after 2
        << cut server
        << end server: input ended
        >> died server 143
        << leave host: 143
    """)


def test_a_server_that_never_stops_talking_is_ended_after_half_a_minute() -> None:
    playbook = open_playbook(">> input ended host\n<< close server")
    for _ in range(29):
        playbook.play(">> after 1\n>> server: notifications/x")
    playbook.play(">> after 1\n<< cut server\n<< end server: input ended")


def test_a_server_that_ends_after_its_input_ends_the_launch_with_its_code() -> None:
    open_playbook(f"""
        {OPEN_CALL}
        >> input ended host
        << close server
        >> died server 0
        << host: 1 refused [mcp-launch] srv ended with exit code 0 after the end of its input; tools/call was not answered, but it may have taken effect — fix: reconnect the server in its host, because it is not started again, and check before you repeat it
        << leave host: 0
    """)


def test_unread_requests_are_still_delivered_after_the_end_of_the_input() -> None:
    open_playbook(f"""
        {OPEN_CALL}
        >> input ended host
        << close server
        >> died server 1 | #a tools/call {{"name":"x"}}
        << start server
        >> after 4
        >> started server
        << server: #a tools/call {{"name":"x"}}
        << close server
        >> server: #a = {{}}
        << host: 1 = {{}}
        >> died server 0
        << leave host: 0
    """)


def test_requests_of_a_host_that_closed_before_the_server_ran_are_answered() -> None:
    Playbook().play(f"""
        >> host: 0 initialize {HELLO}
        >> input ended host
        >> started server
        << host: 0 = {OFFERED}
        << close server
        >> died server 0
        << leave host: 0
    """)


def test_a_first_server_that_never_gets_ready_is_ended_soon() -> None:
    Playbook(greeting="").play("""
        >> host: 0 initialize {}
        >> input ended host
        >> started server
        << server: #a initialize {}
        >> after 2
        << close server
        >> after 2
        << cut server
        << end server: input ended
    """)


def test_a_host_that_closed_without_a_word_ends_the_launch_quietly() -> None:
    Playbook().play("""
        >> started server
        >> input ended host
        << close server
        >> died server 3
        << leave host: 3
    """)


# The host is gone


def test_the_server_is_not_drained_when_the_host_is_lost() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"_meta":{"session":"s-1"}}
        << server: #a tools/call {"_meta":{"session":"s-1"}}
        >> host: 2 tools/call {"_meta":{"session":"s-2"}}
        >> host lost now
        << close server
        >> server: notifications/x
        >> after 2
        << cut server
        << end server: input ended
        >> died server 143
        << leave host: 143
        """,
        on_change="restart",
    )


def test_a_host_that_is_lost_gives_a_talking_server_no_more_time() -> None:
    open_playbook("""
        >> host lost now
        << close server
        >> after 1
        >> server: notifications/x
        >> after 1
        << cut server
        << end server: input ended
    """)


def test_no_other_server_follows_for_a_host_that_cannot_read() -> None:
    open_playbook("""
        >> reader lost host
        << mute server
        >> died server 141
        << leave host: 141
    """)


# Signals


def test_after_a_signal_no_other_server_is_started() -> None:
    open_playbook(f"""
        {OPEN_CALL}
        >> signal 2
        << signal server: 2
        >> died server 130
        << leave host: 130
    """)


def test_after_a_signal_we_do_not_wait_long() -> None:
    open_playbook("""
        >> signal 15
        << signal server: 15
        >> signal 2
        << signal server: 2
        >> after 0.45
        << leave host: 143
    """)


# A server that closes its pipes


def test_a_live_server_that_closes_its_stdin_closes_our_stdin() -> None:
    open_playbook(f"""
        {OPEN_CALL}
        >> input closed by server
        >> host: 2 prompts/get
        << server: #b prompts/get
        >> after 0.5
        << deafen host
        >> server: #a = {{}}
        << host: 1 = {{}}
        >> died server 0 | #b prompts/get
        << host: 2 error -31000 [mcp-launch] srv … it did not read this …
        << leave host: 0
    """)


def test_a_live_server_that_closes_its_stdout_closes_ours() -> None:
    open_playbook(f"""
        {OPEN_CALL}
        >> output closed by server
        >> after 0.5
        << close host
        << mute server
        >> input ended host
        << close server
        >> died server 0
        << leave host: 0
    """)


@pytest.mark.parametrize("pipe", ["input", "output"])
def test_a_server_that_closes_a_pipe_because_it_died_is_replaced(pipe: str) -> None:
    open_playbook(f"""
        >> {pipe} closed by server
        >> exited server 1
        >> after 0.5
        >> gone server
        << start server
        >> started server
    """)


def test_a_server_that_writes_a_line_without_an_end_is_ended() -> None:
    open_playbook(f"""
        {OPEN_CALL}
        >> overflowed server
        << end server: input ended
        >> died server 143
        << host: 1 refused [mcp-launch] srv was ended, because it wrote a line of more than 256 MB; …
        << start server
    """)


# Servers that are not replaced


def test_a_dead_server_stays_dead_if_asked() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"name":"x"}
        << server: #a tools/call {"name":"x"}
        >> host: 2 tools/call {"name":"y"}
        << server: #b tools/call {"name":"y"}
        >> died server 3 | #b tools/call {"name":"y"}
        << host: 1 refused [mcp-launch] srv ended with exit code 3 while it was at work; tools/call was not answered, but it may have taken effect — fix: reconnect the server in its host, because it is not started again, and check before you repeat it
        << host: 2 refused [mcp-launch] srv ended with exit code 3 while it was at work; it did not read this — fix: reconnect the server in its host, because it is not started again; then ask again
        << leave host: 3
        """,
        restarts=False,
    )


def test_an_unread_notification_alone_is_nothing_to_answer() -> None:
    open_playbook(
        """
        >> host: notifications/x
        << server: notifications/x
        >> died server 0 | notifications/x
        << leave host: 0
        """,
        restarts=False,
    )


# There is no server from the start

FAILED = """
    >> failed server
    << fail: it cannot be started
"""


def test_every_request_gets_an_error_if_the_first_server_cannot_be_started() -> None:
    playbook = Playbook()
    playbook.play(f"""
        >> host: 0 initialize
        {FAILED}
        << host: 0 error -31000 [mcp-launch] it cannot be started — fix: install it
        >> after 0.5
        >> host: 1 tools/call
        << host: 1 refused [mcp-launch] it cannot be started — fix: install it
        >> host: notifications/x
        >> host: 2 server/discover
        << host: 2 error -32601 Method not found
        >> host: [{{"id":1,"method":"ping"}}]
        << host: null error -32600 [mcp-launch] not delivered: this line is an array …
        >> after 0.9
        >> after 0.1
        << leave host: 125
    """)

    assert playbook.outcomes == [(b"1", "died")]


def test_a_failed_launch_ends_soon_if_the_host_sends_nothing() -> None:
    Playbook().play(f"{FAILED}\n>> after 2.9\n>> after 0.1\n<< leave host: 125")


def test_a_failed_launch_ends_as_soon_as_its_host_has_closed() -> None:
    Playbook().play(f"{FAILED}\n>> input ended host\n<< leave host: 125")


def test_a_server_that_ends_early_is_the_answer() -> None:
    Playbook(greeting="").play("""
        >> started server
        >> host: 0 initialize {}
        << server: #a initialize {}
        >> host: 1 ping
        >> server: 5 elicitation/create
        << host: #q elicitation/create
        >> died server 3
        << host: notifications/cancelled {"requestId":#q,"reason":"the server that asked is gone"}
        << fail: srv ended with exit code 3 before it answered
        << host: 0 error -31000 [mcp-launch] srv ended with exit code 3 before it answered — fix: …
        << host: 1 error -31000 …
        >> after 1
        << leave host: 3
    """)


def test_a_host_that_closed_its_end_still_gets_the_reason() -> None:
    Playbook(greeting="", on_failure="tool").play("""
        >> started server
        >> host: 0 initialize {}
        << server: #a initialize {}
        >> input ended host
        >> died server 1
        << fail: srv ended with exit code 1 before it answered
        << host: 0 error -31000 …
        << leave host: 1
    """)


# The failure as a tool


def open_failed(on_failure: str = "tool") -> Playbook:
    playbook = Playbook(on_failure=on_failure)
    playbook.play(FAILED)
    return playbook


def test_a_host_gets_a_server_with_one_tool() -> None:
    playbook = open_failed()
    playbook.play("""
        >> host: 0 initialize {"protocolVersion":"2025-06-18"}
        << host: 0 = {"protocolVersion":"2025-06-18",…
        >> host: notifications/initialized
        >> host: 1 tools/list
        << host: 1 = {"tools":[{"name":"mcp_launch_error",…
        >> host: 2 tools/call {"name":"mcp_launch_error"}
        << host: 2 refused [mcp-launch] The MCP server `srv` could not be started: it cannot be started. Fix: install it. Once that is fixed, restart the host (the program that runs this session), or reconnect the server in it.
        >> host: 3 prompts/get
        << host: 3 error -31000 …
        >> host: 4 subscriptions/listen {"notifications":{"toolsListChanged":true}}
        << host: notifications/subscriptions/acknowledged …"notifications":{}}
        >> host: notifications/cancelled {"requestId":4}
        >> after 100
        >> input ended host
        << leave host: 125
    """)

    assert playbook.urgent_leases == 1


def test_a_server_that_ends_early_leaves_the_tool() -> None:
    Playbook(on_failure="tool", greeting="").play("""
        >> started server
        >> host: 0 initialize {}
        << server: #a initialize {}
        >> died server 3
        << fail: srv ended with exit code 3 before it answered
        << host: 0 = {"protocolVersion":…
        >> host: 1 tools/call {}
        << host: 1 refused …srv ended with exit code 3 before it answered…
        >> signal 15
        << signal server: 15
        << leave host: 3
    """)


def test_a_refused_handshake_is_a_failure() -> None:
    playbook = Playbook(
        on_failure="tool", greeting="", mask=lambda text: text.replace("secret", "***")
    )
    playbook.play("""
        >> started server
        >> host: 0 initialize {}
        << server: #a initialize {}
        >> server: #a error -32602 no license: secret
        << fail: srv refused the handshake: no license: ***
        << host: 0 = {"protocolVersion":…
        << end server: input ended
        >> server: 5 roots/list
        >> server: 6 ping
        >> server: notifications/x
        >> died server 0
        >> host: 1 tools/call {}
        << host: 1 refused …no license: ***…
        >> host lost now
        << leave host: 1
    """)


@pytest.mark.parametrize(
    "event", ["input ended host", "host lost now", "reader lost host", "signal 15"]
)
def test_a_failed_launch_ends_with_its_host(event: str) -> None:
    playbook = open_failed()
    playbook.happen(event)

    assert playbook.take()[-1] == "leave host: 125"


def test_a_host_that_has_its_tools_gets_an_error() -> None:
    playbook = open_playbook(">> gone server\n<< start server\n>> failed server")
    playbook.play("""
        >> host: 1 tools/list
        << host: 1 error -31000 [mcp-launch] it cannot be started …after that, call again…
    """)


TEXT = "The MCP server `srv` could not be started: it is broken. Fix: repair it. "
MODERN: dict[str, Any] = {"_meta": json.loads(META)}


def answer(
    method: str, shown: Any = "tool", error: LaunchError | None = None, **params: Any
) -> dict[str, Any]:
    """Return what a failed launch answers to a request."""
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()
    error = error or LaunchError("it is broken", fix="repair it")
    request = Request(b"1", None, read(line + b"\n"), 0.0)
    message = json.loads(StandIn("srv", error, shown).answer(request, 0.0))
    assert (message.pop("jsonrpc"), message.pop("id")) == ("2.0", 7)
    assert isinstance(message, dict)
    return message


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

    assert (result["protocolVersion"], result["capabilities"]) == (given, {"tools": {}})
    assert result["serverInfo"]["name"] == "srv"
    assert result["instructions"].startswith(TEXT)


def test_a_host_of_the_newer_era_learns_the_version_and_keeps_nothing() -> None:
    result = answer("server/discover", **MODERN)["result"]

    assert result["supportedVersions"] == ["2026-07-28"]
    kept = (result["resultType"], result["ttlMs"], result["cacheScope"])
    assert kept == ("complete", 0, "private")


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
    assert "it is broken" in answer("tools/list", "call")["error"]["message"]
    assert answer("tools/call", "call", name="known before")["result"]["isError"]


def test_a_description_is_short_whatever_the_problem() -> None:
    (tool,) = answer("tools/list", error=LaunchError("x" * 5000, fix="y" * 5000))["result"]["tools"]

    assert len(tool["description"]) < 1300
    assert "…" in tool["description"]
