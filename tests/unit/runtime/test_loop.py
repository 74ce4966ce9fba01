"""The event loop, with pipes that the test reads and writes itself."""

from __future__ import annotations

import os
import select
import stat
import time
from typing import TYPE_CHECKING

import pytest
from loop_rig import BoundedLoop, drain, open_socket_pair

from mcp_launch import protocol
from mcp_launch.runtime.loop import CHUNK, Loop, has_input, read

if TYPE_CHECKING:
    from pathlib import Path

    from loop_rig import StandardStreams


def open_ready_pipe() -> int:
    reading, writing = os.pipe()
    os.write(writing, b"x")
    return reading


def test_the_handler_of_a_readable_descriptor_is_called(loop: BoundedLoop) -> None:
    ready, quiet = open_ready_pipe(), os.pipe()[0]
    called: list[str] = []
    loop.watch(quiet, lambda: called.append("quiet"))
    loop.watch(ready, lambda: called.append("ready"))

    loop.run_until(lambda: bool(called))

    assert called == ["ready"]


def test_a_loop_without_timers_handles_one_event_after_the_other(streams: StandardStreams) -> None:
    assert streams
    reading, writing = os.pipe()
    loop = Loop()
    seen: list[bytes] = []

    def take() -> None:
        seen.append(os.read(reading, 10))
        if len(seen) == 3:
            loop.stop()
        os.write(writing, b"x")

    loop.watch(reading, take)
    os.write(writing, b"x")
    loop.run()

    assert seen == [b"x"] * 3
    loop._poll.close()  # noqa: SLF001


def test_a_stopped_loop_can_run_again(loop: BoundedLoop) -> None:
    called: list[str] = []
    fd = open_ready_pipe()

    def handle() -> None:
        called.append("handled")
        loop.stop()

    loop.watch(fd, handle)
    loop.run()
    loop.run()

    assert called == ["handled"] * 2


def test_a_descriptor_that_is_no_longer_watched_is_ignored(loop: BoundedLoop) -> None:
    called: list[str] = []
    first, second = open_ready_pipe(), open_ready_pipe()
    loop.watch(first, lambda: called.append("first"))
    loop.watch(second, lambda: called.append("second"))
    assert loop.is_watched(first)
    loop.unwatch(first)

    loop.run_until(lambda: bool(called))

    assert called == ["second"]
    assert not loop.is_watched(first)
    assert loop.is_watched(second)


def test_an_event_of_a_closed_file_is_not_taken_for_one_of_the_next_with_its_number(
    loop: BoundedLoop,
) -> None:
    called: list[str] = []
    both = [open_ready_pipe(), open_ready_pipe()]
    idle, writing = os.pipe()

    def replace(own: int) -> None:
        [other] = [fd for fd in both if fd != own]
        called.append("handled")
        for fd in both:
            loop.unwatch(fd)
        os.dup2(idle, other)
        loop.watch(other, lambda: called.append("nothing to read"))

    for fd in both:
        loop.watch(fd, lambda fd=fd: replace(fd))  # type: ignore[misc]
    loop.set_timer("end", 0.0, loop.stop)
    loop.run()

    assert called == ["handled"]
    for fd in (idle, writing):
        os.close(fd)


def test_an_unwatched_descriptor_does_not_wake_the_loop(loop: BoundedLoop) -> None:
    fd = open_ready_pipe()
    loop.watch(fd, lambda: None)
    loop.unwatch(fd)

    assert loop._poll.poll(0) == []  # noqa: SLF001


def test_a_descriptor_can_be_unwatched_twice(loop: BoundedLoop) -> None:
    fd = open_ready_pipe()
    loop.watch(fd, lambda: None)
    loop.unwatch(fd)
    loop.unwatch(fd)
    loop.unwatch(-1)

    assert not loop.is_watched(fd)


def test_a_handler_may_unwatch_another_that_is_ready_too(loop: BoundedLoop) -> None:
    called: list[int] = []
    pair = [open_ready_pipe(), open_ready_pipe()]

    def make_handler(own: int, other: int) -> None:
        def handle() -> None:
            called.append(own)
            loop.unwatch(other)

        loop.watch(own, handle)

    make_handler(*pair)
    make_handler(*reversed(pair))
    loop.run_until(lambda: len(called) >= 2)

    assert len(set(called)) == 1


def test_watching_again_replaces_handler_and_events(loop: BoundedLoop) -> None:
    called: list[str] = []
    ours, theirs = open_socket_pair()
    os.write(theirs, b"x")
    loop.watch(ours, lambda: called.append("old"), 0)
    loop.run_once()
    assert called == []

    loop.watch(ours, lambda: called.append("new"), select.POLLOUT)
    loop.run_until(lambda: bool(called))

    assert set(called) == {"new"}


def test_a_hang_up_is_reported_without_asking_for_it(loop: BoundedLoop) -> None:
    called: list[str] = []
    reading, writing = os.pipe()
    loop.watch(reading, lambda: called.append("hung up"), 0)
    os.close(writing)

    loop.run_until(lambda: bool(called))


def test_timers_run_in_the_order_of_their_times(loop: BoundedLoop) -> None:
    called: list[str] = []
    loop.set_timer("late", 0.02, lambda: called.append("late"))
    loop.set_timer("early", 0.001, lambda: called.append("early"))

    loop.run_until(lambda: "late" in called)

    assert called == ["early", "late"]


def test_timers_that_are_due_at_the_same_time_run_in_their_order(loop: BoundedLoop) -> None:
    called: list[str] = []
    loop.set_timer("late", -1.0, lambda: called.append("late"))
    loop.set_timer("early", -2.0, lambda: called.append("early"))

    loop.run_until(lambda: "late" in called)

    assert called == ["early", "late"]
    assert not loop.has_timer("early")


@pytest.mark.parametrize("is_frugal", [False, True])
def test_a_timer_runs_when_its_time_has_come_and_not_before(
    is_frugal: bool, streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert streams
    loop = BoundedLoop(is_frugal=is_frugal)
    waits: list[float] = []
    now = [100.0]
    called: list[float] = []

    class Poll:
        def poll(self, timeout: float) -> list[tuple[int, int]]:
            waits.append(timeout)
            now[0] += timeout / (1000 if is_frugal else 1)
            return []

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    loop.close()
    monkeypatch.setattr(loop, "_poll", Poll())
    loop.set_timer("soon", 1.5, lambda: called.append(now[0]))
    loop.run_until(lambda: bool(called))

    assert called == [101.5]
    assert waits == [1500.0 if is_frugal else 1.5]


def test_a_timer_that_is_late_runs_at_once(
    loop: BoundedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    loop.set_timer("soon", 1.0, lambda: called.append("soon"))
    now[0] = 103.0

    assert loop._find_timeout() == 0.0  # noqa: SLF001
    loop.run_until(lambda: bool(called))


def test_a_timer_can_be_cancelled(loop: BoundedLoop) -> None:
    called: list[str] = []
    loop.set_timer("first", 0.0, lambda: called.append("first"))
    assert loop.has_timer("first")
    loop.cancel_timer("first")
    loop.cancel_timer("unknown")
    assert not loop.has_timer("first")
    loop.run_once()

    assert called == []


def test_a_timer_of_the_same_name_replaces_the_one_before(loop: BoundedLoop) -> None:
    called: list[str] = []
    loop.set_timer("name", 0.0, lambda: called.append("old"))
    loop.set_timer("name", 60.0, lambda: called.append("new"))
    loop.run_once()

    assert called == []
    assert loop.has_timer("name")


def test_an_action_may_cancel_another_timer_or_set_it_again(loop: BoundedLoop) -> None:
    called: list[str] = []

    def act() -> None:
        called.append("act")
        loop.cancel_timer("cancelled")
        loop.set_timer("later", 60.0, lambda: called.append("later"))

    loop.set_timer("act", 0.0, act)
    loop.set_timer("cancelled", 0.0, lambda: called.append("cancelled"))
    loop.set_timer("later", 0.0, lambda: called.append("too early"))
    loop.run_once()

    assert called == ["act"]
    assert loop.has_timer("later")


def test_a_timer_may_set_itself_again(loop: BoundedLoop) -> None:
    called: list[str] = []

    def act() -> None:
        called.append("act")
        loop.set_timer("again", 0.0, act)

    loop.set_timer("again", 0.0, act)
    loop.run_until(lambda: len(called) == 3)


def test_a_timer_that_a_handler_sets_runs_though_nothing_else_happens(
    streams: StandardStreams,
) -> None:
    assert streams
    loop = Loop()
    fd = open_ready_pipe()

    def handle() -> None:
        drain(fd)
        loop.set_timer("end", 0.0, loop.stop)

    loop.watch(fd, handle)
    loop.run()  # without a timer until then, so it waited without a limit

    assert not loop.has_timer("end")
    loop._poll.close()  # noqa: SLF001


def test_timers_run_though_a_descriptor_is_always_ready(loop: BoundedLoop) -> None:
    called: list[str] = []
    loop.watch(open_ready_pipe(), lambda: None)
    loop.set_timer("soon", 0.001, lambda: called.append("soon"))

    loop.run_until(lambda: bool(called))


@pytest.mark.parametrize("kind", ["pipe", "socket", "file", "null"])
def test_each_kind_of_stdin_has_a_poll_object_that_takes_it(
    kind: str, streams: StandardStreams, tmp_path: Path
) -> None:
    if kind == "socket":
        streams.place(0, open_socket_pair()[0])
    elif kind == "file":
        (tmp_path / "requests").write_bytes(b"{}\n")
        streams.place(0, os.open(tmp_path / "requests", os.O_RDONLY))
    elif kind == "null":
        streams.place(0, os.open(os.devnull, os.O_RDONLY))
    loop = BoundedLoop()
    called: list[str] = []
    loop.watch(0, lambda: called.append("stdin"))

    if kind in {"file", "null"}:
        loop.run_until(lambda: bool(called))
    else:
        assert hasattr(loop._poll, "close") == hasattr(select, "epoll")  # noqa: SLF001
    loop.close()


def test_a_file_that_epoll_refuses_is_watched_without_effect(
    loop: BoundedLoop, tmp_path: Path
) -> None:
    assert stat.S_ISFIFO(os.fstat(0).st_mode)
    (tmp_path / "output").touch()
    fd = os.open(tmp_path / "output", os.O_RDWR)
    loop.watch(fd, lambda: None)
    loop.watch(fd, lambda: None, 0)

    assert loop.is_watched(fd)
    loop.unwatch(fd)
    assert not loop.is_watched(fd)


def test_a_frugal_loop_opens_no_descriptor(streams: StandardStreams) -> None:
    assert streams
    before = os.listdir("/dev/fd")
    loop = Loop(is_frugal=True)

    assert os.listdir("/dev/fd") == before
    assert loop._second == 1000  # noqa: SLF001


def test_a_frugal_loop_does_not_look_at_stdin(streams: StandardStreams) -> None:
    saved = os.dup(0)
    os.close(0)
    try:
        Loop(is_frugal=True)
    finally:
        streams.place(0, saved)


def test_read_returns_what_is_there_and_nothing_at_the_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a line\n")
    assert read(reading) == b"a line\n"
    os.close(writing)

    assert read(reading) == b""


def test_read_returns_as_much_as_a_pipe_holds() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    written = os.write(writing, bytes(CHUNK + 1))

    assert len(read(reading)) == min(written, CHUNK)
    assert CHUNK == 65536


def test_a_reset_socket_and_a_closed_terminal_are_at_their_end() -> None:
    ours, theirs = open_socket_pair()
    os.write(ours, b"unread")
    os.close(theirs)
    assert read(ours) == b""

    terminal, program = os.openpty()
    os.close(program)
    assert read(terminal) == b""


def test_there_is_input_if_there_is_data_or_the_end() -> None:
    reading, writing = os.pipe()
    assert not has_input(reading)
    os.write(writing, b"x")
    assert has_input(reading)
    drain(reading)
    assert not has_input(reading)
    os.close(writing)
    assert has_input(reading)


def test_input_is_awaited_for_as_long_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []

    class Poll:
        def register(self, fd: int, events: int) -> None:
            assert (fd, events) == (7, select.POLLIN)

        def poll(self, milliseconds: int) -> list[tuple[int, int]]:
            waits.append(milliseconds)
            return []

    monkeypatch.setattr(select, "poll", Poll)

    assert not has_input(7, 500)
    assert not has_input(7)
    assert waits == [500, 0]


def test_a_read_is_never_a_long_line() -> None:
    """A call that comes in one read may match a pattern, and is then not looked at any closer."""
    assert CHUNK <= protocol.LONG_LINE


def test_a_timer_may_be_set_for_years() -> None:
    loop = Loop(is_frugal=True)
    loop.set_timer("rest", 10.0**9, loop.stop)
    loop.set_timer("soon", 0.0, loop.stop)

    loop.run()

    assert loop._find_timeout() == 86_400_000  # noqa: SLF001  # in milliseconds
