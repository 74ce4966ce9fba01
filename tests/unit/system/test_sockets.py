"""Sockets, without the help of the library."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sys

import pytest

from mcp_launch.system import sockets

if sys.platform == "win32":
    pytest.skip("nothing is launched there", allow_module_level=True)


def test_the_peer_of_a_socket_is_who_made_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert sockets.read_peer(ours.fileno()) == os.getpid()


def test_what_is_not_a_socket_has_no_peer() -> None:
    reading, writing = os.pipe()
    try:
        assert sockets.read_peer(reading) is None
    finally:
        os.close(reading)
        os.close(writing)


def test_sending_to_a_full_socket_does_not_wait() -> None:
    ours, theirs = socket.socketpair()
    send, stream = sockets.open_socket(ours.detach())
    with theirs, contextlib.closing(stream):
        assert send(stream, b"first") == 5
        assert theirs.recv(5) == b"first"

        full = (send(stream, bytes(1 << 16)) for _ in itertools.count())
        with pytest.raises(BlockingIOError):
            sum(full)
