"""The direct wire: what is noticed without reading a byte."""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

import pytest
from broker_playbooks import make_plan
from guarded_launch import GREETING
from loop_rig import FakeGuardian, drain, open_socket_pair

from mcp_launch.runtime import direct
from mcp_launch.runtime.direct import DirectWatch
from mcp_launch.system import kernel
from mcp_launch.system.kernel import HostWatch

if TYPE_CHECKING:
    from fakes import FakeProcessTable
    from loop_rig import BoundedLoop, RecordedLog, StandardStreams

    from mcp_launch.system.guardian import Guardian


class DirectLaunch:
    """A launch on the direct wire, whose server exists only in its guardian's reports."""

    def __init__(self, loop: BoundedLoop, streams: StandardStreams) -> None:
        self.loop = loop
        self.streams = streams
        self.guardian = FakeGuardian()
        self.noted: list[Guardian] = []
        self.wake, self._signals = os.pipe()
        self.watch = DirectWatch(
            loop,
            server="srv",
            guardian=self.guardian,
            plan=make_plan("/work/app"),
            wake=self.wake,
            note_server=lambda _, guardian: self.noted.append(guardian),
        )

    def start(self) -> None:
        self.guardian.start()
        self.loop.run_until(lambda: bool(self.noted))

    def send_signal(self, number: int) -> None:
        os.write(self._signals, bytes([number]))

    def end(self, code: int) -> int:
        """Let the server end, and run to the end; return the exit code."""
        self.guardian.say(f"exited {code}\n")
        self.guardian.end()
        return self.finish()

    def finish(self) -> int:
        self.loop.set_timer("limit", 5.0, self._fail)
        self.watch.run()
        return self.watch.exit_code

    @staticmethod
    def _fail() -> None:
        raise AssertionError("the launch does not end")


@pytest.fixture
def launch(loop: BoundedLoop, streams: StandardStreams) -> DirectLaunch:
    return DirectLaunch(loop, streams)


def test_a_server_starts_and_ends_with_its_exit_code(launch: DirectLaunch) -> None:
    launch.start()
    assert launch.noted == [launch.guardian]
    launch.guardian.say("left 2\n")

    assert launch.end(0) == 0
    assert launch.watch.failure is None
    assert launch.watch.describe_outcome() == {"left_behind": 2, "outlasted_input": False}


def test_input_is_left_to_the_server(launch: DirectLaunch) -> None:
    launch.start()
    launch.streams.say(GREETING)
    launch.loop.run_once()

    assert launch.loop.is_watched(0)
    assert drain(0) == GREETING


def test_a_host_that_hangs_up_gives_the_server_some_time(
    launch: DirectLaunch, trace: RecordedLog
) -> None:
    launch.start()
    launch.streams.end_input()
    launch.loop.run_until(lambda: launch.loop.has_timer("grace"))
    assert launch.loop.delays["grace"] == 2.0
    assert not launch.loop.is_watched(0)
    assert trace.notes[-1] == "the host has closed our stdin"
    assert launch.guardian.read_orders() == b""

    assert launch.end(3) == 3
    assert launch.watch.failure is None
    assert launch.watch.describe_outcome()["outlasted_input"] is False


def test_a_server_that_goes_on_after_its_input_is_ended(launch: DirectLaunch) -> None:
    launch.start()
    launch.streams.end_input()
    launch.loop.run_until(lambda: launch.loop.has_timer("grace"))
    launch.loop.fire("grace")

    assert launch.guardian.read_orders() == b"\x00"
    assert launch.end(143) == 143
    assert launch.watch.describe_outcome() == {"left_behind": 0, "outlasted_input": True}


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="only there")
def test_a_socket_whose_peer_has_stopped_writing_is_a_hang_up(
    loop: BoundedLoop, streams: StandardStreams
) -> None:
    import socket

    ours, theirs = open_socket_pair()
    streams.place(0, ours)
    launch = DirectLaunch(loop, streams)
    launch.start()
    peer = socket.socket(fileno=theirs)
    peer.shutdown(socket.SHUT_WR)
    peer.detach()

    launch.loop.run_until(lambda: launch.loop.has_timer("grace"))


def test_a_signal_is_passed_on_and_the_launch_leaves_soon(
    launch: DirectLaunch, trace: RecordedLog
) -> None:
    launch.start()
    for number in (kernel.SIGALRM, 15, 2):
        launch.send_signal(number)
    launch.loop.run_until(lambda: launch.loop.has_timer("leave"))
    launch.loop.run_once()

    assert launch.guardian.read_orders() == b"\x0f\x02"
    assert trace.notes[1:] == [f"signal {number}: passed on to the server" for number in (15, 2)]
    assert launch.loop.delays["leave"] == 0.45
    launch.loop.set_timer("leave", 0.0, launch.loop.stop)
    assert launch.finish() == 128 + 15


def test_a_second_signal_does_not_delay_leaving(launch: DirectLaunch) -> None:
    launch.start()
    launch.send_signal(15)
    launch.loop.run_until(lambda: launch.loop.has_timer("leave"))
    launch.loop.set_timer("leave", 77.0, launch.loop.stop)
    launch.send_signal(15)
    launch.loop.run_once()

    assert launch.loop.delays["leave"] == 77.0


def test_a_server_that_ends_of_the_signal_gives_its_own_code(launch: DirectLaunch) -> None:
    launch.start()
    launch.streams.say(GREETING)
    launch.send_signal(15)
    launch.loop.run_until(lambda: launch.loop.has_timer("leave"))

    assert launch.end(9) == 9
    assert launch.watch.failure is None
    assert drain(0) == GREETING


def test_a_request_that_a_dead_server_has_not_read_is_answered_by_us(
    launch: DirectLaunch,
) -> None:
    launch.start()
    launch.streams.say(GREETING)

    assert launch.end(3) == 3
    assert launch.watch.failure is not None
    assert launch.watch.failure.problem == "srv ended with exit code 3 before it answered"
    assert launch.watch.unread == GREETING


@pytest.mark.parametrize(
    "said", [b"", GREETING.rstrip(), b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n']
)
def test_without_a_whole_request_there_is_nothing_to_answer(
    said: bytes, launch: DirectLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "_FIRST_REQUEST_MS", 1)
    launch.start()
    if said:
        launch.streams.say(said)

    assert launch.end(3) == 3
    assert launch.watch.failure is None
    assert launch.watch.unread == said


def test_the_last_of_several_lines_may_be_the_request(launch: DirectLaunch) -> None:
    launch.start()
    launch.streams.say(b"{}\n" + GREETING)

    assert launch.end(3) == 3
    assert launch.watch.failure is not None


def test_a_server_that_ended_well_leaves_nothing_to_answer(launch: DirectLaunch) -> None:
    launch.start()
    launch.streams.say(GREETING)

    assert launch.end(0) == 0
    assert launch.watch.failure is None
    assert drain(0) == GREETING


@pytest.mark.parametrize(("age", "wait"), [(1.9, 500), (2.0, 0), (60.0, 0)])
def test_the_first_request_is_awaited_only_if_the_server_ended_early(
    age: float, wait: int, launch: DirectLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[tuple[int, int]] = []

    def note(fd: int, milliseconds: int) -> bool:
        waits.append((fd, milliseconds))
        return False

    monkeypatch.setattr(direct, "has_input", note)
    launch.start()
    launch.watch._since = 1000.0  # noqa: SLF001
    monkeypatch.setattr("mcp_launch.runtime.direct.time.monotonic", lambda: 1000.0 + age)
    launch.watch._look_for_request(3)  # noqa: SLF001

    assert waits == [(0, wait)]
    assert launch.watch.unread == b""


def test_the_age_of_a_server_counts_from_its_start(launch: DirectLaunch) -> None:
    assert 0 < launch.watch._since < sys.maxsize  # noqa: SLF001


def test_a_server_that_cannot_be_started_is_a_failure(launch: DirectLaunch) -> None:
    launch.streams.say(GREETING)
    launch.guardian.say("exec 13\n")
    launch.guardian.end()

    assert launch.finish() == 126
    assert launch.watch.failure is not None
    assert "srv cannot be started" in launch.watch.failure.problem
    assert launch.noted == []
    assert launch.watch.unread == b""
    assert drain(0) == GREETING  # `answer_failure` reads it


@pytest.fixture
def hosts(launch: DirectLaunch) -> HostWatch:
    table: FakeProcessTable = launch.guardian._table  # type: ignore[assignment]  # noqa: SLF001
    return HostWatch(table, [])


def test_the_end_of_a_host_is_noticed_by_its_descriptor(
    launch: DirectLaunch, hosts: HostWatch, trace: RecordedLog
) -> None:
    launch.start()
    reading, writing = os.pipe()
    hosts.descriptors = [reading]
    launch.watch.watch_hosts(hosts)
    assert not launch.loop.has_timer("hosts")
    os.close(writing)
    launch.loop.run_until(lambda: launch.loop.has_timer("grace"))

    assert not launch.loop.is_watched(reading)
    assert trace.notes[-1] == "the host has ended"
    launch.loop.set_timer("grace", 77.0, launch.loop.stop)
    launch.streams.end_input()
    launch.loop.run_until(lambda: not launch.loop.is_watched(0))
    assert launch.loop.delays["grace"] == 77.0  # the first counts


def test_a_host_that_is_lost_already_is_noticed_at_once(
    launch: DirectLaunch, hosts: HostWatch
) -> None:
    hosts.is_lost = True
    launch.watch.watch_hosts(hosts)

    assert launch.loop.has_timer("grace")
    assert not launch.loop.has_timer("hosts")


def test_hosts_without_a_descriptor_are_polled(
    launch: DirectLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    table: FakeProcessTable = launch.guardian._table  # type: ignore[assignment]  # noqa: SLF001
    monkeypatch.setattr(kernel, "open_watch", lambda _pid: None)
    table.add(77, "host")
    launch.watch.watch_hosts(HostWatch(table, [77]))
    assert launch.loop.delays["hosts"] == 0.5
    launch.loop.fire("hosts")
    assert launch.loop.has_timer("hosts")
    assert not launch.loop.has_timer("grace")
    del table.processes[77]
    launch.loop.fire("hosts")

    assert launch.loop.has_timer("grace")
    assert not launch.loop.has_timer("hosts")
