"""A launch from the start of its server to its end: lease, log, outcome and both wires."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from broker_playbooks import make_plan
from guarded_launch import GREETING, INITIALIZED, WELCOME, ask
from loop_rig import BoundedLoop, FakeGuardian, FakeServer, drain
from started_launch import HOST_PID, StartedLaunch

from mcp_launch import runtime, state
from mcp_launch.errors import LaunchError, NotExecutable
from mcp_launch.runtime import answer_failure
from mcp_launch.runtime import loop as loops
from mcp_launch.system import kernel
from mcp_launch.system.spawn import Pipes
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from loop_rig import StandardStreams

    from mcp_launch.launch.failed_launch import FailedLaunch
    from mcp_launch.launch.plan import Plan


class ScriptedLoop(BoundedLoop):
    """A loop that runs until each step of the test has had its effect, and then to its end."""

    steps: list[tuple[Callable[[], object], Callable[[], bool]]]

    def run(self) -> None:
        for act, has_come in [*self.steps]:
            self.steps.clear()
            act()
            self.run_until(has_come)
        if not self.was_stopped:
            super().run()


class Carried:
    """A launch that `carry` takes to its end."""

    def __init__(self, streams: StandardStreams, tmp_path: Path) -> None:
        self.streams = streams
        self.lease = tmp_path / "leases" / "launch-1.json"
        self.wake, self.signals = os.pipe()
        self.options: dict[str, list[str]] = {"--server": ["srv"]}
        self.facts: dict[str, Any] = {}
        self.loop = ScriptedLoop()
        self.loop.steps = []

    def prepare(self, *, direct: bool = False) -> None:
        self.pipes = None if direct else Pipes()
        self.server = None if self.pipes is None else FakeServer(self.pipes)
        self.guardian = self.server.guardian if self.server else FakeGuardian()
        self.launch = StartedLaunch(self.guardian, str(self.lease), self.options, **self.facts)
        self.running = self.launch.running

    def step(self, act: Callable[[], object], has_come: Callable[[], bool]) -> None:
        self.loop.steps.append((act, has_come))

    def carry(self) -> int:
        return runtime.carry(self.running, self.pipes, self.wake)

    def read_lease(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.lease.read_bytes())
        return record


@pytest.fixture
def carried(
    streams: StandardStreams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Carried]:
    carried = Carried(streams, tmp_path)
    monkeypatch.setattr(runtime, "Loop", lambda: carried.loop)
    monkeypatch.setattr(os, "getppid", lambda: HOST_PID)
    monkeypatch.setattr(kernel, "open_watch", lambda _pid: None)
    yield carried
    carried.loop.close()


def test_the_guarded_wire_from_start_to_end(
    carried: Carried, alarms: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(state.OUTCOME, str(tmp_path / "outcome"))
    carried.prepare()
    server = carried.server
    assert server is not None
    record: dict[str, Any] = {}
    before = time.time()

    def end() -> None:
        record.update(carried.read_lease())
        server.say(WELCOME)
        server.say(b"noise\n")
        server.guardian.say("left 1\n")
        carried.streams.end_input()
        server.exit(3)

    carried.streams.say(GREETING)
    carried.step(server.guardian.start, carried.lease.exists)
    carried.step(end, lambda: carried.loop.was_stopped)

    assert carried.carry() == 3
    assert carried.streams.read() == WELCOME
    assert not carried.lease.exists()
    assert alarms[-1] == 0
    assert carried.guardian.was_left
    assert json.loads((tmp_path / "outcome").read_bytes()) == {
        "left_behind": 1,
        "outlasted_input": False,
        "noise": 1,
        "first_noise": ["noise"],
        "unanswered": [],
    }
    assert record["server"] == "srv"
    assert record["launch"] == "launch-1"
    assert record["wire"] == "guarded"
    assert record["boot"] == "boot-1"
    assert record["lineage"] == {
        "verdict": "unknown",
        "evidence": "stdin is neither a pipe nor a socket",
    }
    assert (record["outer"], record["passed_over"]) == (None, None)
    assert before <= record["started"] <= time.time()
    assert record["processes"] == {
        "launcher": {"pid": os.getpid(), "start": None},
        "keeper": {"pid": os.getpid(), "start": None},
        "guardian": {"pid": 4710, "start": None},
        "server": {"pid": 4711, "start": None},
        "host": {"pid": HOST_PID, "start": "ticks:5"},
    }
    assert record["context"] == {
        "host": {"value": "codex", "origin": "process 10 (codex) above us"},
        "project_root": {"value": "/work/app", "origin": ".git in it"},
        "cwd": {"value": "/work/app", "origin": "inherited"},
    }
    assert record["place_note"] == ""
    assert record["binding"]["state"] == "unbound"
    assert (record["calls"], record["refusals"], record["last_call"]) == (0, 0, None)
    assert (record["restarts"], record["noise"], record["roots"]) == (0, 0, [])


def test_the_lease_counts_calls_and_knows_when_the_last_was(
    carried: Carried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "_LEASE_DELAY", 0.0)
    carried.prepare()
    server = carried.server
    assert server is not None
    record: dict[str, Any] = {}
    before = time.time()

    def write_lease() -> None:
        record.update(carried.read_lease())
        carried.streams.end_input()
        server.exit(0)

    carried.streams.say(GREETING)
    carried.step(server.guardian.start, lambda: bool(server.read()))
    carried.step(lambda: server.say(WELCOME), lambda: bool(carried.streams.read()))
    carried.step(
        lambda: carried.streams.say(INITIALIZED + ask(1, method="tools/call")),
        lambda: b"tools/call" in server.read(),
    )
    carried.step(
        lambda: os.write(carried.signals, bytes([kernel.SIGALRM])),
        lambda: carried.read_lease()["calls"] == 1,
    )
    carried.step(write_lease, lambda: carried.loop.was_stopped)

    assert carried.carry() == 0
    assert before - 1 <= record["last_call"] <= time.time() + 1
    assert record["opened_with"] == "initialize"


def test_a_lost_host_is_noticed_at_the_start(carried: Carried) -> None:
    carried.prepare()
    del carried.launch.table.processes[HOST_PID]
    assert carried.server is not None
    carried.server.guardian.start()
    carried.server.exit(0)

    assert carried.carry() == 0


def test_the_direct_wire_from_start_to_end(
    carried: Carried, alarms: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(state.OUTCOME, str(tmp_path / "outcome"))
    carried.options["--direct"] = []
    carried.prepare(direct=True)
    record: dict[str, Any] = {}

    def end() -> None:
        record.update(carried.read_lease())
        carried.guardian.say("exited 0\nleft 2\n")
        carried.guardian.end()

    carried.step(carried.guardian.start, carried.lease.exists)
    carried.step(end, lambda: carried.loop.was_stopped)

    assert carried.carry() == 0
    assert record["wire"] == "direct"
    assert record["processes"]["server"]["pid"] == 4711
    assert not carried.lease.exists()
    assert alarms == [0]
    assert carried.guardian.was_left
    assert carried.launch.reported == []
    assert json.loads((tmp_path / "outcome").read_bytes()) == {
        "left_behind": 2,
        "outlasted_input": False,
    }


def test_the_direct_wire_releases_a_guardian_that_is_still_busy(carried: Carried) -> None:
    carried.prepare(direct=True)
    carried.step(carried.guardian.start, carried.lease.exists)
    carried.step(
        lambda: os.write(carried.signals, b"\x0f"), lambda: carried.loop.has_timer("leave")
    )
    carried.step(lambda: carried.loop.fire("leave"), lambda: carried.loop.was_stopped)

    assert carried.carry() == 128 + 15
    assert carried.guardian.was_left
    assert not carried.guardian.was_finished


def test_the_servers_last_words_are_logged_though_their_line_has_no_end(
    carried: Carried, tmp_path: Path
) -> None:
    carried.prepare()
    server = carried.server
    assert server is not None

    def end() -> None:
        server.complain(b"last words")
        carried.streams.end_input()
        server.exit(0)

    carried.step(server.guardian.start, carried.lease.exists)
    carried.step(end, lambda: carried.loop.was_stopped)
    carried.carry()

    log = (tmp_path / "state" / "logs" / "launch-1.log").read_bytes()
    assert b" e last words\n" in log


@pytest.mark.parametrize(
    ("unread", "may_stay"), [(GREETING, True), (ask(7), False)], ids=["at first", "later"]
)
def test_a_failure_on_the_direct_wire_is_reported_and_answered(
    unread: bytes, may_stay: bool, carried: Carried, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[tuple[LaunchError, bytes, FailedLaunch | None]] = []
    monkeypatch.setattr(answer_failure, "answer_failure", lambda *given: answered.append(given))
    carried.prepare(direct=True)
    carried.streams.say(unread)
    carried.guardian.start()
    carried.guardian.say("exited 3\n")
    carried.guardian.end()

    assert carried.carry() == 3
    assert [error.exit_code for error in carried.launch.reported] == [3]
    ((error, left, found),) = answered
    assert (error, left) == (carried.launch.reported[0], unread)
    assert (found is not None) == may_stay


def test_the_log_of_a_launch_begins_with_its_facts(carried: Carried, tmp_path: Path) -> None:
    carried.facts["session"] = Found("session-1", "the host")
    carried.prepare()
    log = runtime._open_log(carried.running)  # noqa: SLF001
    state.note("a decision")
    lines = (tmp_path / "state" / "logs" / "launch-1.log").read_bytes().splitlines()

    facts = json.loads(lines[0].split(b" ", 2)[2])
    assert log.descriptor >= 0
    assert facts["server"] == "srv"
    assert facts["cwd"] == "/work/app"
    assert (facts["host"], facts["session"], facts["thread"]) == ("codex", "session-1", None)
    assert len(facts["mark"]) == 8
    assert lines[-1].endswith(b" t a decision")


def test_no_log_is_kept_if_none_is_wanted(carried: Carried, tmp_path: Path) -> None:
    carried.options["--no-log"] = []
    carried.prepare()

    assert runtime._open_log(carried.running).descriptor == -1  # noqa: SLF001
    assert not (tmp_path / "state" / "logs").exists()


def test_the_profile_and_the_host_decide_the_settings(carried: Carried) -> None:
    carried.options |= {
        "--on-change": ["restart"],
        "--restart": ["off"],
        "--stdout": ["strict"],
        "--cwd": ["project_root"],
        "--no-meta": [],
    }
    carried.prepare()
    settings = runtime._make_settings(carried.running, None, None)  # noqa: SLF001
    facts = carried.launch.context.facts

    assert (settings.server, settings.launch) == ("srv", "launch-1")
    assert (settings.carries, settings.moves_unannounced) == (
        facts.carries,
        facts.moves_unannounced,
    )
    assert (settings.on_change, settings.restart, settings.stdout) == ("restart", "off", "strict")
    assert (settings.cwd, settings.no_meta, settings.read_outer) == ("project_root", True, None)
    assert settings.explain_early_end(3, b"").problem.startswith("srv ended with exit code 3")
    assert settings.explain_end(3, "now", b"") == "ended with exit code 3 now"
    assert settings.is_inside("/work/app/sub", ["/work/app"])


def test_a_plan_for_another_directory_has_its_context(carried: Carried, tmp_path: Path) -> None:
    carried.prepare()
    place = Found(str(tmp_path), "the call's place")

    context, plan = carried.running.plan_for(carried.launch.context, place)
    assert (context.place, plan.cwd.value) == (place, str(tmp_path))
    same, plan = carried.running.plan_for(carried.launch.context, None)
    assert (same, plan.cwd.value) == (carried.launch.context, "/work/app")


def test_a_plan_whose_environment_cannot_be_passed_is_refused(carried: Carried) -> None:
    carried.prepare()

    def decide(_context: object) -> Plan:
        plan = make_plan("/work/app")
        plan.environ["BAD"] = "a\0b"
        return plan

    carried.running.decide = decide
    with pytest.raises(NotExecutable, match="BAD"):
        carried.running.plan_for(carried.launch.context, None)


def test_everything_is_released_if_the_supervisor_crashes(
    carried: Carried, monkeypatch: pytest.MonkeyPatch, alarms: list[float], tmp_path: Path
) -> None:
    monkeypatch.setenv(state.OUTCOME, str(tmp_path / "outcome"))
    carried.prepare()

    def crash() -> None:
        raise ZeroDivisionError

    carried.step(carried.guardian.start, carried.lease.exists)
    carried.step(crash, bool)
    with pytest.raises(ZeroDivisionError):
        carried.carry()

    assert carried.guardian.was_left
    assert alarms[-1] == 0
    assert not carried.lease.exists()
    assert (tmp_path / "outcome").exists()
    assert drain(carried.streams.host_input) == b""
