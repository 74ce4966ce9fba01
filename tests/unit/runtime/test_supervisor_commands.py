"""Each command of the broker has its effect."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from broker_playbooks import make_plan
from guarded_launch import GuardedLaunch, answer, ask
from loop_rig import is_at_end, is_null, is_open

from mcp_launch.broker import commands as do
from mcp_launch.broker.commands import Command
from mcp_launch.errors import LaunchError
from mcp_launch.runtime import pool as pools
from mcp_launch.runtime import supervisor as supervisors
from mcp_launch.runtime.supervisor import HOST, SERVER, Supervisor
from mcp_launch.system import guardian_process, kernel

if TYPE_CHECKING:
    from pathlib import Path

    from loop_rig import BoundedLoop, RecordedLog, StandardStreams


@pytest.fixture
def ready(launch: GuardedLaunch) -> GuardedLaunch:
    """Return a launch whose handshake is complete."""
    launch.shake_hands()
    return launch


def give(launch: GuardedLaunch, *commands: Command) -> None:
    """Have commands carried out."""
    launch.broker.out += commands
    launch.supervisor._run_commands()  # noqa: SLF001
    assert launch.broker.out == []


def test_every_command_has_an_action() -> None:
    kinds = [one for one in vars(do).values() if isinstance(one, type) and issubclass(one, Command)]
    named = {kind for kind in kinds if not kind.__name__.startswith("_")} - {Command}

    for_pools = {do.ReturnUnread, do.EndConnection, do.Remark}
    at_once = {do.SendToHost, do.SendToServer}
    assert named - for_pools == set(supervisors._ACTIONS) | at_once  # noqa: SLF001
    assert for_pools <= set(pools._ACTIONS)  # noqa: SLF001


def test_data_is_sent_in_order(ready: GuardedLaunch) -> None:
    give(
        ready,
        do.SendToServer(SERVER, b"1"),
        do.SendToHost(HOST, b"a"),
        do.SendToServer(SERVER, b"2"),
        do.SendToHost(HOST, b"b"),
    )

    assert ready.server.read() == b"12"
    assert ready.streams.read() == b"ab"


def test_close_input_waits_for_what_was_sent_before(ready: GuardedLaunch) -> None:
    data = ask(1, 1 << 18)
    give(ready, do.SendToServer(SERVER, data), do.CloseInput(SERVER))

    ready.expect_at_server(data)
    assert is_at_end(ready.server.stdin)


def test_cut_input_drops_what_was_not_read(ready: GuardedLaunch) -> None:
    give(ready, do.SendToServer(SERVER, bytes(1 << 18)), do.CutInput(SERVER))

    assert len(ready.server.read()) < 1 << 18
    assert is_at_end(ready.server.stdin)


def test_close_output_closes_both_ends_of_the_way_to_the_host(ready: GuardedLaunch) -> None:
    output = ready.output
    give(ready, do.CloseOutput(SERVER))

    assert not is_open(output)
    assert not ready.loop.is_watched(output)
    assert ready.output == -1
    assert is_at_end(ready.streams.host_input)
    assert is_null(1)
    give(ready, do.CloseOutput(SERVER))


@pytest.mark.parametrize("command", [do.CloseInput, do.CutInput, do.CloseOutput])
def test_closing_a_server_that_was_never_started_is_ignored(
    command: type[Command], ready: GuardedLaunch
) -> None:
    give(ready, command("another"))  # type: ignore[call-arg]
    give(ready, do.SignalServer("another", 15))

    assert not is_at_end(ready.server.stdin)


def test_close_output_without_a_server_still_closes_ours(ready: GuardedLaunch) -> None:
    give(ready, do.CloseOutput("another"))

    assert is_null(1)


def test_pause_and_resume_stop_and_start_reading_the_host(ready: GuardedLaunch) -> None:
    give(ready, do.PauseHost(HOST))
    assert not ready.loop.is_watched(0)
    give(ready, do.ResumeHost(HOST))
    assert ready.loop.is_watched(0)
    ready.tell_server(ask(1))


def test_a_paused_host_is_read_no_sooner_though_a_server_has_room(ready: GuardedLaunch) -> None:
    data = ask(1, 1 << 18)
    give(ready, do.PauseHost(HOST), do.SendToServer(SERVER, data))
    ready.expect_at_server(data)
    assert not ready.loop.is_watched(0)
    give(ready, do.ResumeHost(HOST))

    assert ready.loop.is_watched(0)


def test_a_host_is_not_resumed_while_a_server_is_full(ready: GuardedLaunch) -> None:
    give(ready, do.SendToServer(SERVER, ask(1, 1 << 18)), do.ResumeHost(HOST))
    assert not ready.loop.is_watched(0)

    ready.expect_at_server(ask(1, 1 << 18))
    assert ready.loop.is_watched(0)


def test_closing_the_hosts_input_shows_the_host_that_nobody_reads(ready: GuardedLaunch) -> None:
    give(ready, do.CloseHostInput(HOST))

    assert is_null(0)
    assert not ready.loop.is_watched(0)
    with pytest.raises(BrokenPipeError):
        os.write(ready.streams.host_output, b"x")
    ready.tell_host(answer(1))
    ready.streams.stop_reading()
    ready.loop.run_until(lambda: ready.host.reader_is_lost)


def test_closing_the_hosts_input_leaves_a_file_as_stdout_alone(
    loop: BoundedLoop, streams: StandardStreams, log: RecordedLog, tmp_path: Path
) -> None:
    streams.place(1, os.open(tmp_path / "output", os.O_WRONLY | os.O_CREAT, 0o600))
    launch = GuardedLaunch(loop, streams, log)
    give(launch, do.CloseHostInput(HOST), do.SendToHost(HOST, b"kept\n"), do.CloseOutput(SERVER))

    assert (tmp_path / "output").read_bytes() == b"kept\n"
    assert is_null(1)


def test_closing_the_hosts_output_waits_for_what_was_sent_before(ready: GuardedLaunch) -> None:
    data = answer(1, 1 << 18)
    give(ready, do.SendToHost(HOST, data), do.CloseHostOutput(HOST))

    ready.expect_at_host(data)
    assert is_at_end(ready.streams.host_input)
    assert is_null(1)


def test_start_server_starts_one_with_its_plan(ready: GuardedLaunch) -> None:
    first, plan = ready.server, make_plan("/elsewhere")
    give(ready, do.StartServer(SERVER, plan))

    assert ready.server is not first
    assert ready.starter.plans == [plan]
    assert is_at_end(first.stdin)
    assert ready.loop.is_watched(ready.output)
    os.close(ready.server.stdout)
    ready.loop.run_until(lambda: ready.broker.backends[SERVER].output_has_ended)


def test_a_server_that_starts_while_the_host_is_slow_waits_to_be_read(
    ready: GuardedLaunch,
) -> None:
    data = answer(1, 1 << 18)
    give(ready, do.SendToHost(HOST, data), do.StartServer(SERVER, make_plan("/work/app")))
    assert not ready.loop.is_watched(ready.output)

    ready.expect_at_host(data)
    assert ready.loop.is_watched(ready.output)


def test_without_a_starter_no_server_is_started(
    loop: BoundedLoop, streams: StandardStreams, log: RecordedLog
) -> None:
    launch = GuardedLaunch(loop, streams, log)
    launch.supervisor._starter = None  # noqa: SLF001
    give(launch, do.StartServer(SERVER, make_plan("/work/app")))

    assert launch.starter.plans == []


@pytest.mark.parametrize(
    ("reason", "order"),
    [("input ended", guardian_process.INPUT_ENDED), ("replaced", guardian_process.REPLACED)],
)
def test_end_server_instructs_its_guardian(
    reason: do.EndReason, order: int, ready: GuardedLaunch
) -> None:
    give(ready, do.EndServer(SERVER, reason))

    assert ready.server.guardian.read_orders() == bytes([order])


def test_signal_server_passes_the_signal_on(ready: GuardedLaunch) -> None:
    give(ready, do.SignalServer(SERVER, 2))

    assert ready.server.guardian.read_orders() == b"\x02"


def test_timers_of_the_broker_run_unless_they_are_cancelled(
    ready: GuardedLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired: list[str] = []
    monkeypatch.setattr(ready.broker, "timer", fired.append)
    give(ready, do.SetTimer("one", 0.0), do.SetTimer("two", 0.0), do.SetTimer("late", 60.0))
    give(ready, do.CancelTimer("two"), do.CancelTimer("unknown"))
    ready.loop.run_until(lambda: bool(fired))

    assert fired == ["one"]
    assert ready.loop.delays["broker late"] == 60.0
    assert ready.loop.has_timer("broker late")


def test_a_note_goes_into_the_trace(ready: GuardedLaunch, trace: RecordedLog) -> None:
    give(ready, do.Note("decided"))

    assert trace.notes[-1] == "decided"
    assert ready.streams.read_errors() == b""


def test_our_messages_and_noise_go_to_stderr(ready: GuardedLaunch) -> None:
    give(ready, do.WriteStderr("died"), do.Divert(SERVER, b"noise\n"))

    assert ready.streams.read_errors() == (
        b"[mcp-launch] died\n"
        b"[mcp-launch] srv printed a line to stdout that is not a message: noise\n"
    )
    assert ready.log.noise == [b"noise\n"]


def test_a_failure_is_reported(ready: GuardedLaunch) -> None:
    error = LaunchError("it is broken", fix="repair it")
    give(ready, do.Fail(error))

    assert ready.reported == [error]


def test_an_urgent_lease_is_written_at_once(ready: GuardedLaunch, alarms: list[float]) -> None:
    alarms.clear()
    ready.broker.lease_is_due = True
    before = ready.lease_writes
    give(ready, do.WriteLease(is_urgent=True))

    assert ready.lease_writes == before + 1
    assert not ready.broker.lease_is_due
    assert alarms == []


def test_one_write_of_the_lease_covers_several_changes(
    ready: GuardedLaunch, alarms: list[float]
) -> None:
    ready.broker.lease_is_due = False
    alarms.clear()
    for number in (1, 2, 3):
        ready.tell_server(ask(number, method="tools/call"))
    assert alarms == [0.25]
    assert ready.lease_writes == 0
    ready.let_the_lease_be_due()
    ready.loop.run_until(lambda: ready.lease_writes > 0)

    assert ready.lease_writes == 1
    ready.tell_server(ask(4, method="tools/call"))
    assert alarms == [0.25, 0.25]


def test_records_are_written_before_the_lease_and_do_not_delay_it(
    loop: BoundedLoop, streams: StandardStreams, log: RecordedLog, alarms: list[float]
) -> None:
    launch = GuardedLaunch(loop, streams, log, records_calls=True)
    launch.shake_hands()
    launch.broker.lease_is_due = False
    alarms.clear()
    for number in (1, 2):
        launch.tell_server(ask(number, method="tools/call"))
        launch.tell_host(answer(number))
    assert alarms == [0.25, 0.01]
    launch.send_signal(kernel.SIGALRM)
    launch.loop.run_until(lambda: bool(launch.record_writes))

    assert launch.record_writes == [2]
    assert launch.lease_writes == 0
    assert len(alarms) == 3
    assert 0.01 < alarms[2] <= 0.25


def test_a_launch_without_a_wake_up_pipe_watches_none(
    loop: BoundedLoop, ready: GuardedLaunch
) -> None:
    Supervisor(
        ready.broker,
        loop,
        wake=-1,
        log=ready.log,
        report=ready.reported.append,
        write_lease=lambda: None,
        write_records=lambda: None,
        note_server=lambda _name, _guardian: None,
        starter=None,
    )

    assert not loop.is_watched(-1)
    assert loop.is_watched(ready.wake)
