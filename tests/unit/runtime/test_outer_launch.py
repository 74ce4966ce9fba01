"""The launch around this one, and what is known of our host when a launch begins."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable
from loop_rig import FakeGuardian
from started_launch import HOST_PID, StartedLaunch

from mcp_launch import runtime
from mcp_launch.broker import Broker
from mcp_launch.broker.routing import Binding, Served
from mcp_launch.runtime import outer_launch
from mcp_launch.runtime.lease import LeaseWriter
from mcp_launch.runtime.outer_launch import Outer
from mcp_launch.runtime.supervisor import HOST, SERVER
from mcp_launch.system import kernel
from mcp_launch.values import Found, Stamp

if TYPE_CHECKING:
    from loop_rig import RecordedLog

GUARDIAN = 7


def write_lease(directory: Path, name: str, **changed: Any) -> Path:
    """Write the lease of an outer launch."""
    record: dict[str, Any] = {
        "launch": name,
        "context": {"session": {"value": f"session of {name}", "origin": "the host"}},
        "binding": {"state": "confirmed", "evidence": "a call"},
        "processes": {"guardian": {"pid": GUARDIAN, "start": "ticks:5"}},
    }
    directory.mkdir(mode=0o700, exist_ok=True, parents=True)
    path = directory / f"{name}.json"
    path.write_text(json.dumps(record | changed), encoding="utf-8")
    path.chmod(0o600)
    return path


@pytest.fixture
def leases(tmp_path: Path) -> Path:
    return tmp_path / "state" / "leases"


@pytest.fixture
def table(tmp_path: Path) -> FakeProcessTable:
    """Return a table in which the host runs below the guardian of the launch `outer`."""
    table = FakeProcessTable()
    table.add(GUARDIAN, "mcp-launch")
    table.add(HOST_PID, "codex", parent=GUARDIAN)
    table.variables[HOST_PID] = {
        "MCP_LAUNCH_ID": "outer",
        "MCP_LAUNCH_HOME": str(tmp_path / "state"),
    }
    return table


def test_the_outer_launch_is_found_by_its_guardian(table: FakeProcessTable, leases: Path) -> None:
    path = write_lease(leases, "outer")
    outer = outer_launch.find(table, HOST_PID)

    assert outer is not None
    assert outer.path == str(path)
    assert outer.read() == {
        "sessionId": "session of outer",
        "launchId": "outer",
        "binding": "confirmed",
        "origin": {"sessionId": "the host", "binding": "a call"},
    }


def test_a_launch_whose_guardian_is_not_above_the_host_is_not_ours(
    table: FakeProcessTable, leases: Path
) -> None:
    write_lease(leases, "outer", processes={"guardian": {"pid": 99}})

    assert outer_launch.find(table, HOST_PID) is None


@pytest.mark.parametrize("name", ["", "../outer", "unknown"])
def test_a_name_that_is_no_launch_is_ignored(
    name: str, table: FakeProcessTable, leases: Path
) -> None:
    write_lease(leases, "outer")
    write_lease(leases.parent, "outer")
    table.variables[HOST_PID]["MCP_LAUNCH_ID"] = name

    assert outer_launch.find(table, HOST_PID) is None


def test_the_hosts_home_is_used_not_ours(
    table: FakeProcessTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_LAUNCH_HOME", "/nowhere")
    home = tmp_path / "hosts"
    del table.variables[HOST_PID]["MCP_LAUNCH_HOME"]
    table.variables[HOST_PID]["HOME"] = str(home)
    home.mkdir()
    path = write_lease(home / ".local/state/mcp-launch/leases", "outer")
    outer = outer_launch.find(table, HOST_PID)

    assert outer is not None
    assert outer.path == str(path)


def test_a_lease_that_changes_is_read_again(leases: Path) -> None:
    path = write_lease(leases, "outer")
    outer = Outer(str(path))
    first: Any = outer.read()
    write_lease(leases, "outer", launch="changed")
    second: Any = outer.read()

    assert (first["launchId"], second["launchId"]) == ("outer", "changed")


def test_a_lease_that_has_not_changed_is_not_read_again(
    leases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = Outer(str(write_lease(leases, "outer")))
    first = outer.read()
    monkeypatch.setattr(outer._stamp, "__class__", _Unchanged)  # noqa: SLF001
    monkeypatch.delattr(outer_launch, "_read_context")

    assert outer.read() is first


class _Unchanged(Stamp):
    __slots__ = ()

    def may_have_changed(self, seen: os.stat_result) -> bool:
        assert seen.st_size
        return False


def test_the_last_context_counts_when_the_lease_is_gone(leases: Path) -> None:
    path = write_lease(leases, "outer")
    outer = Outer(str(path))
    first = outer.read()
    path.unlink()

    assert first is not None
    assert outer.read() == first


@pytest.mark.parametrize("binding", [None, "confirmed"])
def test_a_lease_without_a_binding_has_no_context(binding: object, leases: Path) -> None:
    assert Outer(str(write_lease(leases, "outer", binding=binding))).read() is None


def test_an_unreadable_lease_has_no_context(leases: Path) -> None:
    path = write_lease(leases, "outer")
    path.write_text("[]", encoding="utf-8")

    assert Outer(str(path)).read() is None


def test_launches_beyond_the_outer_one_are_followed_to_a_limit(leases: Path) -> None:
    for number in range(12):
        write_lease(leases, f"n{number}", outer=str(leases / f"n{number + 1}.json"))
    seen: list[str] = []
    context: Any = Outer(str(leases / "n0.json")).read()
    while context:
        seen.append(context["launchId"])
        context = context.get("outer")

    assert seen == [f"n{number}" for number in range(9)]


def test_an_outer_lease_that_is_gone_is_left_out(leases: Path) -> None:
    context: Any = Outer(str(write_lease(leases, "outer", outer="/nowhere.json"))).read()

    assert "outer" not in context


@pytest.fixture
def launch(
    table: FakeProcessTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StartedLaunch:
    monkeypatch.setattr(os, "getppid", lambda: HOST_PID)
    monkeypatch.setattr(kernel, "open_watch", lambda _pid: None)
    launch = StartedLaunch(FakeGuardian(), str(tmp_path / "leases" / "own.json"), {})
    launch.table.processes.update(table.processes)
    launch.table.variables.update(table.variables)
    launch.running.line.process = launch.table.look(HOST_PID)
    return launch


def test_a_launch_below_another_reads_its_context(launch: StartedLaunch, leases: Path) -> None:
    path = write_lease(leases, "outer")
    outer = runtime._find_outer(launch.running)  # noqa: SLF001

    assert outer is not None
    assert outer.path == str(path)
    assert runtime._make_settings(launch.running, outer, None).read_outer == outer.read  # noqa: SLF001


def test_a_host_outside_any_launch_has_no_outer_launch(
    launch: StartedLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(outer_launch, "find")  # it is not even looked for
    del launch.table.variables[HOST_PID]["MCP_LAUNCH_ID"]
    assert runtime._find_outer(launch.running) is None  # noqa: SLF001

    launch.running.line.process = None
    assert runtime._find_outer(launch.running) is None  # noqa: SLF001


@pytest.mark.parametrize(
    ("start", "is_lost"), [("ticks:5", False), ("ticks:6", True), (None, False), ("gone", True)]
)
def test_a_host_whose_pid_belongs_to_another_is_lost(
    start: str | None, is_lost: bool, launch: StartedLaunch, trace: RecordedLog
) -> None:
    hosts = launch.table.processes[HOST_PID]
    launch.running.line.process = hosts
    if start == "gone":
        launch.running.line.process = launch.table.add(11, "codex")
        del launch.table.processes[11]
    else:
        launch.table.add(HOST_PID, "codex", start=start)
    watch = runtime.watch_hosts(launch.running, [HOST_PID])

    assert watch.is_lost is is_lost
    assert watch.needs_polling
    assert bool(trace.notes) is is_lost


def test_a_parent_that_has_ended_is_a_lost_host(
    launch: StartedLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert runtime.watch_hosts(launch.running, [HOST_PID]).is_lost

    monkeypatch.setattr(os, "getppid", lambda: HOST_PID)
    launch.running.line.process = None
    assert not runtime.watch_hosts(launch.running, [HOST_PID, GUARDIAN]).is_lost


def test_a_lease_describes_the_next_server_while_one_is_replaced(launch: StartedLaunch) -> None:
    running, lease = launch.running, Path(launch.starter.lease)
    running.decided.place_note = "a home"
    first = Served(running.found, Binding("confirmed", "s1", "t1", "a call"), running.decided)
    broker = Broker(runtime._make_settings(running, None, None))  # noqa: SLF001
    broker.connect(HOST)
    backend = broker.open_backend(SERVER, first)
    backend.calls, backend.generation, broker.refusals = 3, 2, 1
    broker.connections[HOST].roots = ["/work"]
    outer = Outer("/outer.json")
    running.wanted.passed_over = "it is not trusted"
    writer = LeaseWriter(running, broker, outer)
    writer.write()
    record = json.loads(lease.read_bytes())

    assert record["binding"] == {
        "state": "confirmed",
        "session": "s1",
        "thread": "t1",
        "evidence": "a call",
    }
    assert (record["calls"], record["restarts"], record["refusals"]) == (3, 2, 1)
    assert (record["outer"], record["passed_over"]) == ("/outer.json", "it is not trusted")
    assert (record["roots"], record["place_note"]) == (["/work"], "a home")
    found = running.found.for_session(Found("s2", "a call"), running.found.thread)
    backend.next_served = Served(found, Binding("confirmed", "s2", None, ""), running.decided)
    writer.write()
    record = json.loads(lease.read_bytes())
    assert record["binding"]["session"] == "s2"
    assert record["context"]["session"] == {"value": "s2", "origin": "a call"}
    writer.remove()
    assert not lease.exists()


def test_the_context_of_a_call_has_its_own_directory(launch: StartedLaunch) -> None:
    running = launch.running
    bound = Binding("confirmed", "s1", None, "a call")
    served = Served(running.found, bound, running.decided)
    described: Any = runtime.describe_context(served, None)

    assert (described["cwd"], described["launchId"]) == ("/work/app", "launch-1")
    assert (described["binding"], described["origin"]["binding"]) == ("confirmed", "a call")
    elsewhere: Any = runtime.describe_context(served, Found("/elsewhere", "the call"))
    assert (elsewhere["cwd"], elsewhere["origin"]["cwd"]) == ("/elsewhere", "the call")


def test_the_context_of_a_call_says_if_the_directory_is_only_the_hosts_own(
    launch: StartedLaunch,
) -> None:
    running = launch.running
    running.found.is_host_directory = True
    served = Served(running.found, Binding("unbound", None, None, ""), running.decided)
    its_own = Found("/work/app", "the host's roots/list")

    assert runtime.describe_context(served, None)["placeOf"] == "agent"
    assert "placeOf" not in runtime.describe_context(served, Found("/elsewhere", "the call"))
    assert "placeOf" not in runtime.describe_context(served.at(its_own), None)
