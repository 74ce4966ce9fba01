"""Several launches share one server (`--share project`): real launches, a real server.

The server tells who it is and keeps calls open until another call releases them, so no test
depends on how fast anything is. What must not arrive is proved by what arrives next: messages
of one connection keep their order.
"""

from __future__ import annotations

import errno
import itertools
import os
import signal
import socket
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from launches import (
    LIMIT,
    RUN,
    Launch,
    call,
    read_refusal,
    request,
    wait_for_lease,
    wait_until_gone,
)
from sessions import kill, stop
from shared_servers import (
    MODERN,
    PREFIX,
    SESSION_SERVER,
    SHARE,
    Sharing,
    answer_to,
    cancel,
    greet,
    hold,
    read_pid,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How many calls a connection sends without waiting for an answer.
FLOOD = 5000

# How many bytes each of them has, so that few of them fit into the server's pipe.
FLOOD_CALL = 1500


# One server, and who is who.


def test_a_server_that_cannot_be_shared_says_why_in_plain_words(sharing: Sharing) -> None:
    sharing.state.mkdir()
    (sharing.state / "pools").write_text("in the way", encoding="utf-8")

    assert read_pid(sharing.join())

    shown = run_command("logs", "-v").stdout
    assert "not shared, a server of its own is started: " in shown
    assert str(sharing.state / "pools") in shown
    assert "Errno" not in shown


def test_each_call_names_its_own_launch(sharing: Sharing) -> None:
    first, second, _ = sharing.join_two()

    told = [one.call("echo")["context"]["launchId"] for one in (first, second, first, second)]

    assert told[0] == told[2]
    assert told[1] == told[3]
    assert told[0] != told[1]


def test_another_project_gets_another_server_in_its_own_directory(
    sharing: Sharing, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    first, second, pid = sharing.join_two()

    third = sharing.join(cwd=other).call("echo")

    assert third["pid"] != pid
    assert third["cwd"] == str(other)
    for one in (first, second):
        told = one.call("echo")
        assert (told["pid"], told["cwd"]) == (pid, str(sharing.runner.project))


def test_another_environment_gets_another_server(sharing: Sharing) -> None:
    _, _, pid = sharing.join_two()

    third = sharing.join("--set", "TOKEN=other")

    assert read_pid(third) != pid


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param(["sh", "-c", 'umask 077; exec "$@"', "sh"], id="another umask"),
        pytest.param(["setpriv", "--no-new-privs"], id="fewer rights"),
        pytest.param(["unshare", "--user", "--map-root-user", "--net"], id="no network"),
    ],
)
def test_a_launch_in_a_sandbox_gets_another_server(sharing: Sharing, prefix: list[str]) -> None:
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"{prefix[0]} does not work here")
    first = sharing.join()
    command = [*prefix, *RUN, *SHARE, "--", *SESSION_SERVER]
    second = sharing.runner.start(command)
    greet(second)

    assert read_pid(first) != read_pid(second)


def test_a_directory_that_was_made_again_gets_another_server(
    sharing: Sharing, tmp_path: Path
) -> None:
    project = tmp_path / "worktree"
    project.mkdir()
    first = sharing.join(cwd=project)
    pid = read_pid(first)
    project.rename(tmp_path / "removed")
    project.mkdir()

    second = sharing.join(cwd=project)

    there = second.call("echo")
    assert there["pid"] != pid
    assert there["cwd"] == str(project)


def test_each_session_is_answered_in_the_version_that_it_asked_for(sharing: Sharing) -> None:
    old, new, as_old = sharing.connect(), sharing.connect(), sharing.connect()

    answers = [greet(old, "2025-06-18"), greet(new, "2025-11-25"), greet(as_old, "2025-06-18")]

    versions = [answer["result"]["protocolVersion"] for answer in answers]
    assert versions == ["2025-06-18", "2025-11-25", "2025-06-18"]
    assert read_pid(old) == read_pid(as_old)
    assert read_pid(old) != read_pid(new)


def test_a_lease_names_the_server_that_a_session_got(sharing: Sharing) -> None:
    old, new = sharing.connect(), sharing.connect()
    greet(old, "2025-06-18")
    greet(new, "2025-11-25")  # by now it is known that these two cannot share

    pids = [read_pid(old), read_pid(new)]
    wait_for_lease(sharing.state, lambda lease: lease["processes"]["server"]["pid"] == pids[0])
    wait_for_lease(sharing.state, lambda lease: lease["processes"]["server"]["pid"] == pids[1])


def test_the_log_of_a_session_does_not_say_that_the_server_of_others_has_ended(
    sharing: Sharing,
) -> None:
    first, _, _ = sharing.join_two()

    first.finish()

    ends = [
        line
        for path in (sharing.state / "logs").iterdir()
        for line in path.read_text(encoding="utf-8").splitlines()
        if "ended:" in line
    ]
    assert len(ends) == 1
    assert "it has left the shared server" in ends[0]


def test_fifty_launches_at_the_same_moment_make_one_server(sharing: Sharing) -> None:
    launches: list[Launch] = []
    for _ in range(50):
        group = launches[0].pid if launches else 0
        launches.append(sharing.connect(process_group=group))
        os.kill(launches[-1].pid, signal.SIGSTOP)
        launches[-1].send(request("initialize", 0, capabilities={}, protocolVersion="2025-11-25"))
    os.killpg(launches[0].pid, signal.SIGCONT)
    for launch in launches:
        assert "result" in launch.answer()
        launch.send(call("echo", 1))

    pids = {launch.answer()["result"]["pid"] for launch in launches}

    assert len(pids) == 1
    assert len(sharing.list_records()) == 1


# Ids, tokens and cancellations.


# What is sent as an id, word for word: a parser that reads it as a float changes the second.
def test_the_same_id_is_answered_to_the_session_that_the_answer_is_for(sharing: Sharing) -> None:
    first, second, _ = sharing.join_two()
    hold(first, 9, "first")
    hold(second, 9, "second")

    assert second.call("release", 1, key="first")["released"] == "first"
    answer = first.answer()
    assert (answer["id"], answer["result"]["held"]) == (9, "first")
    assert first.call("release", 2, key="second")["released"] == "second"
    answer = second.answer()
    assert (answer["id"], answer["result"]["held"]) == (9, "second")


def test_progress_reaches_the_session_whose_call_it_is_about(sharing: Sharing) -> None:
    first, second, _ = sharing.join_two()
    hold(first, 3, "first", meta={"progressToken": 7})
    hold(second, 3, "second", meta={"progressToken": 7})

    for reporter, other, key in ((second, first, "first"), (first, second, "second")):
        reporter.call("report", 4, key=key)  # its next message is the answer: no progress
        progress = other.answer()
        assert progress["method"] == "notifications/progress"
        assert (progress["params"]["progressToken"], progress["params"]["message"]) == (7, key)


def test_only_the_call_of_the_session_that_cancels_is_cancelled(sharing: Sharing) -> None:
    first, second, _ = sharing.join_two()
    hold(first, 9, "first")
    hold(second, 9, "second")

    first.send(cancel(9))

    sight = first.call("look")
    assert (sight["cancelled"], sight["held"]) == (["first"], ["second"])
    first.call("release", 2, key="second")
    assert second.answer()["result"]["held"] == "second"


# What the server says and asks by itself.


def test_a_server_request_reaches_the_only_session_at_work(sharing: Sharing) -> None:
    first, second = sharing.connect(), sharing.connect()
    for one in (first, second):
        greet(one, sampling={})
    assert read_pid(first) == read_pid(second)

    for asker, idle in ((first, second), (second, first)):
        asker.send(call("ask", 5, method="sampling/createMessage"))
        asked = asker.answer()
        assert asked["method"] == "sampling/createMessage"
        asker.send(answer_to(asked, text="from the one at work"))

        answer = asker.answer()
        assert answer["id"] == 5
        assert answer["result"]["told"]["result"] == {"text": "from the one at work"}
        assert idle.call("echo", "nothing before this")


def test_a_changed_list_is_announced_to_both(sharing: Sharing) -> None:
    first, second, _ = sharing.join_two()
    method = "notifications/tools/list_changed"

    first.send(call("send", 5, method=method))

    assert first.answer()["method"] == method
    assert first.answer()["id"] == 5
    assert second.answer()["method"] == method


# The era without a handshake.


def test_two_hosts_without_a_handshake_share_a_server(sharing: Sharing) -> None:
    first, second = sharing.connect(), sharing.connect()

    told = [one.call("echo", 1, meta=MODERN) for one in (first, second)]

    assert told[0]["pid"] == told[1]["pid"]
    assert told[0]["context"]["launchId"] != told[1]["context"]["launchId"]


def test_a_stream_has_its_own_hosts_id_from_the_first_to_the_last_message(
    sharing: Sharing,
) -> None:
    first, second = sharing.connect(), sharing.connect()
    pairs = [(7, first), ("7", second)]
    for stream, host in pairs:
        wanted = {"toolsListChanged": True}
        host.send(request("subscriptions/listen", stream, notifications=wanted, _meta=MODERN))
        acknowledged = host.answer()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert _read_stream(acknowledged["params"]) == stream

    pids = {host.call("echo", "e", meta=MODERN)["pid"] for _, host in pairs}
    assert len(pids) == 1, "each has a server of its own"

    first.send(call("announce", "a", meta=MODERN))
    for stream, host in pairs:
        told = host.answer()
        assert told["method"] == "notifications/tools/list_changed"
        assert _read_stream(told["params"]) == stream
    assert first.answer()["id"] == "a"

    first.send(call("finish", "f", meta=MODERN))
    for stream, host in pairs:
        ended = host.answer()
        assert ended["id"] == stream
        assert _read_stream(ended["result"]) == stream
    assert first.answer()["id"] == "f"
    second.call("echo", "nothing before this", meta=MODERN)


def _read_stream(params: dict[str, Any]) -> object:
    return params["_meta"][f"{PREFIX}subscriptionId"]


# Ends.


def test_the_server_ends_with_the_last_session(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()

    first.close()
    assert first.wait() == 0
    assert read_pid(second) == pid
    second.close()
    assert second.wait() == 0

    wait_until_gone(pid)
    sharing.wait_until_nothing_is_left()


def test_a_later_session_joins_what_an_earlier_one_has_left_running(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    first.close()
    first.wait()

    third = sharing.join()

    assert read_pid(third) == read_pid(second) == pid


def test_an_ended_session_leaves_no_pipe_of_its_host_open(sharing: Sharing) -> None:
    """Its pool and server go on, and must not keep its stdout and stderr: hosts wait for both."""
    first, second, pid = sharing.join_two()

    code, rest, _ = first.finish()

    assert (code, rest) == (0, b"")
    assert read_pid(second) == pid


@pytest.mark.parametrize("stays", [False, True], ids=["polite", "hostile"])
def test_a_killed_host_leaves_the_server_to_the_others(sharing: Sharing, stays: bool) -> None:
    first, second = sharing.join_below_host(), sharing.join_below_host()
    pid = read_pid(first)
    assert read_pid(second) == pid
    if stays:
        first.call("stay")

    first.process.kill()
    wait_until_gone(first.child)
    assert read_pid(second) == pid
    second.process.kill()
    wait_until_gone(second.child)

    wait_until_gone(pid)
    sharing.wait_until_nothing_is_left()


def test_nothing_is_left_when_all_launchers_are_killed(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    pool = sharing.find_pool()
    hold(first, 1, "open")

    for one in (first, second):
        one.process.kill()
        one.wait()

    wait_until_gone(pid)
    wait_until_gone(pool)
    sharing.wait_until_nothing_is_left()


def test_a_server_that_dies_is_replaced_by_one_for_both(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    hold(first, 5, "first")
    hold(second, 5, "second")

    kill(pid)

    for one in (first, second):
        lost = one.answer()
        assert lost["id"] == 5
        assert "tools/call was not answered" in read_refusal(lost)
    new = read_pid(first)
    assert new != pid
    assert read_pid(second) == new


def test_a_pool_that_dies_is_replaced_by_one_for_both(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    pool = sharing.find_pool()
    first.call("stay")  # the server ignores the end of its input, and every signal but one
    hold(first, 5, "first")
    hold(second, 5, "second")

    kill(pool)

    for one in (first, second):
        lost = one.answer()
        assert lost["id"] == 5
        assert "tools/call" in read_refusal(lost)
    wait_until_gone(pid)
    new = read_pid(first)
    assert new == read_pid(second) != pid
    assert sharing.find_pool() != pool
    for one in (first, second):
        one.close()
        assert one.wait() == 0
    sharing.wait_until_nothing_is_left()


def test_a_socket_that_nobody_listens_on_is_replaced(sharing: Sharing) -> None:
    only = sharing.join()
    pid, pool = read_pid(only), sharing.find_pool()
    [left] = sharing.list_sockets()
    stop(only.pid)  # it would start another pool
    kill(pool)
    only.process.kill()
    only.wait()
    wait_until_gone(pid)
    assert _connect(left) == errno.ECONNREFUSED

    _, _, new = sharing.join_two()

    assert new != pid
    assert all(_connect(one) == 0 for one in sharing.list_sockets())


def _connect(path: Path) -> int:
    # By way of its directory: the path of a test is too long for an address.
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as ours:
            ours.settimeout(LIMIT)
            return ours.connect_ex(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


def test_nobody_else_may_look_into_the_directory_of_the_sockets(sharing: Sharing) -> None:
    sharing.join_two()
    sharing.wait_for_pool()

    [path] = sharing.list_sockets()

    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert all(one.stat().st_mode & 0o777 == 0o600 for one in sharing.list_records())


# What cannot be shared.


def test_sharing_is_refused_with_the_reason(sharing: Sharing) -> None:
    launch = sharing.connect("--env", "X=session")
    launch.send(request("initialize", 0, capabilities={}, protocolVersion="2025-11-25"))

    text = read_refusal(launch.answer())

    assert "--share" in text
    assert "session" in text
    assert " — fix: " in text
    assert launch.finish()[0] == 125


# One session's trouble.


def test_a_flood_of_calls_does_not_keep_another_session_waiting(
    sharing: Sharing, tmp_path: Path
) -> None:
    first, second, _ = sharing.join_two()
    permits = tmp_path / "permits"
    os.mkfifo(permits)
    pace = os.open(permits, os.O_RDWR)
    try:
        first.call("pace", path=str(permits))
        # Nothing is served from here on: a pool that takes in all it can has the whole flood
        # when the other call comes; one that stops reading keeps the writer busy.
        flood = [call("echo", number, text="x" * FLOOD_CALL) for number in range(FLOOD)]
        writer = threading.Thread(target=first.send, args=flood, daemon=True)
        writer.start()
        writer.join(1)
        numbers = iter(range(FLOOD))
        _serve(first, pace, numbers, 200)
        second.send(call("echo", "single"))
        while not second.has_output():
            _serve(first, pace, numbers, 50)

        answer = second.answer()

        assert answer["id"] == "single"
        assert answer["result"]["served"] < FLOOD - 4000
    finally:
        os.close(pace)
    for number in numbers:
        assert first.answer()["id"] == number
    writer.join(LIMIT)
    assert not writer.is_alive()


def _serve(launch: Launch, pace: int, numbers: Iterator[int], count: int) -> None:
    """Let the server answer this many calls, one of which may be the other session's."""
    os.write(pace, b"." * count)
    for number in itertools.islice(numbers, count - 1):
        assert launch.answer()["id"] == number


def test_a_launcher_that_is_stopped_does_not_stop_another(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    first.send(*(call("big", number, size=200_000) for number in range(40)))
    stop(first.pid)
    try:
        for _ in range(20):
            assert read_pid(second) == pid
    finally:
        os.kill(first.pid, signal.SIGCONT)

    assert [first.answer()["id"] for _ in range(40)] == list(range(40))
