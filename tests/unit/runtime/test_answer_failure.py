"""A launch without a server answers the host's first request with the reason."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from guarded_launch import GREETING, ask
from loop_rig import BoundedLoop, drain, is_at_end, open_socket_pair

from mcp_launch import runtime
from mcp_launch.errors import LaunchError

if TYPE_CHECKING:
    from loop_rig import StandardStreams

ERROR = LaunchError("there is no server", fix="install it")


class LingeringLoop(BoundedLoop):
    """A loop in which the broker's patience is over at once."""

    def set_timer(self, name: str, seconds: float, action: object) -> None:
        super().set_timer(name, 0.05 if name == "broker linger" else seconds, action)  # type: ignore[arg-type]

    def run(self) -> None:
        assert not hasattr(self._poll, "close"), "it is frugal"
        super(BoundedLoop, self).set_timer("limit", 5.0, self._fail)
        super().run()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "Loop", LingeringLoop)


def check(answer: bytes, number: int = 0) -> None:
    said = json.loads(answer)
    assert said["id"] == number
    assert said["error"]["message"] == "[mcp-launch] there is no server — fix: install it"


def test_a_request_on_a_pipe_is_answered(streams: StandardStreams) -> None:
    streams.say(GREETING)
    streams.end_input()
    runtime.answer_failure(ERROR)

    check(streams.read())
    assert streams.read_errors() == b""


def test_what_was_read_already_is_answered_first(streams: StandardStreams) -> None:
    streams.say(ask(1))
    streams.end_input()
    runtime.answer_failure(ERROR, GREETING)

    first, second = streams.read().splitlines()
    check(first)
    check(second, 1)


def test_a_host_that_says_nothing_is_not_awaited_for_ever(streams: StandardStreams) -> None:
    runtime.answer_failure(ERROR)

    assert streams.read() == b""


def test_a_server_is_never_started_for_a_failed_launch(streams: StandardStreams) -> None:
    streams.say(GREETING + ask(1, method="tools/call"))
    runtime.answer_failure(ERROR)

    assert len(streams.read().splitlines()) == 2


def test_a_request_on_a_socket_is_answered(streams: StandardStreams) -> None:
    ours, theirs = open_socket_pair()
    streams.place(1, os.dup(ours))
    streams.place(0, ours)
    os.write(theirs, GREETING)
    runtime.answer_failure(ERROR)

    check(drain(theirs))


def test_a_terminal_gets_no_answer(
    streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, program = os.openpty()
    streams.place(0, program)
    os.write(terminal, GREETING)
    monkeypatch.delattr(runtime, "Supervisor")
    runtime.answer_failure(ERROR)

    assert streams.read() == b""


def test_without_stdin_there_is_nothing_to_answer(
    streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(runtime, "Supervisor")
    saved = os.dup(0)
    os.close(0)
    try:
        runtime.answer_failure(ERROR)
    finally:
        streams.place(0, saved)

    assert streams.read() == b""


def test_the_host_that_hangs_up_is_not_awaited(
    streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LingeringLoop, "set_timer", BoundedLoop.set_timer)
    streams.end_input()
    runtime.answer_failure(ERROR)

    assert streams.read() == b""
    assert not is_at_end(streams.host_input)
