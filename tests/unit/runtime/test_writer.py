"""Writing without blocking: to pipes, sockets, terminals and files."""

from __future__ import annotations

import os
import termios
from typing import TYPE_CHECKING

import pytest
from loop_rig import drain, is_at_end, is_null, is_open, open_socket_pair

from mcp_launch.runtime import streams as streams_module
from mcp_launch.runtime.streams import Writer
from mcp_launch.system import linux

if TYPE_CHECKING:
    from pathlib import Path

    from loop_rig import BoundedLoop, StandardStreams

# More than a pipe or a socket holds.
MUCH = b"0123456789abcdef" * (1 << 16)


class Sink:
    """A writer, its other end, and what it has reported."""

    def __init__(self, loop: BoundedLoop, fd: int, reading: int) -> None:
        self.events: list[str] = []
        self.loop = loop
        self.fd = fd
        self.reading = reading
        self.writer = Writer(
            loop,
            fd,
            on_full=lambda: self.events.append("full"),
            on_empty=lambda: self.events.append("empty"),
            on_broken=lambda: self.events.append("broken"),
            on_moved=lambda: self.events.append("moved"),
        )

    def read_all(self) -> bytes:
        """Read until the writer has nothing left."""
        read = b""

        def is_done() -> bool:
            nonlocal read
            read += drain(self.reading)
            return not self.writer.pending

        self.loop.run_until(is_done)
        return read + drain(self.reading)


@pytest.fixture
def sink(loop: BoundedLoop) -> Sink:
    """Return a writer to a pipe of ours."""
    reading, writing = os.pipe()
    return Sink(loop, writing, reading)


def test_what_fits_is_written_at_once(sink: Sink) -> None:
    sink.writer.put(b"one\n")
    sink.writer.put(b"two\n")

    assert drain(sink.reading) == b"one\ntwo\n"
    assert sink.events == []
    assert not sink.writer.pending
    assert not sink.loop.is_watched(sink.fd)


def test_what_does_not_fit_is_kept_in_order_and_reported(sink: Sink) -> None:
    sink.writer.put(MUCH)
    assert sink.events == ["full"]
    assert sink.writer.pending
    sink.writer.put(b"later\n")
    sink.writer.put(b"last\n")
    assert sink.events == ["full"]

    assert sink.read_all() == MUCH + b"later\nlast\n"
    assert sink.events[-1] == "empty"
    assert sink.events.count("empty") == sink.events.count("full") == 1
    assert set(sink.events[1:-1]) == {"moved"}
    assert not sink.loop.is_watched(sink.fd)


def test_a_pipe_that_is_full_takes_nothing_and_loses_nothing(sink: Sink) -> None:
    sink.writer.put(MUCH)
    already = drain(sink.reading)
    os.write(sink.fd, bytes(len(already)))  # fill it again
    before = bytes(sink.writer.pending)
    sink.writer.flush()

    assert sink.writer.pending == before
    assert sink.events == ["full"]


def test_a_full_pipe_keeps_the_first_data_whole(loop: BoundedLoop) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    filled = os.write(writing, bytes(len(MUCH)))
    sink = Sink(loop, writing, reading)
    sink.writer.put(b"waits\n")

    assert sink.writer.pending == b"waits\n"
    assert sink.events == ["full"]
    assert sink.read_all() == bytes(filled) + b"waits\n"


def test_after_a_pause_it_writes_at_once_again(sink: Sink) -> None:
    sink.writer.put(MUCH)
    sink.read_all()
    sink.events.clear()
    sink.writer.put(b"at once\n")

    assert drain(sink.reading) == b"at once\n"
    assert sink.events == []


def test_a_pipe_without_reader_is_closed_and_reported_once(sink: Sink) -> None:
    os.close(sink.reading)
    sink.writer.put(b"lost\n")
    sink.writer.put(b"too\n")

    assert sink.events == ["broken"]
    assert sink.writer.is_closed
    assert not is_open(sink.fd)


def test_what_a_lost_reader_has_not_read_is_recovered_in_order(sink: Sink) -> None:
    sink.writer.put(b"read\n")
    assert os.read(sink.reading, 5) == b"read\n"
    sink.writer.put(b"unread 1\n")
    os.close(sink.reading)
    sink.writer.put(b"unread 2\n")
    sink.writer.put(b"unread 3\n")

    assert sink.writer.recover() == b"unread 1\nunread 2\nunread 3\n"


def test_pending_data_of_a_lost_reader_is_recovered(sink: Sink) -> None:
    sink.writer.put(MUCH)
    os.close(sink.reading)
    sink.loop.run_until(lambda: "broken" in sink.events)
    sink.writer.put(b"more\n")

    assert sink.writer.recover() == MUCH + b"more\n"
    assert sink.events == ["full", "broken"]
    assert not sink.writer.pending


def test_what_an_open_pipe_still_holds_is_recovered_with_what_is_pending(sink: Sink) -> None:
    sink.writer.put(MUCH)

    assert sink.writer.recover() == MUCH
    assert not sink.writer.is_closed


def test_recovering_a_short_message_ends_where_the_pipe_is_empty(sink: Sink) -> None:
    sink.writer.put(b"unread\n")

    assert sink.writer.recover() == b"unread\n"


def test_without_proc_only_pending_data_is_recovered(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(linux, "reopen", refuse)
    sink.writer.put(MUCH)

    assert sink.writer.recover() == bytes(sink.writer.pending)
    os.close(sink.reading)
    sink.loop.run_until(lambda: "broken" in sink.events)
    assert MUCH.endswith(sink.writer.recover())


def test_recovering_leaves_no_descriptor_open(sink: Sink) -> None:
    before = sorted(os.listdir("/dev/fd"))
    sink.writer.recover()

    assert sorted(os.listdir("/dev/fd")) == before


def test_closing_when_empty_waits_for_what_is_pending(sink: Sink) -> None:
    sink.writer.put(MUCH)
    sink.writer.close_when_empty()
    assert not sink.writer.is_closed

    assert sink.read_all() == MUCH
    assert sink.writer.is_closed
    assert is_at_end(sink.reading)
    assert "empty" not in sink.events
    assert not sink.loop.is_watched(sink.fd)


def test_closing_when_empty_closes_at_once_if_nothing_is_pending(sink: Sink) -> None:
    sink.writer.put(b"last\n")
    sink.writer.close_when_empty()

    assert drain(sink.reading) == b"last\n"
    assert is_at_end(sink.reading)


def test_closing_drops_what_is_pending_and_what_comes_later(sink: Sink) -> None:
    sink.writer.put(MUCH)
    sink.writer.close()
    sink.writer.put(b"later\n")

    assert not sink.writer.pending
    assert sink.writer.recover() == b""
    assert not sink.loop.is_watched(sink.fd)
    assert MUCH.startswith(drain(sink.reading))
    assert is_at_end(sink.reading)
    assert sink.events == ["full"]


def test_closing_twice_closes_once(sink: Sink) -> None:
    sink.writer.close()
    again = os.dup(sink.reading)
    assert again == sink.fd  # the number is taken by something else
    sink.writer.close()

    assert is_open(again)


@pytest.mark.parametrize("number", [1, 2])
def test_a_standard_descriptor_stays_open_on_null(
    number: int, loop: BoundedLoop, streams: StandardStreams
) -> None:
    reading = streams.host_input if number == 1 else streams.host_errors
    sink = Sink(loop, number, reading)
    before = len(os.listdir("/dev/fd"))
    sink.writer.close()

    assert is_null(number)
    assert is_at_end(reading)
    assert len(os.listdir("/dev/fd")) == before
    assert os.write(number, b"x") == 1


def test_what_the_host_has_not_read_is_not_taken_back(
    loop: BoundedLoop, streams: StandardStreams
) -> None:
    sink = Sink(loop, 2, streams.host_errors)
    sink.writer.put(b"for the host\n")

    assert sink.writer.recover() == b""
    assert streams.read_errors() == b"for the host\n"


def test_the_hosts_own_copy_of_a_pipe_stays_blocking(
    loop: BoundedLoop, streams: StandardStreams
) -> None:
    copy = os.dup(1)
    sink = Sink(loop, 1, streams.host_input)

    assert os.get_blocking(copy)
    assert not os.get_blocking(1)
    sink.writer.put(MUCH)
    assert sink.read_all() == MUCH


def test_our_own_pipe_is_opened_without_proc(
    loop: BoundedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(streams_module.linux, "reopen")  # type: ignore[attr-defined]
    reading, writing = os.pipe()
    Sink(loop, writing, reading)

    assert not os.get_blocking(writing)


def test_without_proc_the_hosts_pipe_is_made_non_blocking(
    loop: BoundedLoop, streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(linux, "reopen", refuse)
    sink = Sink(loop, 1, streams.host_input)

    assert not os.get_blocking(1)
    sink.writer.put(MUCH)
    assert sink.read_all() == MUCH


def test_a_socket_is_written_without_making_the_hosts_copy_non_blocking(
    loop: BoundedLoop, streams: StandardStreams
) -> None:
    ours, theirs = open_socket_pair()
    streams.place(1, ours)
    copy = os.dup(1)
    sink = Sink(loop, 1, theirs)
    sink.writer.put(MUCH)

    assert sink.events == ["full"]
    assert os.get_blocking(copy)
    assert sink.read_all() == MUCH


def test_a_socket_that_the_host_has_closed_is_broken(
    loop: BoundedLoop, streams: StandardStreams
) -> None:
    ours, theirs = open_socket_pair()
    streams.place(1, ours)
    sink = Sink(loop, 1, theirs)
    os.close(theirs)
    sink.writer.put(b"lost\n")

    assert sink.events == ["broken"]
    assert is_null(1)


def test_a_terminal_that_does_not_go_on_is_full_and_stays_blocking_for_others(
    loop: BoundedLoop, streams: StandardStreams
) -> None:
    terminal, program = os.openpty()
    settings = termios.tcgetattr(program)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(program, termios.TCSANOW, settings)
    streams.place(1, os.dup(program))
    sink = Sink(loop, 1, terminal)
    sink.writer.put(MUCH)

    assert sink.events == ["full"]
    assert os.get_blocking(program)
    assert os.isatty(1)
    assert sink.read_all() == MUCH


def test_without_proc_a_terminal_stays_as_it_is(
    loop: BoundedLoop, streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(linux, "reopen", refuse)
    terminal, program = os.openpty()
    streams.place(2, program)
    sink = Sink(loop, 2, terminal)
    sink.writer.put(b"shown")

    assert os.get_blocking(2)
    assert drain(terminal) == b"shown"


def test_opening_a_terminal_again_does_not_make_it_ours(
    loop: BoundedLoop, streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: list[int] = []
    reopen = linux.reopen

    def note(pid: str, fd: int, mode: int) -> int:
        flags.append(mode)
        return reopen(pid, fd, mode)

    monkeypatch.setattr(linux, "reopen", note)
    terminal, program = os.openpty()
    streams.place(1, program)
    before = len(os.listdir("/dev/fd"))
    Sink(loop, 1, terminal)

    assert flags == [os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY]
    assert len(os.listdir("/dev/fd")) == before


def test_a_file_takes_everything(
    loop: BoundedLoop, streams: StandardStreams, tmp_path: Path
) -> None:
    path = tmp_path / "output"
    streams.place(1, os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    sink = Sink(loop, 1, streams.host_input)
    sink.writer.put(MUCH)

    assert path.read_bytes() == MUCH
    assert os.get_blocking(1)
    assert sink.events == []


def test_a_closed_writer_does_not_close_the_number_of_its_socket_again(
    loop: BoundedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the fixture that keeps sockets from being garbage-collected
    fd, reading = open_socket_pair()
    events = dict.fromkeys(("on_full", "on_empty", "on_broken", "on_moved"), lambda: None)
    writer = Writer(loop, fd, **events)
    writer.close()
    os.dup2(reading, fd)  # another file gets the number

    del writer  # and its socket

    assert is_open(fd)
    os.close(fd)
