"""A server's stderr, noise, our own messages on stderr, and the explanation of a server's end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from loop_rig import drain, is_open

from mcp_launch.runtime import streams as streams_module
from mcp_launch.runtime.streams import (
    ServerErrors,
    ServerStderr,
    explain_early_end,
    explain_end,
)

if TYPE_CHECKING:
    from loop_rig import BoundedLoop, RecordedLog, StandardStreams

MUCH = b"0123456789abcde\n" * (1 << 16)


class Errors:
    """The errors of a server named srv, whose stderr is a pipe."""

    def __init__(self, loop: BoundedLoop, streams: StandardStreams, log: RecordedLog) -> None:
        self.loop = loop
        self.streams = streams
        self.log = log
        self.emptied = 0
        self.errors = ServerErrors(loop, "srv", log, self._note_empty)
        self.shown = b""
        self.server: ServerStderr

    def _note_empty(self) -> None:
        self.emptied += 1

    def connect(self) -> int:
        """Connect another server; return its end of the pipe."""
        reading, writing = os.pipe()
        self.server = self.errors.connect(reading)
        return writing

    def read_until(self, end: bytes) -> bytes:
        """Return what is shown until a text comes."""

        def is_shown() -> bool:
            self.shown += self.streams.read_errors()
            return self.shown.endswith(end)

        self.loop.run_until(is_shown)
        shown, self.shown = self.shown, b""
        return shown

    def fill(self) -> bytes:
        """Print until the host's pipe is full; return all that was printed."""
        self.errors.print("x" * (1 << 17))
        assert self.errors.is_pending
        return b"[mcp-launch] " + b"x" * (1 << 17) + b"\n"


@pytest.fixture
def errors(loop: BoundedLoop, streams: StandardStreams, log: RecordedLog) -> Errors:
    return Errors(loop, streams, log)


def test_a_servers_stderr_is_passed_on_logged_and_kept(errors: Errors) -> None:
    server = errors.connect()
    os.write(server, b"one\n")
    assert errors.read_until(b"one\n") == b"one\n"
    os.write(server, b"two\n")
    assert errors.read_until(b"two\n") == b"two\n"

    assert errors.log.stderr == b"one\ntwo\n"
    assert errors.server.end == b"one\ntwo\n"
    assert not errors.errors.is_pending


def test_only_the_end_of_a_long_stderr_is_kept(errors: Errors) -> None:
    server = errors.connect()
    data = bytes(range(1, 251)) * 20
    os.write(server, data)
    errors.read_until(data[-10:])

    assert errors.server.end == data[-2048:]
    assert errors.log.stderr == data


def test_the_end_of_stderr_is_read_once(errors: Errors) -> None:
    server = errors.connect()
    source = errors.server.source
    os.write(server, b"last words")
    os.close(server)
    errors.loop.run_until(lambda: not errors.loop.is_watched(source))

    assert errors.streams.read_errors() == b"last words"
    assert errors.server.source == source
    assert is_open(source)


def test_a_host_that_does_not_read_stderr_pauses_the_server(errors: Errors) -> None:
    server = errors.connect()
    source, before = errors.server.source, errors.emptied
    said = errors.fill()
    assert not errors.loop.is_watched(source)
    os.write(server, b"later\n")

    assert errors.read_until(b"later\n") == said + b"later\n"
    assert errors.loop.is_watched(source)
    assert errors.emptied == before + 1
    assert not errors.errors.is_pending


def test_a_server_that_is_gone_is_not_read_any_more(errors: Errors) -> None:
    first = errors.connect()
    os.write(first, b"first\n")
    errors.read_until(b"first\n")
    old = errors.server.source
    errors.server.close()
    assert not is_open(old)
    second = errors.connect()
    assert errors.server.end == b""
    os.write(second, b"second\n")
    errors.read_until(b"second\n")

    assert errors.server.end == b"second\n"
    with pytest.raises(BrokenPipeError):
        os.write(first, b"nobody reads this")


def test_each_of_two_servers_writes_lines_of_its_own_to_the_log(errors: Errors) -> None:
    first = errors.connect()
    one = errors.server
    second = errors.connect()
    os.write(first, b"half a line")
    errors.read_until(b"half a line")
    finished = errors.log.lines_finished
    os.write(second, b"second\n")
    errors.read_until(b"second\n")

    assert errors.log.lines_finished == finished + 1
    assert (one.end, errors.server.end) == (b"half a line", b"second\n")


def test_a_server_that_is_connected_while_stderr_is_full_waits(errors: Errors) -> None:
    said = errors.fill()
    before = errors.emptied
    server = errors.connect()
    assert not errors.loop.is_watched(errors.server.source)
    assert errors.emptied == before
    os.write(server, b"waited\n")

    assert errors.read_until(b"waited\n") == said + b"waited\n"


def test_a_host_that_closes_stderr_gets_no_more_and_the_server_neither(errors: Errors) -> None:
    server = errors.connect()
    source = errors.server.source
    os.close(errors.streams.host_errors)
    os.write(server, b"lost\n")
    errors.loop.run_until(lambda: not is_open(source))

    assert errors.server.source == -1
    assert not errors.loop.is_watched(source)
    with pytest.raises(BrokenPipeError):
        os.write(server, b"nobody reads this")
    errors.errors.print("nor this")


def test_emptying_without_a_server_watches_nothing(errors: Errors) -> None:
    errors.fill()
    drain(errors.streams.host_errors)
    errors.read_until(b"x\n")

    assert errors.emptied == 1
    assert not errors.loop.is_watched(-1)


def test_our_own_messages_are_marked_printable_and_recorded(
    errors: Errors, trace: RecordedLog
) -> None:
    errors.errors.print("it \x1b[31mdied\udc80")

    shown = errors.streams.read_errors()
    assert shown.startswith(b"[mcp-launch] it ")
    assert shown.endswith(b"\n")
    assert b"\x1b" not in shown
    assert trace.notes == ["it \x1b[31mdied\udc80"]


def test_noise_is_reported_line_by_line(errors: Errors) -> None:
    for line in (b"one\r\n", b"\ttwo\xff \n"):
        errors.errors.report_noise(line)

    start = b"[mcp-launch] srv printed a line to stdout that is not a message: "
    assert errors.streams.read_errors() == start + b"one\n" + start + b"        two\\xff \n"
    assert errors.log.noise == [b"one\r\n", b"\ttwo\xff \n"]
    assert errors.errors.first_noise == ["one", "        two\\xff "]


def test_the_first_lines_of_noise_are_kept_and_shortened(errors: Errors) -> None:
    for line in (b"1", b"2" * 5000, b"3", b"4"):
        errors.errors.report_noise(line + b"\n")

    assert errors.errors.first_noise == ["1", "2" * 3000, "3"]
    assert len(errors.log.noise) == 4


def test_noise_is_dropped_when_nobody_reads_it(errors: Errors) -> None:
    line = b"y" * 10000 + b"\n"
    for _ in range(100):
        errors.errors.report_noise(line)
    pending = len(errors.errors._writer.pending)  # noqa: SLF001

    assert streams_module._NOISE_LIMIT == 1 << 18  # noqa: SLF001
    assert 1 << 18 <= pending < (1 << 18) + len(line) + 100
    assert len(errors.log.noise) == 100


def test_dropped_noise_is_not_among_the_first_lines(
    errors: Errors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "_NOISE_LIMIT", 0)
    errors.errors.report_noise(b"dropped\n")

    assert errors.errors.first_noise == []
    assert errors.streams.read_errors() == b""


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (0, "ended with exit code 0"),
        (128, "ended with exit code 128"),
        (129, "was killed by signal 1"),
        (137, "was killed by signal 9"),
    ],
)
def test_an_end_is_explained_by_exit_code_or_signal(code: int, how: str) -> None:
    assert explain_end(code, "at work", b"") == f"{how} at work"


def test_an_end_is_explained_with_the_last_lines_of_stderr() -> None:
    said = b"".join(b"  line %d \n" % number for number in range(8))

    assert explain_end(1, "at work", said) == (
        "ended with exit code 1 at work; the end of its stderr: "
        "line 3 / line 4 / line 5 / line 6 / line 7"
    )


def test_npms_notices_and_empty_lines_do_not_hide_the_cause() -> None:
    said = b"npm error code E404\nnpm notice\nnpm notice New minor version\n\n" * 3

    assert explain_end(1, "at work", said).endswith(
        "the end of its stderr: npm error code E404 / npm error code E404 / npm error code E404"
    )


def test_a_secret_in_stderr_is_masked() -> None:
    secret = "ghp_" + "a1B2" * 9

    text = explain_end(1, "at work", f"token={secret} \xff\n".encode("latin-1"))

    assert secret not in text
    assert "token=" in text


def test_an_early_end_is_an_error_with_the_servers_exit_code() -> None:
    error = explain_early_end("srv", 3, b"no such option\n")

    assert error.problem == (
        "srv ended with exit code 3 before it answered; the end of its stderr: no such option"
    )
    assert "mcp-launch logs srv;" in error.fix
    assert error.exit_code == 3
    assert explain_early_end("srv", 3).problem.endswith("before it answered")
