"""Calls sent down the wrong connection, on purpose: never answered by the wrong server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hosts.fake_models import Answer
from hosts.workspace import SERVER, Observation, promise, wrap
from launches import call, request

if TYPE_CHECKING:
    from launches import Launch, LaunchRunner

ONE, TWO = "01a1e289-0000-7000-8000-000000000001", "01a1e289-0000-7000-8000-000000000002"


@pytest.fixture(autouse=True)
def used(request: pytest.FixtureRequest) -> None:
    """Record what this test is run against."""
    request.node.user_properties.append(("used", ["a stand-in for a host"]))


def initialize(host: Launch) -> None:
    """Open the connection as Codex does."""
    info = {"name": "stand-in", "version": "1"}
    words = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    host.send(request("initialize", 0, **words))
    host.answer()
    host.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


def look(host: Launch, number: int, **meta: str) -> str:
    """Send a call and return the answer."""
    host.send(call("look", number, meta=meta))
    answer = host.answer()
    assert answer["id"] == number
    return json.dumps(answer)


def see(text: str) -> Observation:
    return Observation(Answer("stand-in", "look", text))


def test_a_call_of_another_thread_is_answered_by_a_server_of_its_own(
    runner: LaunchRunner, launcher: list[str]
) -> None:
    command = wrap(launcher, SERVER, "--env", "THREAD=thread")
    host = runner.launch_below_host("codex", command=command)
    initialize(host)

    mine = see(look(host, 1, threadId=ONE))
    other = see(look(host, 2, threadId=TWO))
    again = see(look(host, 3, threadId=ONE))

    promise(mine.pid != other.pid, "another thread's server answers")
    assert [mine.env["THREAD"], other.env["THREAD"]] == [ONE, TWO]
    assert [mine.calls, again.calls] == [1, 2]
    assert mine.pid == again.pid


def test_a_call_of_another_session_is_answered_by_a_server_of_its_own(
    runner: LaunchRunner, launcher: list[str]
) -> None:
    command = wrap(launcher, SERVER, "--env", "SESSION=session")
    host = runner.launch_below_host("goose", command=command)
    initialize(host)

    mine = see(look(host, 1, **{"agent-session-id": "one"}))
    other = see(look(host, 2, **{"agent-session-id": "two"}))

    promise(mine.pid != other.pid, "another session's server answers")
    promise(other.context.get("sessionId") == "two", "no call carries its session id")
    assert [mine.env["SESSION"], other.env["SESSION"]] == ["one", "two"]
