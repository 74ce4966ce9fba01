"""Lineage on real processes: which of those above us is the host."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from launches import ENVIRONMENT_SERVER, HERE, RUN, LaunchRunner, request

if TYPE_CHECKING:
    from pathlib import Path


# Passes the first line of its stdin on to a descriptor, and stays.
STRANGER = (
    "import os, sys; print('ready', flush=True); "
    "os.write(int(sys.argv[1]), sys.stdin.buffer.readline()); sys.stdin.read()"
)


def test_a_pipe_shows_who_talks_to_us_through_a_shell(runner: LaunchRunner) -> None:
    run = [*RUN, "--strict", "--trace", "--", *ENVIRONMENT_SERVER]
    launch = runner.start(["sh", "-c", '"$@"; exit $?', "sh", *run])
    launch.ask("look")

    assert b"stdin: same (the pipe's inode)" in launch.finish()[2]


def test_a_socket_shows_who_talks_to_us(runner: LaunchRunner) -> None:
    command = [*RUN, "--strict", "--trace", "--", *ENVIRONMENT_SERVER]
    script = str(HERE / "scripts" / "fake_host.py")
    host = runner.start([sys.executable, script, "--socket", "--", *command])
    host.read_line()
    host.ask("look")

    assert b"stdin: same (SO_PEERCRED)" in host.finish()[2]


def test_strict_refuses_what_cannot_be_verified(wire: list[str], runner: LaunchRunner) -> None:
    launch = runner.launch(*wire, "--strict", "--", "cat", stdin=subprocess.DEVNULL)

    code, _, err = launch.finish()

    assert code == 125
    assert b"--strict: cannot verify who holds the other end of stdin" in err


def test_another_hosts_connection_is_refused(
    wire: list[str], runner: LaunchRunner, tmp_path: Path
) -> None:
    """A host that did not start us talks to us: a pool that mixes sessions up."""
    stranger_program = tmp_path / "codex"
    stranger_program.symlink_to(os.path.realpath(sys.executable))
    reading, writing = os.pipe()
    # The stranger gets the writing end and nobody else keeps it.
    stranger = runner.start(
        [
            str(stranger_program),
            "-S",
            "-c",
            STRANGER,
            str(writing),
        ],
        pass_fds=[writing],
    )
    assert stranger.read_line() == b"ready\n"
    os.close(writing)
    launch = runner.launch(*wire, "--", *ENVIRONMENT_SERVER, stdin=reading)
    os.close(reading)
    stranger.send(request("initialize", 3))

    answer = launch.answer()

    assert answer["id"] == 3
    assert f"belongs to Codex (process {stranger.pid})" in answer["error"]["message"]
    assert launch.wait() == 125
