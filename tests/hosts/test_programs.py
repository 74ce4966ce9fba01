"""The programs are the pinned ones, and are isolated."""

from __future__ import annotations

import os
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest
from hosts import isolation, programs
from launches import LIMIT

if TYPE_CHECKING:
    from hosts.programs import Programs


@pytest.mark.parametrize("name", ["codex", "old-codex", "claude"])
def test_a_program_is_the_pinned_one(name: str, installed: Programs) -> None:
    with isolation.leave_only_loopback():
        done = subprocess.run(
            [installed[name], "--version"],
            check=True,
            capture_output=True,
            encoding="utf-8",
            env={"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin"},
            timeout=LIMIT,
        )

    assert programs.read_pins()[name].version in done.stdout.split()


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
