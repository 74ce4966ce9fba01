"""The programs are the pinned ones, and are isolated."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest
from hosts import isolation
from launches import LIMIT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take the network away")
def test_there_is_no_network_but_loopback() -> None:
    before = socket.if_nameindex()

    with isolation.leave_only_loopback():
        assert [name for _, name in socket.if_nameindex()] == ["lo"]

    assert socket.if_nameindex() == before


def test_an_orphan_does_not_get_lost() -> None:
    with isolation.adopt_and_end_orphans():
        # The shell exits at once, and prints the pid of its orphan.
        shell = ["sh", "-c", "sleep 3600 >&- 2>&- & echo $!"]
        told = subprocess.run(shell, check=True, capture_output=True, timeout=LIMIT).stdout
        assert [process.pid for process in isolation.list_below()] == [int(told)]

    assert not isolation.list_below()
