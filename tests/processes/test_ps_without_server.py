"""Launches without a server, which was not started or rests: who sees them, and who ends them."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from fake_hosts import STAYS, FakeHosts, limit_to_subtree, write_lease
from launches import LIMIT, RUN, SCRIPTED_SERVER, wait_for_lease, wait_until_gone
from shown_servers import read_row, show_mine, show_running

from mcp_launch.system import linux

if TYPE_CHECKING:
    from pathlib import Path

    from fake_hosts import FakeHost
    from launches import Launch, LaunchRunner


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def note(state: Path, fake_host: FakeHost, /, **facts: Any) -> Path:
    """Write the lease of a launch without a server."""
    launcher = fake_host.server
    usual = {
        "processes": {"launcher": launcher, "host": fake_host.pid},
        "context": {"host": {"value": "codex"}, "project_root": {"value": "/work/app"}},
        "binding": {"state": "tentative", "thread": "t-1", "evidence": "its lock"},
    }
    return write_lease(state, f"launch-{launcher}", **{**usual, **facts})


def end_orphans() -> str:
    """Return what is printed."""
    done = run_command("reap", "--yes", table=limit_to_subtree())
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_launch_is_shown_by_what_its_lease_says_of_the_server(
    fake_hosts: FakeHosts, state: Path
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    facts = {"state": "resting", "since": 1000.5, "saved": 80_000_000, "starts": 2, "calls": 3}
    note(state, fake_host, **facts)

    host, thread, server = show_running()

    assert f"pid {fake_host.pid}  up 0s  1 server  " in host
    assert host.endswith(" (saves 80 MB)")
    assert thread == "  thread t-1  /work/app"
    # Neither a process nor an age: only its launcher runs.
    assert read_row(server)[:3] == ["docs", "-", "-"]
    assert re.search(r"  resting \d+d, saves 80 MB$", server)
    (told,) = json.loads(show_mine("--json"))["hosts"]
    (data,) = told["sessions"][0]["servers"]
    assert (told["not_running"], told["saved"]) == (1, 80_000_000)
    assert data["pid"] == data["launcher"] == fake_host.server
    assert data["pids"] == [fake_host.server]
    assert data["memory"]["bytes"] > 0
    assert data["launch"]["server"] == 0
    assert data["launch"]["server_state"] == "resting"
    assert {name: data["launch"][name] for name in facts if name != "state"} == {
        name: value for name, value in facts.items() if name != "state"
    }

    for saved in (None, 0, "much"):
        note(state, fake_host, state="not started", saved=saved)
        assert show_running()[2].endswith("  not started")
        assert "saves" not in "".join(show_running())
    for being_started in ("starting", "running"):  # said so, or not recorded yet
        note(state, fake_host, state=being_started, saved=80_000_000)
        host, _, server = show_running()
        assert "  1 server  " in host
        assert server.endswith("  starting")


def test_a_launch_without_a_server_is_ended_only_when_its_host_is_gone(
    fake_hosts: FakeHosts, state: Path
) -> None:
    started = []
    for absent in ("not started", "resting"):
        fake_host = fake_hosts.start("codex", command=STAYS)
        note(state, fake_host, state=absent)
        started.append(fake_host)

    assert "Nothing to reap" in end_orphans()
    assert all(linux.is_running(one.server) for one in started)
    assert len(list((state / "leases").iterdir())) == 2
    for one in started:
        one.kill_host()
    shown = end_orphans()

    for one in started:
        wait_until_gone(one.server)
        assert f"its host, process {one.pid}, is gone" in shown
    assert list((state / "leases").iterdir()) == []


def test_a_launch_without_a_server_that_was_killed_is_not_listed(
    fake_hosts: FakeHosts, state: Path
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    note(state, fake_host, state="resting")
    os.kill(fake_host.server, signal.SIGKILL)
    fake_host.kill_host()
    deadline = time.monotonic() + LIMIT
    while linux.look(fake_host.server):  # until the init has collected it
        assert time.monotonic() < deadline
        time.sleep(0.005)

    assert show_running()[0] == "No MCP servers are running."


# Real launches


def launch(runner: LaunchRunner, *options: str) -> Launch:
    """Start a launch below Claude Code, and do what it does first."""
    words = ["--server", "docs", *options, "--", *SCRIPTED_SERVER]
    host = runner.launch_below_host("claude", command=[*RUN, *words])
    host.initialize()
    assert host.ask("tools/list")["tools"] == [{"name": "look"}]
    return host


def wait_for_state(state: Path, wanted: str, calls: int = 0) -> dict[str, Any]:
    """Return the lease once it has everything about a state; some of it comes later."""

    def is_right(lease: dict[str, Any]) -> bool:
        is_known = wanted == "running" or lease.get("saved") is not None
        return (lease.get("state"), lease.get("calls")) == (wanted, calls) and is_known

    return wait_for_lease(state, is_right)


def find_only_server() -> dict[str, Any]:
    (host,) = json.loads(show_mine("--json"))["hosts"]
    ((server,),) = (session["servers"] for session in host["sessions"])
    assert isinstance(server, dict)
    return server


def test_a_real_launch_is_shown_as_not_started_until_it_is_called(
    runner: LaunchRunner, state: Path
) -> None:
    first = launch(runner, "--rest", "1s")
    wait_for_state(state, "resting")  # by then it is remembered, and was measured
    assert first.finish()[0] == 0

    host = launch(runner, "--start", "called")
    assert wait_for_state(state, "not started")["starts"] == 0

    line, _, server = show_running()
    assert re.search(r" \(saves \d+(\.\d)? MB\)$", line)
    assert re.search(r"  not started, saves \d+(\.\d)? MB$", server)
    assert read_row(server)[4] == "0"
    assert find_only_server()["pids"] == [host.child]

    pid = host.call("look")["pid"]
    assert wait_for_state(state, "running", calls=1)["starts"] == 1

    line, _, server = show_running()
    assert "  1 server  " in line
    assert read_row(server)[1] == str(pid)
    shown = run_command("logs", "docs", "-v").stdout
    assert len(re.findall(r"not started: the first call starts it", shown)) == 1
    assert len(re.findall(r"a server is started for .* tools/call", shown)) == 1
