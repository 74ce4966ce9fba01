"""Fixtures of the runtime's tests: standard streams of their own, a loop, and no real timer."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from guarded_launch import GuardedLaunch
from loop_rig import BoundedLoop, RecordedLog, StandardStreams, list_open

from mcp_launch import state
from mcp_launch.system import kernel
from mcp_launch.system import sockets as sockets_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if sys.platform == "win32":  # nothing is launched there
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    """Close every descriptor that the test has left open."""
    before = list_open()
    yield
    for fd in list_open() - before:
        os.close(fd)


@pytest.fixture(autouse=True)
def sockets(descriptors: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep Python from closing a standard descriptor when a writer is garbage-collected."""
    assert descriptors is None
    opened: list[Any] = []
    open_socket = sockets_module.open_socket

    def open_and_remember(fd: int) -> tuple[Callable[[Any, bytes | bytearray], int], Any]:
        send, stream = open_socket(fd)
        opened.append(stream)
        return send, stream

    monkeypatch.setattr(sockets_module, "open_socket", open_and_remember)
    yield
    for stream in opened:
        stream.detach()


@pytest.fixture
def streams(request: pytest.FixtureRequest, sockets: None) -> Iterator[StandardStreams]:
    """Return pipes in place of stdin, stdout and stderr."""
    assert sockets is None
    streams = StandardStreams(request.config.pluginmanager.getplugin("capturemanager"))
    yield streams
    streams.restore()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Put pytest's descriptors back before it reports the test."""
    try:
        return (yield)
    finally:
        streams = pyfuncitem.funcargs.get("streams")
        if isinstance(streams, StandardStreams):
            streams.restore()


@pytest.fixture
def loop(streams: StandardStreams) -> Iterator[BoundedLoop]:
    """Return a loop for pipes."""
    assert streams
    loop = BoundedLoop()
    yield loop
    loop.close()


@pytest.fixture
def log() -> RecordedLog:
    """Return a log that shows what was added to it."""
    return RecordedLog()


@pytest.fixture(autouse=True)
def trace(monkeypatch: pytest.MonkeyPatch) -> RecordedLog:
    """Return the log that gets the trace of the test, and no other test's."""
    trace = RecordedLog()
    monkeypatch.setattr(state, "_log", trace)
    return trace


@pytest.fixture(autouse=True)
def alarms(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the times after which SIGALRM was asked for; the real one is pytest's."""
    alarms: list[float] = []
    monkeypatch.setattr(kernel, "wake_after", alarms.append)
    return alarms


@pytest.fixture
def launch(loop: BoundedLoop, streams: StandardStreams, log: RecordedLog) -> GuardedLaunch:
    """Return a launch on the guarded wire, whose server is being started."""
    return GuardedLaunch(loop, streams, log)
