"""A connection that carries many sessions gets one server for each: real launches and servers.

The host is a stand-in for VS Code, which names the conversation in the `_meta` of every call.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from launches import (
    HERE,
    RUN,
    Launch,
    call,
    read_refusal,
    wait_for_lease,
    wait_until_gone,
)
from sessions import kill
from shared_servers import SESSION_SERVER, Sharing, greet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def vs_code(sharing: Sharing, tmp_path: Path) -> Callable[..., Conversations]:
    """Start a launch below a stand-in for VS Code, whose servers get their session's id."""
    script = tmp_path / "vscode" / "out" / "bootstrap-fork"
    script.parent.mkdir(parents=True)
    script.symlink_to(HERE / "scripts" / "fake_host.py")
    node = tmp_path / "node"
    node.symlink_to(os.path.realpath(sys.executable))

    def start(*words: str, **capabilities: object) -> Conversations:
        run = [*RUN, "--env", "SESSION=session", *words, "--", *SESSION_SERVER]
        host = sharing.runner.start(
            [str(node), "-SE", str(script), "--type=extensionHost", "--", *run]
        )
        host.child = int(host.read_line())
        greet(host, **capabilities)
        return Conversations(host)

    return start


class Conversations:
    """Calls of several sessions on one connection."""

    def __init__(self, host: Launch) -> None:
        self.host = host
        self._number = 100

    def call(self, session: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool in a session, and return the result: the next message."""
        self._number += 1
        meta = {"vscode.conversationId": session}
        return self.host.call(tool, self._number, meta=meta, **arguments)

    def send(self, session: str, tool: str, request_id: object, **arguments: Any) -> None:
        """Call a tool in a session; the answer is read later."""
        meta = {"vscode.conversationId": session}
        self.host.send(call(tool, request_id, meta=meta, **arguments))

    def hold(self, session: str, request_id: object) -> None:
        """Keep a call of a session open, and wait until its server has it."""
        self.send(session, "hold", request_id, key=session)
        self.call(session, "echo")

    def open_three(self) -> dict[str, int]:
        """Return the pids of the servers of three sessions, which run side by side."""
        pids = {one: self.read_pid(one) for one in ("c-1", "c-2", "c-3")}
        assert len(set(pids.values())) == 3
        assert {one: self.read_pid(one) for one in pids} == pids, "they replaced each other"
        return pids

    def read_pid(self, session: str) -> int:
        pid = self.call(session, "echo")["pid"]
        assert isinstance(pid, int)
        return pid


# Without the option, a variable of the session that was asked for is reason enough.
@pytest.mark.parametrize(
    "options", [("--on-change", "isolate"), ()], ids=["asked for", "by default"]
)
def test_each_session_has_a_server_of_its_own_that_stays(
    vs_code: Callable[..., Conversations], options: tuple[str, ...]
) -> None:
    sessions = vs_code(*options)
    pids: dict[str, set[int]] = {"c-1": set(), "c-2": set(), "c-3": set()}

    for turn in range(1, 4):
        for session, seen in pids.items():
            told = sessions.call(session, "count")
            assert (told["session"], told["count"]) == (session, turn)
            assert sessions.call(session, "echo")["context"]["sessionId"] == session
            seen.add(told["pid"])

    assert [len(seen) for seen in pids.values()] == [1, 1, 1]
    assert len(set.union(*pids.values())) == 3


def test_calls_of_several_sessions_that_are_sent_at_once_find_their_servers(
    vs_code: Callable[..., Conversations],
) -> None:
    sessions = vs_code()
    for number in range(30):
        sessions.send(f"c-{number % 3}", "count", number)

    answers = [sessions.host.answer() for _ in range(30)]

    for answer in answers:
        number, result = answer["id"], answer["result"]
        assert (result["session"], result["count"]) == (f"c-{number % 3}", number // 3 + 1)
    assert {answer["id"] for answer in answers} == set(range(30))
    assert len({answer["result"]["pid"] for answer in answers}) == 3


# What a host may put where an id belongs; none of these can be one.
_NO_IDS: dict[str, dict[str, object]] = {
    "nothing": {},
    "a number": {"vscode.conversationId": 1},
    "no letters": {"vscode.conversationId": ""},
    "a control character": {"vscode.conversationId": "c-1\x1b[2J"},
    "a thousand letters": {"vscode.conversationId": "c" * 1001},
}


@pytest.mark.parametrize("meta", _NO_IDS.values(), ids=_NO_IDS)
def test_a_call_without_a_session_reaches_no_server_of_a_session(
    vs_code: Callable[..., Conversations], meta: dict[str, object]
) -> None:
    sessions = vs_code()
    named = sessions.call("c-1", "count")

    told = [sessions.host.call("count", number, meta=meta) for number in (1, 2)]

    assert [one["count"] for one in told] == [1, 2], "the two calls have one server"
    assert told[0]["pid"] == told[1]["pid"] != named["pid"]
    context = sessions.host.call("echo", 3, meta=meta)["context"]
    assert "sessionId" not in context
    assert told[1]["session"] == context["launchId"], "it stands in for an id"
    again = sessions.call("c-1", "count")
    assert (again["pid"], again["count"], again["session"]) == (named["pid"], 2, "c-1")


def test_a_session_does_not_get_the_server_of_a_call_without_one(
    vs_code: Callable[..., Conversations],
) -> None:
    sessions = vs_code()
    unnamed = sessions.host.call("count", 1, meta={})

    named = sessions.call("c-1", "count")

    assert (named["session"], named["count"]) == ("c-1", 1)
    assert named["pid"] != unnamed["pid"]
    assert sessions.host.call("count", 2, meta={})["pid"] == unnamed["pid"]


def test_a_session_too_many_ends_the_server_that_is_idle_longest(
    vs_code: Callable[..., Conversations], sharing: Sharing
) -> None:
    sessions = vs_code("--max-servers", "2")
    first, second = sessions.read_pid("c-1"), sessions.read_pid("c-2")
    assert first != second
    sessions.call("c-1", "count")

    third = sessions.call("c-3", "echo")

    assert third["session"] == "c-3"
    wait_until_gone(second)
    again = sessions.call("c-1", "count")
    assert (again["pid"], again["count"]) == (first, 2)
    wait_for_lease(
        sharing.state, lambda lease: [one["calls"] for one in lease["backends"]] == [3, 1]
    )


def test_a_busy_server_is_not_ended_for_another_session(
    vs_code: Callable[..., Conversations],
) -> None:
    sessions = vs_code("--max-servers", "2")
    sessions.hold("c-1", 1)
    sessions.hold("c-2", 2)

    sessions.send("c-3", "echo", 3)
    refused = sessions.host.answer()

    assert refused["id"] == 3
    assert "max-servers" in read_refusal(refused)
    for number, session in ((1, "c-1"), (2, "c-2")):
        sessions.send(session, "release", 10 + number, key=session)
        held = sessions.host.answer()
        assert (held["id"], held["result"]["held"]) == (number, session)
        assert sessions.host.answer()["id"] == 10 + number
    assert sessions.call("c-3", "echo")["session"] == "c-3"


@pytest.mark.parametrize("is_killed", [False, True], ids=["exits", "is killed"])
def test_only_the_session_is_harmed_whose_server(
    vs_code: Callable[..., Conversations], is_killed: bool
) -> None:
    sessions = vs_code()
    pids = {one: sessions.read_pid(one) for one in ("c-1", "c-2")}
    assert pids["c-1"] != pids["c-2"]
    sessions.call("c-1", "count")
    sessions.hold("c-1", 1)
    sessions.hold("c-2", 2)

    if is_killed:
        kill(pids["c-1"])
    else:
        sessions.send("c-1", "die", 3)
    lost = [sessions.host.answer() for _ in range(1 if is_killed else 2)]

    assert {one["id"] for one in lost} == ({1} if is_killed else {1, 3})
    assert all("was not answered" in read_refusal(one) for one in lost)
    assert sessions.read_pid("c-2") == pids["c-2"]
    sessions.send("c-2", "release", 4, key="c-2")
    assert [sessions.host.answer()["id"] for _ in range(2)] == [2, 4]
    again = sessions.call("c-1", "count")
    assert (again["session"], again["count"]) == ("c-1", 1)
    assert again["pid"] != pids["c-1"]


def test_a_restart_for_one_session_reports_the_servers_of_all(
    vs_code: Callable[..., Conversations], sharing: Sharing
) -> None:
    sessions = vs_code("--server", "docs")
    before = {one: sessions.read_pid(one) for one in ("c-1", "c-2")}
    wait_for_lease(sharing.state, lambda lease: list_pids(lease) == [*before.values()])

    done = run_command("restart", "docs", "--session", "c-1", "--json")

    told = json.loads(done.stdout)["servers"]
    assert [(one["session"], one["before"], one["is_asked_for"]) for one in told] == [
        ("c-1", before["c-1"], True),
        ("c-2", before["c-2"], False),
    ]
    after = {one["session"]: one["after"] for one in told}
    assert {one: sessions.read_pid(one) for one in before} == after
    assert not {*before.values()} & {*after.values()}


def list_pids(lease: dict[str, Any]) -> list[int | None]:
    processes = [one["processes"] for one in lease.get("backends") or []]
    return [one["server"]["pid"] if "server" in one else None for one in processes]


@pytest.mark.parametrize("stays", [False, True], ids=["polite", "hostile"])
def test_nothing_is_left_when_the_host_is_killed(
    vs_code: Callable[..., Conversations], sharing: Sharing, stays: bool
) -> None:
    sessions = vs_code()
    pids = sessions.open_three()
    if stays:
        sessions.call("c-1", "stay")
        sessions.call("c-2", "stay")
    sessions.hold("c-2", 1)

    sessions.host.process.kill()

    wait_until_gone(sessions.host.child)
    for pid in pids.values():
        wait_until_gone(pid)
    sharing.wait_until_nothing_is_left()
