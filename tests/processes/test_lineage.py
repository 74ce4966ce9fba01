"""Lineage: same, different, unknown, and what each of them allows."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable
from launches import ENVIRONMENT_SERVER, HERE, RUN, LaunchRunner, request

from mcp_launch import hosts
from mcp_launch.errors import LineageContradicted
from mcp_launch.launch import context

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.values import Verdict


# Passes the first line of its stdin on to a descriptor, and stays.
STRANGER = (
    "import os, sys; print('ready', flush=True); "
    "os.write(int(sys.argv[1]), sys.stdin.buffer.readline()); sys.stdin.read()"
)


def trace(table: FakeProcessTable, monkeypatch: pytest.MonkeyPatch) -> context.Lineage:
    """Trace back from process 3, whose stdin is a pipe."""
    monkeypatch.setattr(stat, "S_ISFIFO", lambda _: True)
    monkeypatch.setattr(stat, "S_ISSOCK", lambda _: False)
    return context.trace_back(table, 3)


def make_table(**writers: Verdict) -> FakeProcessTable:
    """Return codex (10) — sh (2) — us (3), and another codex (99) that is no ancestor."""
    table = FakeProcessTable()
    table.add(10, "codex", parent=0)
    table.add(2, "sh", parent=10)
    table.add(3, "mcp-launch", parent=2)
    table.add(99, "codex", parent=0)
    table.add(50, "relay", parent=0)
    table.writers = {int(pid[1:]): verdict for pid, verdict in writers.items()}
    return table


# who can write into our stdin; the verdict; whether the host started us itself
ROWS = {
    "the host holds it": ({"p10": "same"}, "same", True),
    "a program between holds it": ({"p2": "same"}, "same", False),
    "nobody is seen to hold it": ({}, "unknown", False),
    "nothing can be seen": ({"p10": "unknown", "p2": "unknown"}, "unknown", False),
    "another host holds it": ({"p99": "same"}, "different", False),
    "another program holds it": ({"p50": "same"}, "unknown", False),
}


@pytest.mark.parametrize(("writers", "verdict", "started"), ROWS.values(), ids=list(ROWS))
def test_the_verdict_when(
    writers: dict[str, Verdict],
    verdict: str,
    started: bool,  # a column of the table
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = trace(make_table(**writers), monkeypatch)

    assert found.host.name == "codex"
    assert (found.verdict, found.started_us()) == (verdict, started)


# verdict, strict, refused
POLICY = [
    ("same", False, False),
    ("same", True, False),
    ("unknown", False, False),
    ("unknown", True, True),
    ("different", False, True),
    ("different", True, True),
]


@pytest.mark.parametrize(("verdict", "strict", "refused"), POLICY)
def test_a_launch_is_refused(
    verdict: Verdict,
    strict: bool,  # a column of the table
    refused: bool,  # ditto
) -> None:
    table = make_table()
    found = context.Lineage([table.processes[2]], hosts.UNKNOWN, None)
    found.verdict, found.holder = verdict, 99 if verdict == "different" else None

    if refused:
        with pytest.raises(LineageContradicted):
            context.verify_lineage(table, found, strict=strict)
    else:
        context.verify_lineage(table, found, strict=strict)


def test_a_pipe_shows_who_talks_to_us(wire: list[str], runner: LaunchRunner) -> None:
    launch = runner.launch(*wire, "--strict", "--trace", "--", *ENVIRONMENT_SERVER)
    launch.ask("look")

    assert b"stdin: same (the pipe's inode)" in launch.finish()[2]


def test_a_socket_shows_who_talks_to_us(wire: list[str], runner: LaunchRunner) -> None:
    command = [*RUN, *wire, "--strict", "--trace", "--", *ENVIRONMENT_SERVER]
    script = str(HERE / "scripts" / "fake_host.py")
    host = runner.start([sys.executable, script, "--socket", "--", *command])
    host.read_line()
    host.ask("look")

    assert b"stdin: same (SO_PEERCRED)" in host.finish()[2]


def test_a_shell_between_does_not_hide_the_host(wire: list[str], runner: LaunchRunner) -> None:
    launch = runner.start(
        ["sh", "-c", '"$@"; exit $?', "sh", *RUN, *wire, "--strict", "--", *ENVIRONMENT_SERVER]
    )

    assert launch.ask("look")["pid"]


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
