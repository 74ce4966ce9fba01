"""A server's life, as its guardian reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from broker_playbooks import make_plan
from loop_rig import FakeGuardian, is_open

from mcp_launch.runtime.loop import ServerProcess
from mcp_launch.system import guardian as guardians
from mcp_launch.system import guardian_process

if TYPE_CHECKING:
    from loop_rig import BoundedLoop, RecordedLog

    from mcp_launch.errors import LaunchError


class Server:
    """A server process, and what it has reported to its owner."""

    def __init__(self, loop: BoundedLoop, name: str = "server") -> None:
        self.events: list[str] = []
        self.errors: list[LaunchError] = []
        self.guardian = FakeGuardian()
        self.loop = loop
        self.process = ServerProcess(
            loop,
            name,
            self.guardian,
            make_plan("/work/app"),
            on_started=lambda: self.events.append("started"),
            on_start_failed=self._note_failure,
            on_exited=lambda code: self.events.append(f"exited {code}"),
            on_gone=lambda: self.events.append("gone"),
        )

    def _note_failure(self, error: LaunchError) -> None:
        self.events.append("failed")
        self.errors.append(error)

    def wait_for(self, event: str) -> None:
        self.loop.run_until(lambda: event in self.events)

    def start(self) -> None:
        self.guardian.start()
        self.wait_for("started")


@pytest.fixture
def server(loop: BoundedLoop) -> Server:
    return Server(loop)


def test_a_server_starts_exits_and_is_gone(server: Server) -> None:
    assert server.loop.delays["start server"] == guardians.START_LIMIT
    server.start()
    assert not server.loop.has_timer("start server")
    assert not server.process.is_gone
    server.guardian.say("exited 3\n")
    server.wait_for("exited 3")
    assert not server.process.is_gone
    assert server.loop.has_timer("guardian server")
    server.guardian.end()
    server.wait_for("gone")

    assert server.events == ["started", "exited 3", "gone"]
    assert server.process.is_gone
    assert server.guardian.was_finished
    assert not server.loop.is_watched(server.guardian.report)
    assert not server.loop.has_timer("guardian server")


def test_start_and_exit_may_come_in_one_report(server: Server) -> None:
    server.guardian.say("started 4711 4710\nexited 0\n")
    server.guardian.end()
    server.wait_for("gone")

    assert server.events == ["started", "exited 0", "gone"]


def test_a_start_is_reported_once(server: Server) -> None:
    server.start()
    server.guardian.say("left 1\n")
    server.loop.run_until(lambda: bool(server.guardian.left_behind))
    server.guardian.say("exited 1\nleft 1\n")
    server.wait_for("exited 1")
    server.guardian.say("left 1\n")
    server.loop.run_until(lambda: server.guardian.left_behind == 3)

    assert server.events == ["started", "exited 1"]


@pytest.mark.parametrize(("count", "words"), [(1, "1 process"), (2, "2 processes")])
def test_what_a_server_leaves_behind_is_noted(
    count: int, words: str, server: Server, trace: RecordedLog
) -> None:
    server.start()
    server.guardian.say(f"left {count}\n")
    server.loop.run_until(lambda: server.guardian.left_behind == count)
    server.guardian.say("exited 0\n")
    server.wait_for("exited 0")

    assert trace.notes[1:] == [f"the server left {words} behind"]


def test_only_what_is_new_is_noted_as_left_behind(server: Server, trace: RecordedLog) -> None:
    server.start()
    for total in (2, 4):
        server.guardian.say("left 2\n")
        server.loop.run_until(lambda total=total: server.guardian.left_behind == total)  # type: ignore[misc]

    assert trace.notes[1:] == ["the server left 2 processes behind"] * 2


def test_a_start_that_fails_is_explained(server: Server) -> None:
    server.guardian.say("exec 2\n")
    server.guardian.end()
    server.wait_for("failed")

    assert server.events == ["failed"]
    assert "srv cannot be started: No such file" in server.errors[0].problem
    assert server.guardian.was_finished
    assert not server.loop.has_timer("start server")
    assert not server.loop.is_watched(server.guardian.report)
    assert not server.process.is_gone


def test_a_guardian_that_is_killed_before_the_start_is_a_failed_start(server: Server) -> None:
    server.guardian.end()
    server.wait_for("failed")

    assert server.events == ["failed"]
    assert "ended before the server started" in server.errors[0].problem


def test_a_guardian_that_is_killed_after_the_start_takes_the_server_along(server: Server) -> None:
    server.start()
    server.guardian.end()
    server.wait_for("gone")

    assert server.events == ["started", "exited 137", "gone"]
    assert server.guardian.was_finished


def test_a_start_that_hangs_is_given_up(loop: BoundedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardians, "START_LIMIT", 0.0)
    server = Server(loop)
    report = server.guardian.report
    server.wait_for("failed")

    assert server.guardian.was_killed
    assert "did not start within 0 s" in server.errors[0].problem
    assert not loop.is_watched(report)
    assert not is_open(report)
    assert server.events == ["failed"]


def test_a_server_that_is_not_ended_in_time_is_ended_by_force(
    server: Server, trace: RecordedLog
) -> None:
    server.start()
    server.guardian.send(guardian_process.INPUT_ENDED)
    assert server.loop.delays["guardian server"] > guardian_process.TERMINATED_GRACE
    server.loop.fire("guardian server")

    assert server.guardian.was_killed
    assert server.events == ["started", "exited 137", "gone"]
    assert server.process.is_gone
    assert not server.loop.is_watched(server.guardian.report)
    assert "both are killed" in trace.notes[-1]


def test_the_first_expectation_counts(server: Server) -> None:
    server.start()
    server.guardian.send(guardian_process.REPLACED)
    first = server.loop.delays["guardian server"]
    server.guardian.send(15)
    server.guardian.say("exited 0\n")
    server.wait_for("exited 0")

    assert server.loop.delays["guardian server"] == first
    assert server.guardian.read_orders() == b"\xff\x0f"


def test_the_deadline_of_the_server_before_does_not_count(loop: BoundedLoop) -> None:
    before = Server(loop)
    before.start()
    before.guardian.send(guardian_process.REPLACED)
    other = Server(loop, "another")
    other.start()
    other.guardian.send(guardian_process.REPLACED)

    Server(loop)

    assert not loop.has_timer("guardian server")
    assert loop.has_timer("guardian another")


def test_a_start_that_fails_after_an_order_leaves_no_deadline(server: Server) -> None:
    server.guardian.send(15)
    assert server.loop.has_timer("guardian server")
    server.guardian.end()
    server.wait_for("failed")

    assert not server.loop.has_timer("guardian server")


def test_no_deadline_of_the_start_is_left_after_force(server: Server) -> None:
    server.guardian.send(15)
    server.loop.fire("guardian server")

    assert not server.loop.has_timer("start server")
    assert server.events == ["failed"]
