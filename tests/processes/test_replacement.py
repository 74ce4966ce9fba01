"""A server is replaced under a living connection: real hosts' names, real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from launches import (
    HERE,
    RUN,
    SCRIPTED_SERVER,
    Launch,
    LaunchRunner,
    call,
    python,
    read_refusal,
    request,
    wait_for_lease,
    wait_until_gone,
)
from sessions import A, B, kill, methods, of, stop, with_constants

from mcp_launch.broker.routing import KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions import Claude

# Guesses and unknowns.


def test_a_wrong_guess_is_corrected_before_the_call_arrives(codex: Callable[..., Launch]) -> None:
    host = codex(threads=(A, B))
    host.initialize()

    first = host.call("look", meta=of(A))  # the guess was B, the newest
    second = host.call("look", 2, meta=of(A))

    assert first["env"]["CODEX_THREAD_ID"] == A
    assert first["env"]["MCP_LAUNCH_SESSION_ID"] == A
    assert first["meta"][KEY.text]["threadId"] == A
    assert first["calls"] == 1
    assert methods(first) == ["initialize", "notifications/initialized", "tools/call"]
    assert (second["pid"], second["calls"]) == (first["pid"], 2)


def test_a_right_guess_costs_no_second_server(codex: Callable[..., Launch], tmp_path: Path) -> None:
    host = codex(threads=(A, B))
    host.initialize()

    assert host.call("look", meta=of(B))["env"]["CODEX_THREAD_ID"] == B
    lease = wait_for_lease(tmp_path / "state", lambda lease: lease["calls"] == 1)
    assert lease["restarts"] == 0


def test_without_a_candidate_a_default_variable_is_left_out(codex: Callable[..., Launch]) -> None:
    host = codex()
    host.initialize()

    sight = host.call("look", meta=of(A))

    assert "CODEX_THREAD_ID" not in sight["env"]
    assert sight["meta"][KEY.text]["threadId"] == A
    assert len(methods(sight)) == 3


def test_a_server_that_needs_its_thread_starts_and_then_gets_it(
    codex: Callable[..., Launch],
) -> None:
    host = codex("--env", "CODEX_THREAD_ID=thread", server=("--needs", "CODEX_THREAD_ID"))
    host.initialize()

    sight = host.call("look", meta=of(A))

    assert sight["env"]["CODEX_THREAD_ID"] == A
    assert sight["calls"] == 1


def test_until_a_call_names_the_thread_a_variable_holds_the_launchs_id(
    codex: Callable[..., Launch], tmp_path: Path
) -> None:
    host = codex("--env", "T=thread", "--env", "S=session", "--trace")
    host.initialize()
    sight = host.call("look")  # tells nobody

    assert sight["env"]["T"] == sight["env"]["S"] == sight["env"]["MCP_LAUNCH_ID"]
    assert wait_for_lease(tmp_path / "state", lambda lease: lease["calls"] == 1)


def test_the_unknown_stops_the_launch_if_asked(codex: Callable[..., Launch]) -> None:
    host = codex("--when-unknown", "fail", "--env", "T=thread")
    host.send(request("initialize"))

    assert "no value for T" in read_refusal(host.answer())


def test_requests_that_are_sent_at_once_arrive_in_order(codex: Callable[..., Launch]) -> None:
    """The whole opening and two calls in one write, the server being another's."""
    host = codex(threads=(A, B))
    host.send(
        request("initialize", 0),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call("look", 1, meta=of(A)),
        call("look", 2, meta=of(A)),
    )

    assert "capabilities" in host.answer()["result"]
    first, second = host.answer(), host.answer()
    assert [first["id"], second["id"]] == [1, 2]
    assert second["result"]["calls"] == 2
    assert second["result"]["env"]["CODEX_THREAD_ID"] == A


def test_a_host_that_has_hung_up_still_gets_its_answer(codex: Callable[..., Launch]) -> None:
    host = codex(threads=(A, B))
    host.send(request("initialize", 0), call("look", 1, meta=of(A)))
    host.close()

    host.answer()
    assert host.answer()["result"]["env"]["CODEX_THREAD_ID"] == A
    assert host.read_line() == b""


def test_the_era_without_a_handshake_is_replaced_without_one(codex: Callable[..., Launch]) -> None:
    host = codex(threads=(A, B))
    host.send(request("server/discover", "probe"))
    host.answer()

    sight = host.call("look", meta=of(A))

    assert sight["env"]["CODEX_THREAD_ID"] == A
    assert methods(sight) == ["tools/call"]


# Several threads on one connection, as with Codex's feature `mcp_connection_sharing`.


def test_threads_on_one_connection_share_a_server_that_knows_none_of_them(
    codex: Callable[..., Launch],
) -> None:
    host = codex(threads=(A, B))
    host.initialize()
    host.call("look", 1, meta=of(A))

    sights = [host.call("look", n, meta=of(one)) for n, one in enumerate((B, A, B), start=2)]
    unnamed = host.call("look", 5, meta={"progressToken": 5})

    assert len({one["pid"] for one in (*sights, unnamed)}) == 1
    assert [one["meta"][KEY.text]["threadId"] for one in sights] == [B, A, B]
    assert "threadId" not in unnamed["meta"][KEY.text], "nobody knows whose it is"


def test_threads_on_one_connection_have_servers_of_their_own_if_these_ask_for_the_thread(
    codex: Callable[..., Launch],
) -> None:
    host = codex("--env", "THREAD=thread", threads=(A, B))
    host.initialize()

    sights = [host.call("look", n, meta=of(one)) for n, one in enumerate((B, A, B, A), start=1)]

    assert [one["env"]["THREAD"] for one in sights] == [B, A, B, A]
    assert [one["meta"][KEY.text]["threadId"] for one in sights] == [B, A, B, A]
    assert [one["calls"] for one in sights] == [1, 1, 2, 2]
    assert len({one["pid"] for one in sights}) == 2


def test_a_thread_beyond_the_limit_gets_the_server_that_is_idle_longest(
    codex: Callable[..., Launch],
) -> None:
    threads = [f"01999999-00{n:02}-7000-8000-000000000000" for n in range(4)]
    host = codex("--env", "THREAD=thread", "--max-servers", "3", threads=(threads[0],))
    host.initialize()

    sights = [host.call("look", n, meta=of(one)) for n, one in enumerate(threads, start=1)]

    assert [one["env"]["THREAD"] for one in sights] == threads
    wait_until_gone(sights[0]["pid"])
    for number, sight in enumerate(sights[1:], start=5):
        assert host.call("look", number, meta=of(sight["env"]["THREAD"]))["pid"] == sight["pid"]


# Misdelivery.


def test_a_call_of_another_thread_never_reaches_the_server(
    codex: Callable[..., Launch], tmp_path: Path
) -> None:
    host = codex("--on-change", "refuse", threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))

    host.send(call("look", 7, meta=of(B)))
    refused = host.answer()
    host.send(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}},
        request("resources/read", 8, _meta=of(B)),
    )
    resource = host.answer()
    sight = host.call("look", 9, meta=of(A))

    assert refused["id"] == 7
    assert f"this call belongs to thread {B}, but this server serves thread {A}" in read_refusal(
        refused
    )
    assert f"serves thread {A}" in read_refusal(resource)
    assert "error" in resource
    assert methods(sight) == ["initialize", "notifications/initialized", "tools/call", "tools/call"]
    lease = wait_for_lease(tmp_path / "state", lambda lease: lease["calls"] == 2)
    assert lease["refusals"] == 2
    assert lease["binding"]["thread"] == A
    assert lease["binding"]["state"] == "confirmed"
    assert lease["binding"]["evidence"] == "the call's _meta.threadId"
    assert lease["last_call"] > lease["started"]


def test_another_thread_gets_a_server_of_its_own_if_asked(codex: Callable[..., Launch]) -> None:
    host = codex("--on-change", "restart", threads=(A,))
    host.initialize()
    first = host.call("look", meta=of(A))

    second = host.call("look", 2, meta=of(B))

    assert second["env"]["CODEX_THREAD_ID"] == B
    assert second["calls"] == 1
    wait_until_gone(first["pid"])


def test_another_thread_gets_the_same_server_if_asked(codex: Callable[..., Launch]) -> None:
    host = codex("--on-change", "follow", threads=(A,))
    host.initialize()
    first = host.call("look", meta=of(A))

    second = host.call("look", 2, meta=of(B))

    assert second["pid"] == first["pid"]
    assert second["meta"][KEY.text]["threadId"] == B


def test_a_confirmed_thread_is_no_candidate_for_the_next_launch(
    codex: Callable[..., Launch], tmp_path: Path
) -> None:
    """Both launches below one host, as Codex starts them."""
    host = codex(threads=(A, B), host_words=("--twice",))
    host.initialize()
    host.call("look", meta=of(B))
    wait_for_lease(tmp_path / "state", lambda lease: lease["binding"]["state"] == "confirmed")

    host.write(b"next\n")
    host.read_line()  # from here on we talk to the second
    host.initialize()
    sight = host.call("look", meta=of(A))

    assert sight["env"]["CODEX_THREAD_ID"] == A
    assert len(methods(sight)) == 3, "it was right from the start"
    lease = wait_for_lease(tmp_path / "state", lambda lease: lease["binding"]["thread"] == A)
    assert lease["restarts"] == 0


# A session that changes.


def test_a_server_keeps_its_state_when_the_session_changes(claude: Callable[..., Claude]) -> None:
    session = claude()
    session.host.initialize()
    first = session.host.call("look")

    session.switch("s-2")
    second = session.host.call("look", 2)

    assert first["meta"][KEY.text]["sessionId"] == "s-1"
    assert second["meta"][KEY.text]["sessionId"] == "s-2"
    assert (second["pid"], second["calls"]) == (first["pid"], 2)


def test_a_server_that_has_nothing_to_finish_is_replaced_at_once(
    claude: Callable[..., Claude],
) -> None:
    session = claude("--env", "SESSION=session", run=with_constants(DRAIN_LIMIT=3600.0))
    session.host.initialize()
    session.host.call("look")

    session.switch("s-2")

    assert session.host.call("look", 2)["env"]["SESSION"] == "s-2"


def test_a_server_that_asked_for_its_session_is_replaced(claude: Callable[..., Claude]) -> None:
    session = claude("--env", "SESSION=session")
    session.host.initialize()
    first = session.host.call("look")

    session.switch("s-2")
    second = session.host.call("look", 2)

    assert (first["env"]["SESSION"], second["env"]["SESSION"]) == ("s-1", "s-2")
    assert second["env"]["CLAUDE_CODE_SESSION_ID"] == "s-2"
    assert second["meta"][KEY.text]["sessionId"] == "s-2"
    wait_until_gone(first["pid"])


def test_a_changed_session_is_refused_if_asked(claude: Callable[..., Claude]) -> None:
    session = claude("--on-change", "refuse", "--cwd", "keep")
    session.host.initialize()
    session.host.call("look")
    session.switch("s-2")

    session.host.send(call("look", 2), request("prompts/get", 3), request("tools/list", 4))

    for _ in range(2):
        refused = read_refusal(session.host.answer())
        assert "belongs to session s-2, but this server serves session s-1" in refused
    assert "result" in session.host.answer()


def test_calls_in_flight_finish_before_the_server_is_replaced(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    session = claude("--env", "SESSION=session")
    host = session.begin()
    flag = tmp_path / "go"

    host.send(call("wait", 2, path=str(flag)))
    assert host.answer()["method"] == "notifications/message"  # it is at it
    session.switch("s-2")
    host.send(call("look", 3), request("ping", 4))
    host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}})
    flag.touch()

    assert host.answer()["result"] == {"waited": str(flag)}
    answer = host.answer()
    assert answer["id"] == 3
    assert answer["result"]["env"]["SESSION"] == "s-2"
    assert "ping" not in methods(host.call("look", 5))


def test_a_call_that_takes_too_long_is_answered_with_an_error(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    session = claude("--env", "SESSION=session", run=with_constants(DRAIN_LIMIT=0.2))
    host = session.begin()

    host.send(call("wait", 2, path=str(tmp_path / "never")))
    assert host.answer()["method"] == "notifications/message"
    session.switch("s-2")
    host.send(call("look", 3))

    late = host.answer()
    assert late["id"] == 2
    assert "was replaced, because its session has changed; tools/call" in read_refusal(late)
    assert host.answer()["result"]["env"]["SESSION"] == "s-2"


def test_what_the_server_still_asks_the_host_is_taken_back(claude: Callable[..., Claude]) -> None:
    session = claude("--env", "SESSION=session", run=with_constants(DRAIN_LIMIT=0.2))
    host = session.begin()
    host.send(call("ask", 2))
    assert host.answer() == {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"}

    session.switch("s-2")
    host.send(call("look", 3))

    said = [host.answer() for _ in range(3)]
    assert said[0]["id"] == 2
    assert said[1]["method"] == "notifications/cancelled"
    assert said[1]["params"]["requestId"] == 1
    assert said[2]["result"]["env"]["SESSION"] == "s-2"

    # Its answer comes too late, and the new server counts from the same number.
    host.send(call("ask", 4))
    asked = host.answer()
    assert str(asked["id"]).startswith("mcp-launch/")
    host.send({"jsonrpc": "2.0", "id": 1, "result": {"of": "the old"}})
    host.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"of": "the new"}})
    told = host.answer()["result"]["told"]
    assert (told["id"], told["result"]) == (1, {"of": "the new"})


def test_the_host_answers_the_old_server_while_it_finishes(claude: Callable[..., Claude]) -> None:
    session = claude("--env", "SESSION=session")
    host = session.begin()
    host.send(call("ask", 2))
    host.answer()

    session.switch("s-2")
    host.send(call("look", 3))
    host.send({"jsonrpc": "2.0", "id": 1, "result": {"of": "the host"}})

    assert host.answer()["result"]["told"]["result"] == {"of": "the host"}
    assert host.answer()["result"]["env"]["SESSION"] == "s-2"


def test_what_is_in_force_is_said_again(claude: Callable[..., Claude]) -> None:
    session = claude("--env", "SESSION=session")
    host = session.begin()
    for number, (method, params) in enumerate(
        [
            ("logging/setLevel", {"level": "debug"}),
            ("logging/setLevel", {"level": "error"}),
            ("resources/subscribe", {"uri": "file:///a"}),
            ("resources/subscribe", {"uri": "file:///b"}),
            ("resources/unsubscribe", {"uri": "file:///a"}),
        ]
    ):
        host.send(request(method, 10 + number, **params))
        host.answer()

    session.switch("s-2")
    sight = host.call("look", 2)
    after = host.call("look", 3)

    assert methods(sight) == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
        "tools/call",
    ]
    assert sight["heard"][2]["params"] == {"level": "error"}
    assert sight["heard"][3]["params"] == {"uri": "file:///b"}
    ids = {message.get("id") for message in sight["heard"]} - {None, 2}
    assert all(str(one).startswith("mcp-launch/") for one in ids)
    assert after["calls"] == 2, "no answer to our own requests came between"


@pytest.mark.parametrize(
    ("server", "is_told"),
    [
        (("--tools", "SESSION", "--announces"), True),
        (("--tools", "SESSION"), False),
        (("--announces",), False),
    ],
    ids=["other tools", "other tools that nobody announced", "the same tools"],
)
def test_the_host_is_told_of_other_tools(
    claude: Callable[..., Claude], server: tuple[str, ...], is_told: bool
) -> None:
    session = claude("--env", "SESSION=session", server=server)
    host = session.host
    host.initialize()
    host.ask("tools/list")
    host.call("look")

    session.switch("s-2")
    host.send(call("look", 2), request("ping", 3))

    said = [host.answer() for _ in range(2 + is_told)]
    told = [one for one in said if "method" in one]
    assert told == [
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"} for _ in range(is_told)
    ]
    assert {one["id"] for one in said if "id" in one} == {2, 3}


def test_a_stream_of_the_new_era_goes_on_with_the_new_server(
    claude: Callable[..., Claude],
) -> None:
    session = claude("--env", "SESSION=session", server=("--tools", "SESSION"))
    host = session.host
    host.send(request("server/discover", "probe"))
    host.answer()
    host.ask("tools/list")
    host.send(request("subscriptions/listen", "s", notifications={"toolsListChanged": True}))
    assert host.answer()["method"] == "notifications/subscriptions/acknowledged"
    host.call("look")

    session.switch("s-2")
    host.send(call("look", 2))

    said = [host.answer() for _ in range(2)]
    (changed,) = (one for one in said if "method" in one)
    (sight,) = (one["result"] for one in said if "result" in one)
    assert changed["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "s"}
    assert sight["env"]["SESSION"] == "s-2"
    assert methods(sight)[0] == "subscriptions/listen"
    assert sight["heard"][0]["id"] == "s"


# Death.


def test_a_server_that_died_between_calls_is_replaced(
    codex: Callable[..., Launch], tmp_path: Path
) -> None:
    host = codex(threads=(A,))
    host.initialize()
    first = host.call("look", meta=of(A))

    kill(first["pid"])
    second = host.call("look", 2, meta=of(A))

    assert second["pid"] != first["pid"]
    assert methods(second) == ["initialize", "notifications/initialized", "tools/call"]
    assert second["env"]["CODEX_THREAD_ID"] == A
    lease = wait_for_lease(tmp_path / "state", lambda lease: lease["restarts"] == 1)
    assert lease["processes"]["server"]["pid"] == second["pid"]
    assert lease["binding"]["state"] == "confirmed"


def test_a_call_in_flight_is_answered_with_how_the_server_died(runner: LaunchRunner) -> None:
    launch = runner.launch("--server", "docs", "--", *SCRIPTED_SERVER)
    launch.initialize()

    launch.send(call("die", 2, code=7))
    died = launch.answer()
    alive = launch.call("look", 3)

    assert died["id"] == 2
    assert read_refusal(died) == (
        "[mcp-launch] docs ended with exit code 7 while it was at work; the end of its stderr: "
        "about to die / of old age; tools/call was not answered, "
        "but it may have taken effect — fix: check before you repeat it"
    )
    assert alive["calls"] == 1


def test_what_a_dead_server_has_not_read_is_the_next_ones(runner: LaunchRunner) -> None:
    """It cannot have begun that, so nothing is done twice."""
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    first = launch.call("look")

    stop(first["pid"])
    for number in range(3):
        launch.send(call("look", 10 + number))
    os.kill(first["pid"], signal.SIGKILL)

    answers = [launch.answer() for _ in range(3)]
    assert [answer["id"] for answer in answers] == [10, 11, 12]
    assert [answer["result"]["calls"] for answer in answers] == [1, 2, 3]
    assert "outer" not in answers[0]["result"]["meta"][KEY.text]


def test_a_server_that_dies_again_and_again_ends_the_launch(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()

    for number in range(4):
        launch.send(call("die", number, code=9))
        assert "exit code 9" in read_refusal(launch.answer())

    assert launch.read_line() == b""
    assert launch.wait() == 9


def test_a_server_that_cannot_be_started_again_ends_the_launch(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER, "--once", str(tmp_path / "once"))
    launch.initialize()
    first = launch.call("look")

    stop(first["pid"])
    launch.send(call("look", 2))
    os.kill(first["pid"], signal.SIGKILL)

    last = launch.answer()
    assert last["id"] == 2
    assert (
        "ended with exit code 1 before it answered; the end of its stderr: it has"
        in read_refusal(last)
    )
    assert launch.wait() == 1


def test_a_dead_server_stays_dead_if_asked(runner: LaunchRunner) -> None:
    launch = runner.launch("--restart", "off", "--", *SCRIPTED_SERVER)
    launch.initialize()

    launch.send(call("die", 1, code=9))

    assert "exit code 9" in read_refusal(launch.answer())
    assert launch.read_line() == b""
    assert launch.wait() == 9


def test_a_server_that_refuses_the_greeting_is_not_started_again(runner: LaunchRunner) -> None:
    code = (
        "import os, sys\n"
        "sys.stdin.readline()\n"
        'os.write(1, b\'{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}\\n\')\n'
        "sys.exit(6)\n"
    )
    launch = runner.launch("--", *python(code))

    assert launch.initialize()["error"] == {"code": 1, "message": "no"}
    assert launch.wait() == 6


def test_a_server_that_dies_instead_of_finishing_is_replaced_all_the_same(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    session = claude("--env", "SESSION=session", run=with_constants(DRAIN_LIMIT=1.0))
    host = session.host
    host.initialize()
    first = host.call("look")
    host.send(call("wait", 2, path=str(tmp_path / "never")))
    host.answer()
    session.switch("s-2")
    host.send(call("look", 3))

    kill(first["pid"])

    assert "was killed by signal 9" in read_refusal(host.answer())
    second = host.answer()["result"]
    assert second["env"]["SESSION"] == "s-2"
    # Longer than the old one would have had: nobody's patience ends with the new one.
    with pytest.raises(subprocess.TimeoutExpired):
        host.wait(1.2)
    assert host.call("look", 4)["pid"] == second["pid"]


def test_a_call_that_is_cancelled_is_not_waited_for(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    session = claude("--env", "SESSION=session")
    host = session.begin()
    host.send(call("wait", 2, path=str(tmp_path / "never")))
    host.answer()
    session.switch("s-2")
    host.send(call("look", 3))

    host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})

    answer = host.answer()
    assert (answer["id"], answer["result"]["env"]["SESSION"]) == (3, "s-2")


def test_many_replacements_leave_no_descriptor_open(codex: Callable[..., Launch]) -> None:
    host = codex("--on-change", "restart", "--no-record", threads=(A,))
    host.initialize()
    counts = []
    for number in range(6):
        host.call("look", number, meta=of((A, B)[number % 2]))
        counts.append(len(os.listdir(f"/proc/{host.child}/fd")))

    assert len(set(counts)) == 1


def test_nothing_is_left_when_the_host_dies_between_two_servers(
    codex: Callable[..., Launch],
) -> None:
    host = codex(threads=(A, B))
    host.initialize()
    host.send(call("look", 1, meta=of(A)))

    host.process.kill()

    wait_until_gone(host.child)


# Awkward moments.


def test_what_a_server_said_before_it_died_arrives_however_slow_the_host_is(
    runner: LaunchRunner,
) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    for number in range(20):
        launch.send(call("big", 10 + number, size=10_000))
    launch.send(call("die", 99))

    answers = [launch.answer() for _ in range(21)]

    assert [answer["id"] for answer in answers] == [*range(10, 30), 99]
    assert all("result" in answer for answer in answers[:-1])
    assert launch.call("look", 100)["calls"] == 1


def test_a_server_that_dies_within_a_line_does_not_spoil_the_next_ones(
    runner: LaunchRunner,
) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.send(call("half", 2, size=300_000))

    half = launch.read_line()
    assert half.startswith(b'{"jsonrpc":"2.0","id":2,"result":{"text":"xxx')
    assert "exit code 5" in read_refusal(launch.answer())
    assert launch.call("look", 3)["calls"] == 1


def test_half_a_line_is_no_noise(runner: LaunchRunner) -> None:
    launch = runner.launch("--stdout", "strict", "--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.send(call("half", 2, size=100))

    assert "exit code 5" in read_refusal(launch.answer())
    assert launch.call("look", 3)["calls"] == 1


def test_a_child_that_a_dead_server_leaves_does_not_cost_the_connection(
    runner: LaunchRunner,
) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.send(call("leave", 2))

    assert "exit code 5" in read_refusal(launch.answer())
    assert launch.call("look", 3)["calls"] == 1


def test_a_host_that_hung_up_and_reads_late_gets_everything(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.send(call("big", 2, size=22_000))  # what two pipes can hold
    launch.close()
    with pytest.raises(subprocess.TimeoutExpired):
        launch.wait(3)  # longer than the server has to finish

    assert len(launch.answer()["result"]["text"]) == 88_000
    assert launch.wait() == 0


def test_a_server_that_is_started_for_nobody_is_ended(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    """The host hangs up while one call hangs and another waits for the next server."""
    session = claude("--env", "SESSION=session", run=with_constants(DRAIN_LIMIT=0.2))
    host = session.host
    host.send(request("server/discover", "probe"))
    host.answer()
    host.call("look")
    host.send(call("wait", 2, path=str(tmp_path / "never")))
    host.answer()
    session.switch("s-2")
    host.send(call("wait", 3, path=str(tmp_path / "never")))
    host.close()

    wait_until_gone(host.child)


def test_a_replacement_that_fails_changes_nothing(
    codex: Callable[..., Launch], runner: LaunchRunner
) -> None:
    (runner.project / "my.env").write_text("X=1\n", encoding="utf-8")
    host = codex("--on-change", "restart", "--dotenv", "my.env", threads=(A,))
    host.initialize()
    first = host.call("look", meta=of(A))
    (runner.project / "my.env").unlink()

    for number in (2, 3):
        host.send(call("look", number, meta=of(B)))
        assert "my.env: No such file" in read_refusal(host.answer())
    assert host.call("look", 4, meta=of(A))["pid"] == first["pid"]


def test_a_thread_that_no_variable_can_hold_is_refused(codex: Callable[..., Launch]) -> None:
    host = codex("--on-change", "restart", threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))

    host.send(call("look", 2, meta=of("t\0")))

    assert "cannot be passed to a program" in read_refusal(host.answer())
    assert host.call("look", 3, meta=of(A))["calls"] == 2


def test_a_server_started_again_is_started_for_the_session_of_the_moment(
    claude: Callable[..., Claude],
) -> None:
    session = claude()
    session.host.initialize()
    first = session.host.call("look")
    session.switch("s-2")
    kill(first["pid"])

    second = session.host.call("look", 2)

    assert second["env"]["CLAUDE_CODE_SESSION_ID"] == "s-2"
    assert second["env"]["MCP_LAUNCH_SESSION_ID"] == "s-2"


def test_a_server_that_was_never_called_is_not_kept_for_a_changed_session(
    claude: Callable[..., Claude],
) -> None:
    """It took a dead one's place; then came `/clear`, then its first call."""
    session = claude()
    session.host.initialize()
    kill(session.host.call("look")["pid"])
    session.host.ask("ping")
    session.switch("s-2")

    sight = session.host.call("look", 2)

    assert sight["env"]["MCP_LAUNCH_SESSION_ID"] == "s-2"


def test_a_session_that_came_back_meanwhile_gets_a_server_of_its_own(
    claude: Callable[..., Claude],
) -> None:
    """The server died while another session was current, and no call told of that one."""
    session = claude("--env", "SESSION=session")
    session.host.initialize()
    first = session.host.call("look")
    session.switch("s-2")
    kill(first["pid"])
    session.host.ask("ping")  # there is a server again
    session.switch("s-1")

    sight = session.host.call("look", 2)

    assert sight["env"]["SESSION"] == "s-1"
    assert sight["meta"][KEY.text]["sessionId"] == "s-1"


def test_an_unread_call_is_not_served_for_the_one_that_came_after_it(
    codex: Callable[..., Launch],
) -> None:
    host = codex("--on-change", "restart", threads=(A,))
    host.initialize()
    first = host.call("look", meta=of(A))
    stop(first["pid"])
    host.send(call("look", 2, meta=of(A)), call("look", 3, meta=of(B)), request("ping", 4))
    kill(first["pid"])

    sights = {answer["id"]: answer["result"] for answer in (host.answer() for _ in range(3))}

    for number, thread in ((2, A), (3, B)):
        assert sights[number]["env"]["CODEX_THREAD_ID"] == thread
        assert sights[number]["meta"][KEY.text]["threadId"] == thread


def test_a_host_that_hung_up_is_told_how_the_server_died(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.send(call("die", 2, code=9))
    launch.close()

    assert "exit code 9" in read_refusal(launch.answer())
    assert launch.wait() == 9


def test_a_greeting_that_was_refused_later_is_not_repeated(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.send(request("initialize", 1, refuse=True))
    assert "error" in launch.answer()
    kill(launch.call("look", 2)["pid"])

    assert "refuse" not in launch.call("look", 3)["heard"][0]["params"]


def test_a_failure_reaches_a_host_that_reads_late(runner: LaunchRunner, tmp_path: Path) -> None:
    """Its pipe is full when the launch ends: the answer waits for room."""
    launch = runner.launch("--", *SCRIPTED_SERVER, "--once", str(tmp_path / "once"))
    launch.initialize()
    first = launch.call("look")
    launch.send(call("exactly", 2, size=65_536))
    wait_for_lease(tmp_path / "state", lambda lease: lease["calls"] == 2)
    stop(first["pid"])
    launch.send(call("look", 3))
    kill(first["pid"])
    assert launch.process.stderr
    while b"before it answered" not in launch.process.stderr.readline():
        pass  # so the launch is at its end, and nobody has read anything

    assert launch.answer()["id"] == 2
    assert "before it answered" in read_refusal(launch.answer())


def test_the_lease_has_a_changed_session_before_the_call_arrives(
    claude: Callable[..., Claude],
) -> None:
    """A launch below this one asks for it while it serves that very call."""
    session = claude()
    session.host.initialize()
    for number in range(1, 4):
        session.switch(f"s-{number}")
        sight = session.host.call("look", number)
        assert sight["lease"]["binding"]["session"] == f"s-{number}"
        assert sight["lease"]["context"]["session"]["value"] == f"s-{number}"


def spell_oddly(message: dict[str, Any]) -> list[bytes]:
    """Return lines that a server would read as this message."""
    text = json.dumps(message).encode()
    deep = json.dumps({**message, "params": {**message["params"], "arguments": "DEEP"}})
    nested = deep.replace('"DEEP"', "[" * 5000 + "]" * 5000).encode()
    return [
        b"\xef\xbb\xbf" + text + b"\n",
        nested + b"\n",
    ]


def test_no_spelling_of_a_call_gets_past_the_judge(codex: Callable[..., Launch]) -> None:
    host = codex("--on-change", "refuse", threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))

    for line in spell_oddly(call("look", 2, meta=of(B))):
        host.write(line)
        assert "but this server serves thread" in read_refusal(host.answer()), line[:99]

    sight = host.call("look", 3, meta=of(A))
    assert B not in str(sight["heard"])
    host.write(json.dumps(call("look", 4, meta=of(B))).encode())
    host.close()  # in place of the end of the line
    assert "but this server serves thread" in read_refusal(host.answer())


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"[", b"]"), (b'{"jsonrpc":"2.0","method":"notifications/x"}', b""), (b"", b" and so on")],
    ids=["an array", "another message", "words"],
)
def test_what_surrounds_a_call_in_its_line_does_not_hide_it(
    before: bytes, after: bytes, codex: Callable[..., Launch]
) -> None:
    host = codex("--on-change", "refuse", threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))

    host.write(before + json.dumps(call("look", 2, meta=of(B))).encode() + after + b"\n")

    assert "not delivered" in host.answer()["error"]["message"]
    assert B not in str(host.call("look", 3, meta=of(A))["heard"])


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":' + b"[" * 600 + b"]" * 600 + b',"method":"ping"}\n',
        b'{"jsonrpc":"2.0","method":"x","params":{"_meta":{"threadId":'
        + b"[" * 600
        + b"]" * 600
        + b"}}}\n",
        b'{"method":{"a":1},"id":1}\n',
        b"{}\n",
        b'"text"\n',
        b'{"jsonrpc":"2.0","id":007,"method":"tools/call","params":{"_meta":{"a":1},"name":"big"}}\n',
        b'{"id":null,"jsonrpc":"2.0","method":"ping"}\n',
    ],
)
def test_an_odd_message_ends_nothing(line: bytes, codex: Callable[..., Launch]) -> None:
    """It is the server's to answer, or to die of."""
    host = codex(threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))
    host.write(line)

    answer: dict[str, Any] = {}
    # It may have been in flight when the server died.
    while answer.get("id") != 2 or "isError" in answer["result"]:
        host.send(call("look", 2, meta=of(A)))
        while (answer := host.answer()).get("id") != 2:
            pass  # of the odd message
    assert answer["result"]["meta"][KEY.text]["threadId"] == A


def test_a_context_deeper_than_any_chain_arrives_as_it_was_sent(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    deep = "[" * 600 + "]" * 600
    line = json.dumps(call("look", 1, meta={KEY.text: {"a": "DEEP"}})).replace('"DEEP"', deep)

    launch.write(line.encode() + b"\n")

    outer = launch.answer()["result"]["meta"][KEY.text]["outer"]
    assert json.dumps(outer) == json.dumps({"a": json.loads(deep)})


def test_an_answer_is_counted_off_however_long_and_odd_it_is(runner: LaunchRunner) -> None:
    """Servers that use `json.dumps` write their answers with spaces."""
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.call("big", 1, size=50_000)
    launch.send(call("die", 2))

    assert launch.answer()["id"] == 2, "the first has had its answer"
    assert launch.call("look", 3)["calls"] == 1


def test_a_long_question_of_a_later_server_is_answered(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    kill(launch.call("look")["pid"])

    launch.send(call("ask at length", 2))
    asked = launch.answer()
    launch.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"of": "the host"}})

    assert launch.answer()["result"]["told"]["result"] == {"of": "the host"}


def test_the_greeting_that_was_accepted_is_repeated(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.ask("ping")
    launch.send(request("initialize", 1, refuse=True))
    assert "error" in launch.answer()
    launch.send(request("initialize", 2, capabilities={"second": {}}))
    assert "result" in launch.answer()
    kill(launch.call("look", 3)["pid"])

    heard = launch.call("look", 4)["heard"]

    assert heard[0]["method"] == "initialize"
    assert heard[0]["params"] == {"capabilities": {"second": {}}}


def test_a_cancelled_list_of_tools_is_not_waited_for(runner: LaunchRunner) -> None:
    code = (
        "import os, sys\n"
        "for line in sys.stdin:\n"
        '    if \'initialize"\' in line: os.write(1, b\'{"id":0,"result":{}}\\n\')\n'
        "    if 'cancelled' in line: os.write(1, b'{\"id\":9,\"result\":\"' + b'x' * 100000)\n"
    )
    launch = runner.launch("--", *python(code))
    launch.initialize()
    launch.send(request("tools/list", 5))
    launch.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})

    assert launch.process.stdout
    assert os.read(launch.process.stdout.fileno(), 100).startswith(b'{"id":9')


def test_another_page_of_tools_is_another_list(claude: Callable[..., Claude]) -> None:
    session = claude("--env", "SESSION=session", server=("--pages", "SESSION", "--announces"))
    host = session.host
    host.initialize()
    host.ask("tools/list")
    host.call("look")
    session.switch("s-2")
    host.send(call("look", 2))

    said = [host.answer(), host.answer()]
    assert "notifications/tools/list_changed" in [one.get("method") for one in said]


def test_calls_keep_their_order_while_roots_are_asked_for(
    claude: Callable[..., Claude], runner: LaunchRunner
) -> None:
    session = claude("--on-change", "restart")
    host = session.host
    host.initialize(roots={})
    host.send(call("look", 3))
    host.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
    host.send(call("look", 4), call("look", 5), call("look", 6))
    answer_roots(host, runner.project)
    said: list[tuple[int, int]] = []
    while len(said) < 4:
        one = host.answer()
        if one.get("method") == "roots/list":
            host.send({"jsonrpc": "2.0", "id": one["id"], "result": root_of(runner.project)})
        else:
            said.append((one["id"], one["result"]["calls"]))

    assert said == [(3, 1), (4, 2), (5, 3), (6, 4)]


def test_the_cancellation_of_a_refused_call_never_arrives(codex: Callable[..., Launch]) -> None:
    host = codex("--on-change", "refuse", threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))
    for number in range(100, 200):
        host.send(call("look", number, meta=of(B)))
        host.answer()

    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 199}}
    host.send(gone)

    assert "notifications/cancelled" not in methods(host.call("look", 2, meta=of(A)))


# Roots.


def root_of(path: Path | str) -> dict[str, Any]:
    return {"roots": [{"uri": f"file://{str(path).replace(' ', '%20')}"}]}


def answer_roots(host: Launch, path: Path | str) -> None:
    asked = host.answer()
    assert asked["method"] == "roots/list"
    assert str(asked["id"]).startswith("mcp-launch/")
    host.send({"jsonrpc": "2.0", "id": asked["id"], "result": root_of(path)})


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    path = tmp_path / "work tree"
    (path / ".git").mkdir(parents=True)
    return path


def test_the_host_is_asked_where_it_works(
    claude: Callable[..., Claude], worktree: Path, tmp_path: Path
) -> None:
    """Once after the handshake; the contradiction is noted and nothing else."""
    session = claude()
    session.host.initialize(roots={})
    answer_roots(session.host, worktree)
    wait_for_lease(tmp_path / "state", lambda lease: lease.get("roots") == [str(worktree)])

    sight = session.host.call("look")

    assert methods(sight) == ["initialize", "notifications/initialized", "tools/call"]
    assert sight["cwd"] == str(Path(sight["env"]["CLAUDE_PROJECT_DIR"]))


def test_a_server_that_asks_itself_spares_us_the_question(
    claude: Callable[..., Claude], worktree: Path, tmp_path: Path
) -> None:
    session = claude()
    host = session.host
    host.send(request("initialize", 0, capabilities={"roots": {}}))
    host.answer()
    host.send(call("ask", 1, method="roots/list"))
    assert host.answer() == {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
    host.send({"jsonrpc": "2.0", "id": 1, "result": root_of(worktree)})
    assert host.answer()["result"]["told"]["result"] == root_of(worktree)

    wait_for_lease(tmp_path / "state", lambda lease: lease.get("roots") == [str(worktree)])


def test_a_server_is_moved_to_where_the_host_works_if_asked(
    claude: Callable[..., Claude], worktree: Path
) -> None:
    session = claude("--on-change", "restart")
    session.host.initialize(roots={})
    session.host.send(call("look", 1))
    answer_roots(session.host, worktree)

    sight = session.host.answer()["result"]

    assert sight["cwd"] == str(worktree)
    assert sight["env"]["PWD"] == str(worktree)
    assert sight["env"]["MCP_LAUNCH_PROJECT_ROOT"] == str(worktree)
    assert sight["meta"][KEY.text]["origin"]["cwd"] == "the host's roots/list"
    assert session.host.call("look", 2)["pid"] == sight["pid"]


def test_a_call_from_elsewhere_is_refused_if_asked(
    claude: Callable[..., Claude], worktree: Path, runner: LaunchRunner
) -> None:
    session = claude("--on-change", "refuse")
    session.host.initialize(roots={})
    session.host.send(call("look", 1))
    answer_roots(session.host, worktree)

    refused = read_refusal(session.host.answer())
    assert f"in {worktree} (the host's roots/list)" in refused
    assert f"this server works in {runner.project}" in refused

    session.host.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
    session.host.send(call("look", 2))
    answer_roots(session.host, runner.project)
    assert session.host.answer()["result"]["cwd"] == str(runner.project)


def test_a_host_that_does_not_answer_about_its_roots_holds_up_nothing(
    claude: Callable[..., Claude],
) -> None:
    session = claude("--on-change", "refuse")
    session.host.initialize(roots={})
    session.host.send(call("look", 1))
    session.host.answer()  # the question

    assert session.host.answer()["id"] == 1


def test_a_session_may_move_to_the_home_directory(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    session = claude("--on-change", "restart")
    session.host.initialize(roots={})
    session.host.send(call("look", 1))
    answer_roots(session.host, tmp_path / "home")

    assert session.host.answer()["result"]["cwd"] == str(tmp_path / "home")
    wait_for_lease(tmp_path / "state", lambda one: one["place_note"] == "the home directory")


# What lies around a launch.


def test_an_outer_launch_is_in_the_context(runner: LaunchRunner) -> None:
    """Claude Code starts a host as its server, which starts ours."""
    inner = runner.project.parent / "codex"
    inner.symlink_to(os.path.realpath(sys.executable))
    script = str(HERE / "scripts" / "fake_host.py")
    as_server = [str(inner), "-S", "-E", script, "--quiet", "--", *RUN, "--", *SCRIPTED_SERVER]
    host = runner.launch_below_host(
        "claude",
        command=[*RUN, "--", *as_server],
        env={**os.environ, "CLAUDE_CODE_SESSION_ID": "s-1"},
    )
    host.initialize()

    told = host.call("look", meta=of(A))["meta"][KEY.text]

    assert (told["host"], told["threadId"]) == ("codex", A)
    assert told["outer"]["host"] == "claude"
    assert told["outer"]["sessionId"] == "s-1"
    assert told["outer"]["launchId"] != told["launchId"]


def test_two_launches_before_one_server_keep_the_chain(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *RUN, "--", *SCRIPTED_SERVER)
    launch.initialize()

    told = launch.call("look")["meta"][KEY.text]

    assert told["outer"]["launchId"] != told["launchId"]
    assert "outer" not in told["outer"]


def test_long_results_pass_after_a_replacement(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    kill(launch.call("look")["pid"])

    assert len(launch.call("big", 2, size=750_000)["text"]) == 3_000_000
