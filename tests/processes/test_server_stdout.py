"""Noise on a real server's stdout: what is diverted, and what passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launches import LaunchRunner, python, request, wait_for_lease

if TYPE_CHECKING:
    from pathlib import Path

# What people print: never the beginning of an object.
BANNER_THEN_ECHO = python(
    "import sys\n"
    "print('Welcome to the server!')\n"
    "print('[INFO] ready', flush=True)\n"
    "for line in sys.stdin: print(line, end='', flush=True)\n"
)


def test_a_banner_does_not_break_the_handshake(runner: LaunchRunner) -> None:
    launch = runner.launch("--server", "noisy", "--", *BANNER_THEN_ECHO)
    launch.send(request("initialize"))

    assert launch.answer()["method"] == "initialize"
    assert launch.finish()[2] == (
        b"[mcp-launch] noisy printed a line to stdout that is not a message: "
        b"Welcome to the server!\n"
        b"[mcp-launch] noisy printed a line to stdout that is not a message: [INFO] ready\n"
    )


def test_the_lease_counts_the_noise(runner: LaunchRunner, tmp_path: Path) -> None:
    launch = runner.launch("--", *BANNER_THEN_ECHO)
    launch.send(request("ping"))
    launch.answer()

    wait_for_lease(tmp_path / "state", lambda lease: lease.get("noise") == 2)
