"""Launches without a server, which was not started or rests: who sees them, and who ends them."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from command_line import run_command
from fake_hosts import STAYS, FakeHosts, limit_to_subtree, write_lease
from launches import LIMIT, RUN, SCRIPTED_SERVER, wait_for_lease, wait_until_gone
from shown_servers import read_row, show_running

from mcp_launch import main, system
from mcp_launch.system import linux

if TYPE_CHECKING:
    from pathlib import Path

    from fake_hosts import FakeHost
    from launches import Launch, LaunchRunner


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def start(fake_hosts: FakeHosts, state: Path, /, **facts: Any) -> FakeHost:
    """Start a stand-in for a launcher below a host, with the lease of a launch without a server."""
    fake_host = fake_hosts.start("codex", command=STAYS)
    note(state, fake_host, fake_host.server, **facts)
    return fake_host


def note(state: Path, fake_host: FakeHost, launcher: int, /, **facts: Any) -> Path:
    """Write the lease of a launch without a server."""
    defaults = {
        "processes": {"launcher": launcher, "host": fake_host.pid},
        "context": {"host": {"value": "codex"}, "project_root": {"value": "/work/app"}},
        "binding": {"state": "unbound"},
    }
    return write_lease(state, f"launch-{launcher}", **{**defaults, **facts})


def end_orphans() -> int:
    with mock.patch.object(system, "open_table", limit_to_subtree):
        return main(["reap", "--yes"])


def test_a_server_that_was_not_started_is_listed_below_its_session(
    fake_hosts: FakeHosts, state: Path
) -> None:
    fake_host = start(
        fake_hosts,
        state,
        state="not started",
        since=time.time() - 90,
        saved=80_000_000,
        starts=0,
        calls=0,
        binding={"state": "tentative", "thread": "t-1", "evidence": "its lock"},
    )

    host, thread, server = show_running()

    assert f"pid {fake_host.pid}  up 0s  1 server  " in host
    assert host.endswith(" (saves 80 MB)")
    assert thread == "  thread t-1  /work/app"
    # Neither a process nor an age: only its launcher runs.
    assert read_row(server)[:3] == ["docs", "-", "-"]
    assert server.endswith("  not started, saves 80 MB")


@pytest.mark.parametrize("saved", [None, 0, "much"], ids=["null", "zero", "nonsense"])
def test_what_is_saved_is_left_out_if_it_is_unknown(
    saved: object, fake_hosts: FakeHosts, state: Path
) -> None:
    start(fake_hosts, state, state="not started", saved=saved)

    shown = "\n".join(show_running())

    assert "  not started" in shown
    assert "saves" not in shown


@pytest.mark.parametrize("told", ["starting", "running"], ids=["said so", "not recorded yet"])
def test_a_server_that_is_being_started_counts_as_running(
    told: str, fake_hosts: FakeHosts, state: Path
) -> None:
    start(fake_hosts, state, state=told, saved=80_000_000)

    host, _, server = show_running()

    assert "  1 server  " in host
    assert server.endswith("  starting")
    assert "saves" not in server


def test_programs_get_the_state_of_each_server(fake_hosts: FakeHosts, state: Path) -> None:
    fake_host = start(
        fake_hosts, state, state="resting", since=1000.5, saved=80_000_000, starts=2, calls=3
    )

    (host,) = json.loads(run_command("ps", "--json", table=limit_to_subtree()).stdout)["hosts"]
    (server,) = host["sessions"][0]["servers"]
    assert (host["not_running"], host["saved"]) == (1, 80_000_000)
    assert server["pid"] == server["launcher"] == fake_host.server
    assert server["pids"] == [fake_host.server]
    assert server["memory"]["bytes"] > 0
    launch = server["launch"]
    assert (launch["server"], launch["state"], launch["calls"]) == (0, "unbound", 3)
    assert (launch["server_state"], launch["since"]) == ("resting", 1000.5)
    assert (launch["saved"], launch["starts"]) == (80_000_000, 2)


@pytest.mark.parametrize("absent", ["not started", "resting"])
def test_a_living_launch_without_a_server_is_not_ended(
    absent: str, fake_hosts: FakeHosts, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = start(fake_hosts, state, state=absent)

    assert end_orphans() == 0

    assert linux.is_running(fake_host.server)
    assert "Nothing to reap" in capsys.readouterr().out
    assert len(list((state / "leases").iterdir())) == 1


@pytest.mark.parametrize("absent", ["not started", "resting"])
def test_a_launch_without_a_server_whose_host_is_gone_is_ended(
    absent: str, fake_hosts: FakeHosts, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = start(fake_hosts, state, state=absent)
    fake_host.kill_host()

    assert end_orphans() == 0

    wait_until_gone(fake_host.server)
    assert f"its host, process {fake_host.pid}, is gone" in capsys.readouterr().out
    assert list((state / "leases").iterdir()) == []


def test_a_launch_without_a_server_that_was_killed_is_not_listed(
    fake_hosts: FakeHosts, state: Path
) -> None:
    fake_host = start(fake_hosts, state, state="resting")
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
    (host,) = json.loads(run_command("ps", "--json", table=limit_to_subtree()).stdout)["hosts"]
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
