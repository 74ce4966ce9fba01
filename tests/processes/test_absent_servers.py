"""Servers that run only while they are called: real launches, real servers."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from launches import (
    LIMIT,
    Launch,
    LaunchRunner,
    call,
    read_refusal,
    request,
    wait_for_lease,
    wait_until_gone,
)

from mcp_launch.broker.rest import BOOT_TIME
from mcp_launch.state import leases
from mcp_launch.system import linux

SCRIPT = Path(__file__).parents[1] / "support" / "scripts" / "counting_server.py"


class CountedServer:
    """The directory of a counting server, and launches of it."""

    def __init__(self, runner: LaunchRunner, place: Path, state: Path) -> None:
        self._runner = runner
        self.place = place
        self.state = state
        place.mkdir()
        self.offer("a")

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(SCRIPT), str(self.place)]

    def offer(self, *tools: str) -> None:
        (self.place / "tools").write_text(" ".join(tools), encoding="utf-8")

    def put(self, name: str) -> None:
        (self.place / name).touch()

    def take(self, name: str) -> None:
        (self.place / name).unlink()

    def list_starts(self) -> list[int]:
        file = self.place / "starts"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [int(line.split()[0]) for line in lines]

    def open(self, *words: str, **options: Any) -> Launch:
        """Start a launch, and do what every host does first."""
        launch = self._runner.launch("--server", "it", *words, "--", *self.command, **options)
        assert "result" in launch.initialize()
        assert launch.ask("tools/list")["tools"]
        return launch

    def remember(self) -> None:
        """Have a launch remember the handshake, and forget that it ran."""
        assert self.open("--start", "now").finish()[0] == 0
        assert list((self.state / "handshakes").iterdir())
        self.take("starts")

    def wait_for_state(self, state: str) -> dict[str, Any]:
        return wait_for_lease(self.state, lambda lease: lease["state"] == state)


@pytest.fixture
def server(runner: LaunchRunner, tmp_path: Path) -> CountedServer:
    """Return a server that was never started."""
    return CountedServer(runner, tmp_path / "server", tmp_path / "state")


@pytest.fixture
def remembered(server: CountedServer) -> CountedServer:
    """Return a server whose handshake is remembered."""
    server.remember()
    return server


def test_the_first_launch_starts_the_server_although_it_is_not_called(
    server: CountedServer,
) -> None:
    server.open("--start", "called")

    assert len(server.list_starts()) == 1


def test_a_remembered_server_is_started_by_the_first_call(remembered: CountedServer) -> None:
    launch = remembered.open("--start", "called")
    launch.ask("ping")
    assert remembered.list_starts() == []
    assert linux.list_descendants(launch.pid) == []  # no guardian, either
    lease = remembered.wait_for_state("not started")
    assert set(lease["processes"]) == {"launcher", "host"}

    first, second = launch.call("pid")["pid"], launch.call("pid")["pid"]

    assert remembered.list_starts() == [first] == [second]
    lease = remembered.wait_for_state("running")
    assert lease["processes"]["server"]["pid"] == first
    assert lease["starts"] == 1
    assert launch.finish()[0] == 0


def test_many_first_calls_start_one_server_and_are_answered_in_order(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--start", "called")

    launch.send(*(call("pid", number) for number in range(1, 9)))

    assert [launch.answer()["id"] for _ in range(8)] == list(range(1, 9))
    assert len(remembered.list_starts()) == 1


def test_a_cancelled_first_call_does_not_cancel_the_start(remembered: CountedServer) -> None:
    launch = remembered.open("--start", "called")
    remembered.put("closed")
    launch.send(call("pid", 1))
    launch.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
    launch.send(call("pid", 2))
    remembered.take("closed")

    assert launch.answer()["id"] == 2
    assert len(remembered.list_starts()) == 1


def test_a_host_that_hangs_up_while_there_is_no_server_ends_the_launch_at_once(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--start", "called")

    began = time.monotonic()
    assert launch.finish()[0] == 0

    assert time.monotonic() - began < LIMIT / 2
    assert list((remembered.state / "leases").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_launch_without_a_server(
    remembered: CountedServer, number: signal.Signals
) -> None:
    launch = remembered.open("--start", "called")

    os.kill(launch.pid, number)

    assert launch.wait() == 128 + number


def test_a_launch_without_a_server_ends_with_its_host(
    remembered: CountedServer, runner: LaunchRunner
) -> None:
    words = ("--server", "it", "--start", "called")
    host = runner.launch_below_host("codex", *words, command=remembered.command)
    host.initialize()
    host.ask("tools/list")

    host.process.kill()

    wait_until_gone(host.child)


def test_the_lease_of_a_killed_launch_without_a_server_is_reclaimed(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--start", "called")
    remembered.wait_for_state("not started")

    launch.process.kill()
    launch.wait()

    directory = remembered.state / "leases"
    [left] = [str(path) for path in directory.iterdir()]
    assert leases.reclaim_stale(linux, str(directory)) == [left]


def test_two_processes_serve_two_calls_with_a_rest_between_them(server: CountedServer) -> None:
    launch = server.open("--rest", "1s")
    first = launch.call("pid")["pid"]
    lease = server.wait_for_state("resting")
    wait_until_gone(first)
    assert linux.list_descendants(launch.pid) == []
    assert lease["saved"] > 1 << 20

    launch.ask("ping")
    assert launch.ask("tools/list")["tools"]
    assert len(server.list_starts()) == 1  # neither of them wakes it
    second = launch.call("pid")["pid"]

    assert server.list_starts() == [first, second]
    assert launch.finish()[0] == 0


@pytest.mark.parametrize(
    ("tool", "sign"),
    [("child", "child process, sleep"), ("listen", "listens on tcp port"), ("notify", "unasked")],
)
def test_a_server_that_shows_state_does_not_rest_unless_told_to(
    server: CountedServer, tool: str, sign: str
) -> None:
    launch = server.open("--rest", "3s", "--trace")
    launch.call(tool)
    # What it sends earlier may belong to its start.
    wait_for_lease(server.state, lambda lease: time.time() > lease["since"] + 2 * BOOT_TIME)
    server.put("notice")
    if tool == "notify":
        assert launch.answer()["method"] == "notifications/message"

    launch.wait_for_stderr(sign.encode())

    assert len(server.list_starts()) == 1
    launch.close()
    launch.wait()
    server.take("notice")
    launch = server.open("--rest", "1s", "--rest-anyway")
    launch.call(tool)
    server.put("notice")
    server.wait_for_state("resting")


def test_a_server_that_was_never_called_rests_whatever_it_shows(server: CountedServer) -> None:
    launch = server.open("--rest", "1s")

    server.wait_for_state("resting")

    assert linux.list_descendants(launch.pid) == []


def test_a_slow_server_has_its_host_answered_from_memory(remembered: CountedServer) -> None:
    remembered.put("closed")
    launch = remembered.open()  # it returns although the server does not answer
    launch.send(call("pid", 5))
    remembered.take("closed")

    assert launch.answer()["id"] == 5
    assert len(remembered.list_starts()) == 1


def test_start_now_waits_for_the_server_itself(remembered: CountedServer) -> None:
    remembered.put("closed")
    launch = remembered._runner.launch("--start", "now", "--", *remembered.command)  # noqa: SLF001
    launch.send(request("initialize", 0, capabilities={}))
    wait_for_lease(remembered.state, lambda lease: lease["state"] == "running")
    remembered.take("closed")

    assert launch.answer()["id"] == 0


def test_new_tools_are_announced_when_the_server_starts(remembered: CountedServer) -> None:
    remembered.offer("a", "b")
    launch = remembered.open("--start", "called")

    launch.send(call("pid", 3))

    assert launch.answer()["method"] == "notifications/tools/list_changed"
    assert launch.answer()["id"] == 3
    assert [one["name"] for one in launch.ask("tools/list")["tools"]] == ["a", "b"]
    assert launch.finish()[0] == 0
    again = remembered.open("--start", "called")
    assert [one["name"] for one in again.ask("tools/list")["tools"]] == ["a", "b"]
    assert len(remembered.list_starts()) == 1


def test_a_call_to_a_tool_that_is_gone_gets_a_plain_error(remembered: CountedServer) -> None:
    remembered.offer("b")
    launch = remembered.open("--start", "called")
    launch.send(call("a", 3), call("b", 4))

    messages = [launch.answer() for _ in range(3)]

    answers = {one["id"]: one for one in messages if "id" in one}
    refusal = read_refusal(answers[3])
    assert "no longer has a tool a" in refusal
    assert refusal.endswith("it has now: b")
    assert "pid" in answers[4]["result"]


def test_a_start_that_fails_is_a_tools_error_and_the_next_call_tries_again(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--start", "called")
    remembered.put("broken")

    launch.send(call("pid", 3))
    refusal = read_refusal(launch.answer())

    assert "no configuration found in settings.ini" in refusal
    assert not remembered.wait_for_state("failed")["saved"]
    remembered.take("broken")
    deadline = time.monotonic() + LIMIT
    while "pid" not in (result := launch.call("pid", 4)):
        assert time.monotonic() < deadline, result
    assert len(remembered.list_starts()) == 2
    # The failure was forgotten with what was remembered: the next host gets a real start.
    assert remembered.open("--start", "called").finish()[0] == 0


def test_a_program_that_is_gone_is_reported_to_the_call(
    remembered: CountedServer, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.symlink_to(sys.executable)
    words = ("--start", "called", "--", str(program), str(SCRIPT), str(remembered.place))
    first = remembered._runner.launch(*words)  # noqa: SLF001
    first.initialize()
    first.ask("tools/list")
    first.finish()
    launch = remembered._runner.launch(*words)  # noqa: SLF001
    launch.initialize()
    program.unlink()

    launch.send(call("pid", 3))

    assert str(program) in read_refusal(launch.answer())


@pytest.mark.skipif(sys.platform != "linux", reason="limits can be changed from outside there only")
def test_a_start_without_room_for_it_is_reported_to_the_calls_and_tried_again(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--start", "called")
    limits = resource.prlimit(launch.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(launch.pid, resource.RLIMIT_NOFILE, (8, limits[1]))

    launch.send(call("pid", 3), call("pid", 4))

    for number in (3, 4):
        answer = launch.answer()
        assert answer["id"] == number
        assert "Too many open files" in read_refusal(answer)
    resource.prlimit(launch.pid, resource.RLIMIT_NOFILE, limits)
    deadline = time.monotonic() + LIMIT
    while "pid" not in (result := launch.call("pid", 5)):
        assert time.monotonic() < deadline, result
    assert launch.finish()[0] == 0


def test_the_direct_wire_starts_the_server_at_once_and_says_so(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--direct", "--start", "called", "--rest", "1s", "--trace")

    launch.wait_for_stderr(b"--start and --rest have no effect with --direct")

    assert len(remembered.list_starts()) == 1


def test_fifty_launches_at_once_share_one_memory(server: CountedServer) -> None:
    first = [server.open("--start", "called") for _ in range(10)]
    for launch in first:
        assert launch.finish()[0] == 0
    started = len(server.list_starts())

    launches = [server.open("--start", "called") for _ in range(50)]
    for launch in launches:
        assert launch.finish()[0] == 0

    assert len(server.list_starts()) == started
    [file] = (server.state / "handshakes").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
