"""A pool among processes that are killed, stopped, starved or hostile: no session goes without."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from launches import (
    LIMIT,
    SCRIPTED_SERVER,
    call,
    python,
    read_refusal,
    request,
    wait_until_gone,
)
from shared_servers import SESSION_SERVER, SHARE, greet, hold, list_processes, read_pid

if TYPE_CHECKING:
    from pathlib import Path

    from launches import Launch, LaunchRunner
    from shared_servers import Sharing


# Death and standstill


def test_twenty_sessions_of_a_killed_pool_get_one_server(sharing: Sharing) -> None:
    launches = [sharing.join() for _ in range(20)]
    before = read_pid(launches[0])
    pool = sharing.find_pool()

    os.kill(pool, signal.SIGKILL)
    wait_until_gone(before)

    pids = {read_pid(launch) for launch in launches}
    assert len(pids) == 1
    assert before not in pids


@pytest.mark.parametrize("part", ["server", "guardian", "keeper"])
def test_a_server_that_dies_while_the_pool_stands_still_costs_nobody_more(
    sharing: Sharing, part: str
) -> None:
    first, second, pid = sharing.join_two()
    pool = sharing.find_pool()
    victim = sharing.wait_for_pool()["processes"][part]["pid"]
    os.kill(pool, signal.SIGSTOP)
    for one in (victim, pid):
        with contextlib.suppress(ProcessLookupError):  # it has died with the victim
            os.kill(one, signal.SIGKILL)
    wait_until_gone(pid)

    os.kill(pool, signal.SIGCONT)

    assert read_pid(first) == read_pid(second) != pid


def test_a_launch_does_not_wait_for_a_pool_that_stands_still(sharing: Sharing) -> None:
    first = sharing.join()
    pid, pool = read_pid(first), sharing.find_pool()
    os.kill(pool, signal.SIGSTOP)
    try:
        assert read_pid(sharing.join()) != pid
    finally:
        os.kill(pool, signal.SIGCONT)
    assert read_pid(first) == pid


def test_thirty_launches_that_are_killed_at_once_leave_nothing(sharing: Sharing) -> None:
    launches = [sharing.connect() for _ in range(30)]
    greet(launches[0])
    for launch in launches:
        launch.process.kill()
    sharing.wait_until_nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_pool_costs_the_sessions_a_server_and_no_more(
    sharing: Sharing, number: int
) -> None:
    first, second, pid = sharing.join_two()

    os.kill(sharing.find_pool(), number)
    wait_until_gone(pid)

    assert read_pid(first) == read_pid(second) != pid
    first.finish()
    second.finish()
    sharing.wait_until_nothing_is_left()


@pytest.mark.parametrize("part", ["keeper", "guardian"])
def test_a_killed_guardian_or_keeper_leaves_nothing_behind(sharing: Sharing, part: str) -> None:
    first, second, pid = sharing.join_two()

    os.kill(sharing.wait_for_pool()["processes"][part]["pid"], signal.SIGKILL)
    if part == "guardian":
        wait_until_gone(pid)

    assert read_pid(first) == read_pid(second)
    first.finish()
    second.finish()
    sharing.wait_until_nothing_is_left()


def test_launches_that_are_killed_while_they_join_do_not_harm_the_next(sharing: Sharing) -> None:
    """Each leaves the pool its descriptors, whose numbers the next one gets."""
    for _ in range(10):
        first, second = sharing.connect(), sharing.connect()
        sharing.wait_for_pool()
        first.process.kill()
        greet(second)
        assert read_pid(second)
        second.finish()
        sharing.wait_until_nothing_is_left()


# Rest and restart


def test_a_session_that_rests_leaves_the_pool_and_comes_back(sharing: Sharing) -> None:
    first, second = sharing.join("--rest", "1s"), sharing.join("--rest", "1s")
    pid = read_pid(first)
    assert read_pid(second) == pid
    wait_until_gone(pid)
    assert read_pid(first) == read_pid(second) != pid


def test_a_restart_replaces_the_server_of_all_its_sessions(sharing: Sharing) -> None:
    first, second = sharing.join("--server", "docs"), sharing.join("--server", "docs")
    pid = read_pid(first)
    assert read_pid(second) == pid

    done = run_command("restart", "docs")

    assert done.returncode == 0, done.stdout + done.stderr
    wait_until_gone(pid)
    assert read_pid(first) == read_pid(second) != pid


def read_answer(launch: Launch) -> dict[str, Any]:
    """Return the next result; both get the log messages for open calls."""
    while "result" not in (message := launch.answer()):
        assert message["method"] == "notifications/message", message
    result = message["result"]
    assert isinstance(result, dict)
    return result


def test_a_long_call_that_a_killed_server_has_not_read_reaches_the_next(sharing: Sharing) -> None:
    """It is longer than what a pipe or a socket holds."""
    first, _, pid = sharing.join_two()
    os.kill(pid, signal.SIGSTOP)
    text = "x" * 1_000_000
    first.send(call("echo", 5, text=text))
    sharing.join()  # the pool answers its greeting, and has read the call by then
    os.kill(pid, signal.SIGKILL)

    assert first.answer()["result"]["said"] == {"text": text}


def wait_for_logs(sharing: Sharing, text: str, count: int) -> None:
    """Wait until the logs of so many launches have this text."""
    deadline = time.monotonic() + LIMIT
    while True:
        logs = [path.read_text(encoding="utf-8") for path in sharing.state.glob("logs/*")]
        if sum(text in log for log in logs) == count:
            return
        assert time.monotonic() < deadline, logs
        time.sleep(0.005)


def test_a_restart_lets_every_session_finish_its_open_calls(
    sharing: Sharing, tmp_path: Path
) -> None:
    flags = [tmp_path / "first", tmp_path / "second"]
    both = [sharing.runner.launch(*SHARE, "--", *SCRIPTED_SERVER) for _ in flags]
    for one, flag in zip(both, flags, strict=True):
        greet(one)
        pid = one.call("look")["pid"]
        one.send(call("wait", 5, path=str(flag)))
        assert one.answer()["method"] == "notifications/message"

    os.kill(both[0].pid, signal.SIGUSR1)  # only one of them is asked
    flags[0].touch()
    assert read_answer(both[0])["waited"] == str(flags[0])
    wait_for_logs(sharing, "a restart was requested", 2)
    flags[1].touch()
    assert read_answer(both[1])["waited"] == str(flags[1])

    wait_until_gone(pid)
    new = [one.call("look")["pid"] for one in both]
    assert new[0] == new[1] != pid


def test_many_restarts_end_no_session(sharing: Sharing) -> None:
    first, second = sharing.join(), sharing.join("--restart", "off")
    pids = set()
    for _ in range(5):  # more deaths within a minute would end it
        pid = read_pid(second)
        os.kill(first.pid, signal.SIGUSR1)
        wait_until_gone(pid)
        pids.add(pid)
    assert read_pid(first) == read_pid(second) not in pids
    assert len(pids) == 5


def test_a_session_that_stands_still_does_not_stop_a_restart(sharing: Sharing) -> None:
    """The pool waits for it no longer than for open calls."""
    first, second, pid = sharing.join_two()
    os.kill(second.pid, signal.SIGSTOP)

    os.kill(first.pid, signal.SIGUSR1)

    wait_until_gone(pid)
    os.kill(second.pid, signal.SIGCONT)
    assert read_pid(first) == read_pid(second) != pid


# Other processes at the socket


def connect_to_pool(sharing: Sharing) -> socket.socket:
    [path] = sharing.list_sockets()
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(LIMIT)
    directory = os.open(path.parent, os.O_RDONLY)
    link.connect(f"/proc/self/fd/{directory}/{path.name}")  # which is short enough
    os.close(directory)
    return link


GARBAGE = [b"", b"hello\n", b"17\n", b"\xff\xfe\n", b"[" * 50_000, b'{"launch":"x"}\n']


def test_garbage_from_another_process_harms_nobody(sharing: Sharing) -> None:
    launch = sharing.join()
    pid = read_pid(launch)
    for garbage in GARBAGE:
        with connect_to_pool(sharing) as link:
            link.sendall(garbage)
            if not garbage:
                link.shutdown(socket.SHUT_WR)
            assert link.recv(1) == b"", garbage[:20]
        assert read_pid(launch) == pid


def test_descriptors_that_lead_nowhere_harm_nobody(sharing: Sharing, tmp_path: Path) -> None:
    launch = sharing.join()
    pid = read_pid(launch)
    file = tmp_path / "file"
    file.write_bytes(b"{}\n")
    with connect_to_pool(sharing) as link, file.open("r+b") as opened:
        socket.send_fds(link, [b'{"launch":"x"}\n'], [opened.fileno()] * 3)
        assert link.recv(1)
        assert read_pid(launch) == pid
    assert read_pid(launch) == pid


def find_stem(sharing: Sharing) -> str:
    """Return the path of the pool's files without their endings, once no pool is left."""
    launch = sharing.join()
    [path] = sharing.list_sockets()
    launch.finish()
    sharing.wait_until_nothing_is_left()
    return str(path).removesuffix(".sock")


TURNING_AWAY = """
import socket
listening = socket.socket(socket.AF_UNIX)
listening.bind("{name}")
listening.listen()
print("ready", flush=True)
while True:
    listening.accept()[0].close()
"""


def test_a_socket_at_which_no_pool_answers_is_given_up(
    sharing: Sharing, runner: LaunchRunner
) -> None:
    path = find_stem(sharing) + ".sock"
    directory, name = os.path.split(path)
    closing = runner.start(python(TURNING_AWAY.format(name=name)), cwd=directory)
    assert closing.read_line() == b"ready\n"
    launch = sharing.join()
    assert read_pid(launch)


def test_a_session_whose_next_pools_turn_it_away_goes_on_with_its_own_server(
    sharing: Sharing, runner: LaunchRunner
) -> None:
    launch = sharing.join()
    before, pool = read_pid(launch), sharing.find_pool()
    [path] = sharing.list_sockets()
    path.unlink()
    closing = runner.start(python(TURNING_AWAY.format(name=path.name)), cwd=path.parent)
    assert closing.read_line() == b"ready\n"

    os.kill(pool, signal.SIGKILL)
    wait_until_gone(before)

    # Longer than a server that has closed its stdout may take to end.
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        assert read_pid(launch) != before


# Limits


def test_an_answer_of_any_length_arrives(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    hold(first, 5, "k")
    size = 8 << 20
    first.send(call("big", 6, size=size))
    assert first.process.stdout
    text = first.process.stdout.readline()
    assert len(text) > size
    assert read_pid(first) == read_pid(second) == pid
    second.call("release", key="k")
    assert first.answer()["result"]["held"] == "k"


def test_a_pool_without_descriptors_turns_nobody_away(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    pool = sharing.find_pool()
    count = len(os.listdir(f"/proc/{pool}/fd"))
    hard = resource.prlimit(pool, resource.RLIMIT_NOFILE)[1]
    for free in range(7):
        resource.prlimit(pool, resource.RLIMIT_NOFILE, (count + free, hard))
        launch = sharing.join()
        read_pid(launch)
        launch.finish()
    resource.prlimit(pool, resource.RLIMIT_NOFILE, (hard, hard))
    assert read_pid(first) == read_pid(second) == read_pid(sharing.join()) == pid


def test_a_launch_with_few_descriptors_can_share(sharing: Sharing) -> None:
    first = sharing.join()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    assert read_pid(sharing.join(preexec_fn=limit)) == read_pid(first)


# The state directory


def test_a_pool_whose_state_was_removed_serves_to_the_end(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    remove_state(sharing)
    assert read_pid(first) == read_pid(second) == pid
    assert read_pid(sharing.join()) != pid
    for launch in (first, second):
        launch.finish()
    wait_until_gone(pid)


def test_a_pool_whose_state_was_removed_leaves_the_next_one_its_place(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    remove_state(sharing)
    third = sharing.join()
    new = read_pid(third)
    first.finish()
    second.finish()
    wait_until_gone(pid)

    assert sharing.wait_for_pool()["processes"]["server"]["pid"] == new
    assert read_pid(sharing.join()) == read_pid(third) == new


def remove_state(sharing: Sharing) -> None:
    """Remove the state directory at once: the processes that run make it again at any time."""
    removed = sharing.state.with_name("removed")
    sharing.state.rename(removed)
    shutil.rmtree(removed)


def test_a_pool_whose_lock_cannot_be_taken_ends_with_its_last_session(sharing: Sharing) -> None:
    launch = sharing.join()
    pid, pool = read_pid(launch), sharing.find_pool()
    [path] = sharing.list_sockets()
    lock = path.with_suffix(".lock")
    lock.unlink()
    lock.mkdir()
    launch.finish()
    wait_until_gone(pid)
    wait_until_gone(pool)


def test_a_launch_without_a_state_directory_gets_its_own_server(
    sharing: Sharing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MCP_LAUNCH_HOME", str(tmp_path / "file" / "state"))
    assert read_pid(sharing.join())


def test_a_long_path_to_the_state_is_no_obstacle(
    sharing: Sharing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sharing.state = tmp_path / ("long" * 40)
    monkeypatch.setenv("MCP_LAUNCH_HOME", str(sharing.state))
    sharing.join_two()


def test_a_system_that_does_not_name_peers_gives_each_its_own_server(
    sharing: Sharing,
) -> None:
    code = "import _socket, sys; del _socket.SO_PEERCRED; from mcp_launch import main; main()"
    words = [sys.executable, "-c", code, "run", *SHARE, "--", *SESSION_SERVER]
    first, second = sharing.runner.start(words), sharing.runner.start(words)
    greet(first)
    greet(second)
    assert read_pid(first) != read_pid(second)


# Servers


def test_a_host_that_closes_its_end_gets_the_answers_that_are_open(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    hold(first, 5, "k")
    first.close()
    second.call("release", key="k")
    assert first.answer()["result"]["held"] == "k"
    assert first.wait() == 0
    assert read_pid(second) == pid


def test_one_piped_greeting_is_answered(sharing: Sharing) -> None:
    launch = sharing.connect()
    params = {"protocolVersion": "2025-11-25", "capabilities": {}}
    launch.send(request("initialize", 1, **params))
    launch.close()
    assert launch.answer()["id"] == 1
    assert launch.wait() == 0


def test_a_line_without_an_end_is_not_continued_by_another_session(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    first.write(b'{"jsonrpc":"2.0","id":7')
    assert read_pid(second) == pid
    first.process.kill()
    first.wait()
    assert read_pid(second) == pid


NOISY = """
import os, sys
line = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\\n' * 500
for asked in sys.stdin.buffer:
    import json
    said = json.loads(asked)
    if said.get("method") == "initialize":
        result = {"capabilities": {}, "protocolVersion": "2025-11-25", "serverInfo": {}}
        answer = {"jsonrpc": "2.0", "id": said["id"], "result": result}
        os.write(1, json.dumps(answer).encode() + b"\\n")
    elif said.get("method") == "tools/call":
        for _ in range(200):
            data = memoryview(line)
            while data:
                data = data[os.write(1, data):]
            os.write(2, b"noise" * 200 + b"\\n")
        answer = {"jsonrpc": "2.0", "id": said["id"], "result": {}}
        os.write(1, json.dumps(answer).encode() + b"\\n")
"""


def test_a_flood_of_notifications_and_noise_does_not_cost_a_call(sharing: Sharing) -> None:
    launch = sharing.runner.launch(*SHARE, "--", *python(NOISY), stderr=subprocess.DEVNULL)
    greet(launch)
    launch.send(call("x", 3))
    answer = launch.answer()
    while "method" in answer:
        answer = launch.answer()
    assert answer == {"jsonrpc": "2.0", "id": 3, "result": {}}


HIDING = """
import json, os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        signal.alarm(60)
        while True:
            signal.pause()
    os._exit(0)
for asked in sys.stdin.buffer:
    said = json.loads(asked)
    if "id" in said:
        result = {"capabilities": {}, "protocolVersion": "2025-11-25", "serverInfo": {}, "pid": 1}
        print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
signal.alarm(60)
while True:
    signal.pause()
"""


def test_a_server_that_hides_daemons_and_ignores_everything_is_not_left(sharing: Sharing) -> None:
    launches = [sharing.runner.launch(*SHARE, "--", *python(HIDING)) for _ in range(2)]
    for launch in launches:
        greet(launch)
    found = list_processes(sharing.state)
    for launch in launches:
        launch.finish()
    sharing.wait_until_nothing_is_left()
    for pid in found:
        wait_until_gone(pid)


CLOSING = """
import json, os, sys
for asked in sys.stdin.buffer:
    said = json.loads(asked)
    if said.get("method") == "tools/call":
        os.close(1)
        continue
    if "id" in said:
        result = {"capabilities": {}, "protocolVersion": "2025-11-25", "serverInfo": {}}
        print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""


def test_a_server_that_closes_its_output_is_replaced(sharing: Sharing) -> None:
    launches = [sharing.runner.launch(*SHARE, "--", *python(CLOSING)) for _ in range(2)]
    for launch in launches:
        greet(launch)
    launches[0].send(call("x", 3))
    assert "was not answered" in read_refusal(launches[0].answer())
    assert launches[1].ask("ping") is not None
    assert launches[0].ask("ping") is not None
