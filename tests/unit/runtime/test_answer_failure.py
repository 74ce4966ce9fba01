"""A launch without a server answers the host's first request with the reason."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
from guarded_launch import GREETING, ask
from loop_rig import LIMIT, BoundedLoop, drain, is_at_end, open_socket_pair

from mcp_launch.errors import LaunchError
from mcp_launch.hosts import load
from mcp_launch.launch.context import Lineage
from mcp_launch.launch.failed_launch import FailedLaunch
from mcp_launch.runtime.answer_failure import answer_failure
from mcp_launch.system import kernel, open_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loop_rig import StandardStreams

ERROR = LaunchError("there is no server", fix="install it")


class LingeringLoop(BoundedLoop):
    """A loop in which the broker's patience is over at once."""

    def set_timer(self, name: str, seconds: float, action: object) -> None:
        super().set_timer(name, 0.05 if name == "broker linger" else seconds, action)  # type: ignore[arg-type]

    def run(self) -> None:
        assert not hasattr(self._poll, "close"), "it is frugal"
        super(BoundedLoop, self).set_timer("limit", LIMIT, self._fail)
        super().run()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_launch.runtime.answer_failure.Loop", LingeringLoop)


def check(answer: bytes, number: int = 0) -> None:
    said = json.loads(answer)
    assert said["id"] == number
    assert said["error"]["message"] == "[mcp-launch] there is no server — fix: install it"


def test_a_request_on_a_pipe_is_answered(streams: StandardStreams) -> None:
    streams.say(GREETING)
    streams.end_input()
    answer_failure(ERROR)

    check(streams.read())
    assert streams.read_errors() == b""


def test_what_was_read_already_is_answered_first(streams: StandardStreams) -> None:
    streams.say(ask(1))
    streams.end_input()
    answer_failure(ERROR, GREETING)

    first, second = streams.read().splitlines()
    check(first)
    check(second, 1)


def test_a_host_that_says_nothing_is_not_awaited_for_ever(streams: StandardStreams) -> None:
    answer_failure(ERROR)

    assert streams.read() == b""


def test_a_server_is_never_started_for_a_failed_launch(streams: StandardStreams) -> None:
    streams.say(GREETING + ask(1, method="tools/call"))
    answer_failure(ERROR)

    assert len(streams.read().splitlines()) == 2


def test_a_request_on_a_socket_is_answered(streams: StandardStreams) -> None:
    ours, theirs = open_socket_pair()
    streams.place(1, os.dup(ours))
    streams.place(0, ours)
    os.write(theirs, GREETING)
    answer_failure(ERROR)

    check(drain(theirs))


def test_a_terminal_gets_no_answer(
    streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, program = os.openpty()
    streams.place(0, program)
    os.write(terminal, GREETING)
    monkeypatch.delattr("mcp_launch.runtime.answer_failure.Supervisor")
    answer_failure(ERROR)

    assert streams.read() == b""


def test_without_stdin_there_is_nothing_to_answer(
    streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("mcp_launch.runtime.answer_failure.Supervisor")
    saved = os.dup(0)
    os.close(0)
    try:
        answer_failure(ERROR)
    finally:
        streams.place(0, saved)

    assert streams.read() == b""


def test_the_host_that_hangs_up_is_not_awaited(
    streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LingeringLoop, "set_timer", BoundedLoop.set_timer)
    streams.end_input()
    answer_failure(ERROR)

    assert streams.read() == b""
    assert not is_at_end(streams.host_input)


@pytest.fixture
def found() -> FailedLaunch:
    """Return a failed launch whose host gets a tool."""
    return FailedLaunch(
        launch="launch-1",
        server="docs",
        command=["x"],
        table=open_table(),
        lineage=Lineage([], load("gemini"), None),
        hosts=[os.getppid()],
        answer="tool",
    )


@pytest.fixture
def no_longer_listening() -> Iterator[None]:
    """Undo what a launch that stays does to signals: it would exit, but pytest goes on."""
    handlers = {number: signal.getsignal(number) for number in kernel.ENDING}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("no_longer_listening")
def test_a_host_that_gets_the_tool_is_served_until_it_leaves(
    found: FailedLaunch,
    streams: StandardStreams,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("MCP_LAUNCH_HOME", str(tmp_path))
    streams.say(ask(1, method="tools/list"))
    streams.end_input()
    answer_failure(ERROR, GREETING, found)

    first, second = map(json.loads, streams.read().splitlines())
    assert first["result"]["serverInfo"]["name"] == "docs"
    assert second["result"]["tools"][0]["name"] == "mcp_launch_error"
    assert not list((tmp_path / "leases").glob("*"))


def test_without_descriptors_for_signals_the_host_gets_an_error(
    found: FailedLaunch, streams: StandardStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_numbers: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(kernel, "listen", refuse)
    streams.say(GREETING)
    streams.end_input()
    answer_failure(ERROR, found=found)

    check(streams.read())
