"""A server is replaced under a living connection: real hosts' names, real processes."""

from __future__ import annotations

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

from mcp_launch.broker.stamp import KEY

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
    assert first["meta"][KEY]["threadId"] == A
    assert first["calls"] == 1
    assert methods(first) == ["initialize", "notifications/initialized", "tools/call"]
    assert (second["pid"], second["calls"]) == (first["pid"], 2)


def test_a_right_guess_costs_no_second_server(codex: Callable[..., Launch], tmp_path: Path) -> None:
    host = codex(threads=(A, B))
    host.initialize()

    assert host.call("look", meta=of(B))["env"]["CODEX_THREAD_ID"] == B
    lease = wait_for_lease(tmp_path / "state", lambda lease: lease["calls"] == 1)
    assert lease["restarts"] == 0


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


def test_a_host_that_says_all_at_once_and_hangs_up_is_answered_in_order(
    codex: Callable[..., Launch],
) -> None:
    """The server that runs by then is another thread's."""
    host = codex(threads=(A, B))
    host.send(
        request("initialize", 0),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call("look", 1, meta=of(A)),
        call("look", 2, meta=of(A)),
    )
    host.close()

    assert "capabilities" in host.answer()["result"]
    first, second = host.answer(), host.answer()
    assert [first["id"], second["id"]] == [1, 2]
    assert second["result"]["calls"] == 2
    assert second["result"]["env"]["CODEX_THREAD_ID"] == A
    assert host.read_line() == b""


def test_the_era_without_a_handshake_is_replaced_without_one(codex: Callable[..., Launch]) -> None:
    host = codex(threads=(A, B))
    host.send(request("server/discover", "probe"))
    host.answer()

    sight = host.call("look", meta=of(A))

    assert sight["env"]["CODEX_THREAD_ID"] == A
    assert methods(sight) == ["tools/call"]


# Several threads on one connection, as with Codex's feature `mcp_connection_sharing`.


def test_threads_on_one_connection_have_servers_of_their_own_if_these_ask_for_the_thread(
    codex: Callable[..., Launch],
) -> None:
    host = codex("--env", "THREAD=thread", threads=(A, B))
    host.initialize()

    sights = [host.call("look", n, meta=of(one)) for n, one in enumerate((B, A, B, A), start=1)]

    assert [one["env"]["THREAD"] for one in sights] == [B, A, B, A]
    assert [one["meta"][KEY]["threadId"] for one in sights] == [B, A, B, A]
    assert [one["calls"] for one in sights] == [1, 1, 2, 2]
    assert len({one["pid"] for one in sights}) == 2


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
    assert refused["result"]["isError"] is True
    assert f"this call belongs to thread {B}, but this server serves thread {A}" in read_refusal(
        refused
    )
    assert "error" in resource
    assert f"serves thread {A}" in read_refusal(resource)
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

    assert first["meta"][KEY]["sessionId"] == "s-1"
    assert second["meta"][KEY]["sessionId"] == "s-2"
    assert (second["pid"], second["calls"]) == (first["pid"], 2)


def test_a_server_that_asked_for_its_session_is_replaced(claude: Callable[..., Claude]) -> None:
    session = claude("--env", "SESSION=session")
    session.host.initialize()
    first = session.host.call("look")

    session.switch("s-2")
    second = session.host.call("look", 2)

    assert (first["env"]["SESSION"], second["env"]["SESSION"]) == ("s-1", "s-2")
    assert second["env"]["CLAUDE_CODE_SESSION_ID"] == "s-2"
    assert second["meta"][KEY]["sessionId"] == "s-2"
    wait_until_gone(first["pid"])


def test_calls_in_flight_finish_before_the_server_is_replaced(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    session = claude("--env", "SESSION=session")
    host = session.begin()
    flag = tmp_path / "go"

    host.send(call("wait", 2, path=str(flag)))
    assert host.answer()["method"] == "notifications/message"  # it is at it
    session.switch("s-2")
    host.send(call("look", 3), request("resources/read", 4, uri="file:///x"))
    host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}})
    flag.touch()

    assert host.answer()["result"] == {"waited": str(flag)}
    answer = host.answer()
    assert answer["id"] == 3
    assert answer["result"]["env"]["SESSION"] == "s-2"
    assert "resources/read" not in methods(host.call("look", 5))


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
    assert "outer" not in answers[0]["result"]["meta"][KEY]


def test_a_server_that_dies_again_and_again_rests_for_a_while(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()

    for number in range(4):
        launch.send(call("die", number, code=9))
        assert "exit code 9" in read_refusal(launch.answer())

    launch.send(call("look", 5))
    assert "it has died 4 times within a minute" in read_refusal(launch.answer())
    while "isError" in (sight := launch.call("look", 6)):
        pass  # the next attempt is made after a second
    assert sight["calls"] == 1
    assert launch.finish()[0] == 0


def test_a_server_that_cannot_be_started_again_is_reported_to_each_call(
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
    launch.send(call("look", 3))
    assert "before it answered" in read_refusal(launch.answer())
    assert launch.finish()[0] == 0


def test_a_server_that_refuses_the_greeting_is_not_started_again(runner: LaunchRunner) -> None:
    code = (
        "import json, os, sys\n"
        "asked = json.loads(sys.stdin.readline())\n"
        "answer = {'jsonrpc': '2.0', 'id': asked['id'], 'error': {'code': 1, 'message': 'no'}}\n"
        "os.write(1, json.dumps(answer).encode() + b'\\n')\n"
        "sys.exit(6)\n"
    )
    launch = runner.launch("--", *python(code))

    assert launch.initialize()["error"] == {"code": 1, "message": "no"}
    assert launch.wait() == 6


def test_many_replacements_leave_no_descriptor_open(codex: Callable[..., Launch]) -> None:
    host = codex("--on-change", "restart", "--no-record", threads=(A,))
    host.initialize()
    counts = []
    for number in range(8):
        host.call("look", number, meta=of((A, B)[number % 2]))
        counts.append(len(os.listdir(f"/proc/{host.child}/fd")))

    # The records of calls, which are not always open, may make a difference of one or two.
    assert counts[-1] < counts[0] + 4


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
        assert sights[number]["meta"][KEY]["threadId"] == thread


def test_a_host_that_hung_up_is_told_how_the_server_died(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.send(call("die", 2, code=9))
    launch.close()

    assert "exit code 9" in read_refusal(launch.answer())
    assert launch.wait() == 9


def test_a_failure_reaches_a_host_that_reads_late(runner: LaunchRunner, tmp_path: Path) -> None:
    """Its pipe is full when the server cannot be started: the answer waits for room."""
    launch = runner.launch("--", *SCRIPTED_SERVER, "--once", str(tmp_path / "once"))
    launch.initialize()
    first = launch.call("look")
    launch.send(call("exactly", 2, size=65_536))
    wait_for_lease(tmp_path / "state", lambda lease: lease["calls"] == 2)
    stop(first["pid"])
    launch.send(call("look", 3))
    kill(first["pid"])
    wait_for_lease(tmp_path / "state", lambda lease: lease["state"] == "failed")

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


DEEP = b"[" * 600 + b"]" * 600

ODD = {
    "a deep id": b'{"jsonrpc":"2.0","id":' + DEEP + b',"method":"ping"}\n',
    "a deep thread": b'{"method":"x","params":{"_meta":{"threadId":' + DEEP + b"}}}\n",
    "a method that is none": b'{"method":{"a":1},"id":1}\n',
    "an empty object": b"{}\n",
    "a text": b'"text"\n',
    "an id with zeros": b'{"id":007,"method":"tools/call","params":{"_meta":{},"name":"big"}}\n',
    "no id": b'{"id":null,"jsonrpc":"2.0","method":"ping"}\n',
}


@pytest.mark.parametrize("line", ODD.values(), ids=ODD)
def test_an_odd_message_ends_nothing(line: bytes, codex: Callable[..., Launch]) -> None:
    """It is the server's to answer, or to die of."""
    host = codex(threads=(A,))
    host.initialize()
    host.write(line)

    answer: dict[str, Any] = {}
    # It may have been in flight when the server died.
    while answer.get("id") != 2 or "isError" in answer["result"]:
        host.send(call("look", 2, meta=of(A)))
        while (answer := host.answer()).get("id") != 2:
            pass  # of the odd message
    assert answer["result"]["meta"][KEY]["threadId"] == A


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


# Roots.


def root_of(path: Path | str) -> dict[str, Any]:
    return {"roots": [{"uri": f"file://{str(path).replace(' ', '%20')}"}]}


def answer_roots(host: Launch, path: Path | str) -> None:
    asked = host.answer()
    assert asked["method"] == "roots/list"
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
    assert sight["meta"][KEY]["origin"]["cwd"] == "the host's roots/list"
    assert session.host.call("look", 2)["pid"] == sight["pid"]


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

    told = host.call("look", meta=of(A))["meta"][KEY]

    assert (told["host"], told["threadId"]) == ("codex", A)
    assert told["outer"]["host"] == "claude"
    assert told["outer"]["sessionId"] == "s-1"
    assert told["outer"]["launchId"] != told["launchId"]
