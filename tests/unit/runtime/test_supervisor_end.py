"""The guarded wire: how servers and launches end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from guarded_launch import GREETING, GuardedLaunch, answer, ask
from loop_rig import FakeServer, drain

from mcp_launch.broker import commands as do
from mcp_launch.errors import LaunchError
from mcp_launch.runtime import supervisor as supervisors
from mcp_launch.runtime.supervisor import HOST, SERVER
from mcp_launch.system.spawn import Pipes

if TYPE_CHECKING:
    from loop_rig import BoundedLoop, RecordedLog, StandardStreams


@pytest.fixture
def ready(launch: GuardedLaunch) -> GuardedLaunch:
    """Return a launch whose handshake is complete."""
    launch.shake_hands()
    return launch


@pytest.fixture
def gone(launch: GuardedLaunch, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes]]:
    """Return what the broker hears of servers that are gone: unread input, the end of stderr."""
    gone: list[tuple[bytes, bytes]] = []
    report = launch.broker.server_gone

    def note(name: str, unread: bytes, stderr_end: bytes) -> None:
        assert name == SERVER
        gone.append((unread, stderr_end))
        report(name, unread, stderr_end)

    monkeypatch.setattr(launch.broker, "server_gone", note)
    return gone


def end_input(launch: GuardedLaunch) -> None:
    launch.streams.end_input()
    launch.loop.run_until(lambda: launch.host.input_has_ended)


@pytest.mark.parametrize("code", [0, 3, 137])
def test_the_exit_code_is_the_servers(code: int, ready: GuardedLaunch) -> None:
    end_input(ready)
    ready.server.guardian.say("left 2\n")
    ready.server.exit(code)

    assert ready.finish() == code
    assert ready.supervisor.left_behind == 2


def test_run_returns_the_exit_code(ready: GuardedLaunch) -> None:
    end_input(ready)
    ready.server.exit(3)

    assert ready.supervisor.run() == 3


def test_what_all_servers_left_behind_is_counted(ready: GuardedLaunch) -> None:
    ready.server.guardian.say("left 2\n")
    ready.server.exit(1)
    ready.loop.run_until(lambda: len(ready.starter.started) == 2)
    end_input(ready)
    ready.server.guardian.say("started 5 6\nleft 1\n")
    ready.server.exit(1)
    ready.loop.run_until(lambda: ready.supervisor.left_behind == 3)


def test_all_that_a_server_has_said_is_read_before_it_is_gone(
    ready: GuardedLaunch, gone: list[tuple[bytes, bytes]]
) -> None:
    ready.tell_server(ask(1, method="tools/call"))
    ready.server.say(answer(1))
    ready.server.complain(b"last words\n")
    ready.server.exit(1)
    ready.loop.run_until(lambda: bool(gone))

    assert ready.streams.read() == answer(1)
    assert gone == [(b"", b"last words\n")]
    assert ready.streams.read_errors() == b"last words\n"


def test_much_output_is_read_before_a_server_is_gone(
    ready: GuardedLaunch, gone: list[tuple[bytes, bytes]]
) -> None:
    end_input(ready)
    data = answer(1, 60_000)
    ready.server.say(data)
    ready.server.complain(bytes(60_000))
    ready.server.exit(0)
    got = b""

    def has_gone() -> bool:
        nonlocal got
        got += ready.streams.read()
        drain(ready.streams.host_errors)
        return bool(gone)

    ready.loop.run_until(has_gone)

    assert got + ready.streams.read() == data
    assert ready.log.stderr == bytes(60_000)


def test_a_server_is_not_gone_before_a_slow_host_has_got_its_output(
    ready: GuardedLaunch, gone: list[tuple[bytes, bytes]]
) -> None:
    end_input(ready)
    for number in (1, 2, 3):
        ready.server.say(answer(number, 40_000)[: 1 << 16])
        ready.loop.run_once()
    ready.server.exit(0)
    ready.loop.run_until(lambda: ready.supervisor.servers[SERVER].is_gone)
    ready.loop.run_once()
    assert gone == []
    got = b""

    def has_gone() -> bool:
        nonlocal got
        got += ready.streams.read()
        return bool(gone)

    ready.loop.run_until(has_gone)
    got += ready.streams.read()
    assert got == b"".join(answer(number, 40_000) for number in (1, 2, 3))


def test_a_server_is_reported_gone_once(
    ready: GuardedLaunch, gone: list[tuple[bytes, bytes]]
) -> None:
    ready.server.exit(1)
    ready.loop.run_until(lambda: bool(gone))
    ready.supervisor._report_gone(SERVER)  # noqa: SLF001
    ready.loop.run_once()

    assert len(gone) == 1


def test_a_process_that_holds_a_dead_servers_output_open_does_not_keep_it(
    ready: GuardedLaunch, gone: list[tuple[bytes, bytes]]
) -> None:
    held = os.dup(ready.server.stdout), os.dup(ready.server.stderr)
    ready.server.exit(1)
    ready.loop.run_until(lambda: bool(gone))

    assert ready.broker.backends[SERVER].output_has_ended
    assert len(ready.starter.started) == 2
    for fd in held:
        os.close(fd)


def test_a_slow_host_is_awaited_though_a_process_holds_a_dead_servers_output_open(
    ready: GuardedLaunch, gone: list[tuple[bytes, bytes]]
) -> None:
    held = os.dup(ready.server.stdout)
    for number in (1, 2):
        ready.server.say(answer(number, 40_000))
        ready.loop.run_once()
    ready.server.exit(1)
    ready.loop.run_until(lambda: ready.supervisor.servers[SERVER].is_gone)
    assert gone == []
    drain(ready.streams.host_input)
    ready.loop.run_until(lambda: bool(gone))

    os.close(held)


def test_a_dead_servers_output_is_not_read_though_a_process_holds_it_open(
    launch: GuardedLaunch, gone: list[tuple[bytes, bytes]]
) -> None:
    launch.start()
    held = os.dup(launch.server.stdout)
    launch.server.exit(1)
    launch.loop.run_until(lambda: bool(gone))

    assert len(launch.starter.started) == 1
    assert not launch.loop.is_watched(launch.output)
    os.close(held)


def test_the_rest_of_stderr_is_read_before_a_server_is_gone(
    ready: GuardedLaunch, gone: list[tuple[bytes, bytes]]
) -> None:
    held = os.dup(ready.server.stdout)
    ready.server.complain(b"last words\n")
    ready.server.exit(1)
    process = ready.supervisor.servers[SERVER]
    while not process.is_gone:  # the guardian's report is read before stderr
        process._read_report()  # noqa: SLF001
    assert gone == []
    ready.loop.run_until(lambda: bool(gone))

    assert gone == [(b"", b"last words\n")]
    os.close(held)


def test_an_output_that_cannot_be_read_is_at_its_end(
    ready: GuardedLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_fd: int, _size: int) -> bytes:
        raise OSError

    monkeypatch.setattr(supervisors, "_read", fail)
    ready.server.say(answer(1))
    ready.loop.run_until(lambda: ready.broker.backends[SERVER].output_has_ended)

    assert not ready.loop.is_watched(ready.output)


def test_what_a_dead_server_has_not_read_is_recovered(
    ready: GuardedLaunch, gone: list[tuple[bytes, bytes]]
) -> None:
    ready.tell_server(ask(1))
    ready.streams.say(ask(2))
    ready.loop.run_until(lambda: b"2" in ready.broker.backends[SERVER].requests.open)
    ready.server.exit(1)
    ready.loop.run_until(lambda: bool(gone))

    assert gone == [(ask(2), b"")]
    assert len(ready.starter.started) == 2


def test_a_server_that_cannot_be_started_is_a_failure_that_the_host_gets(
    launch: GuardedLaunch,
) -> None:
    launch.streams.say(GREETING)
    launch.server.guardian.say("exec 2\n")
    launch.server.guardian.end()
    got = launch.wait_for_host(b"}\n")

    assert b"srv cannot be started" in got
    assert [error.exit_code for error in launch.reported] == [126]
    assert launch.noted == []
    end_input(launch)
    assert launch.finish() == 126


def test_the_exit_of_a_server_is_known_before_its_processes_are_gone(
    ready: GuardedLaunch,
) -> None:
    ready.server.guardian.say("exited 7\n")
    ready.loop.run_until(lambda: ready.broker.backends[SERVER].exit_code == 7)


def test_the_host_gets_its_last_bytes_before_we_leave(ready: GuardedLaunch) -> None:
    data = answer(1, 1 << 18)
    ready.broker.out += [do.SendToHost(HOST, data), do.Finish(5)]
    ready.supervisor._run_commands()  # noqa: SLF001
    assert not ready.loop.was_stopped
    assert not ready.loop.is_watched(0)
    assert not ready.loop.has_timer("last lines")

    ready.expect_at_host(data)
    assert ready.loop.was_stopped
    assert ready.supervisor.exit_code == 5


def test_after_a_signal_the_hosts_last_bytes_are_not_awaited(ready: GuardedLaunch) -> None:
    ready.broker.signalled = 15
    ready.broker.out += [do.SendToHost(HOST, answer(1, 1 << 18)), do.Finish(5)]
    ready.supervisor._run_commands()  # noqa: SLF001

    assert ready.loop.was_stopped


def test_a_host_that_does_not_read_stderr_is_awaited_only_for_a_while(
    ready: GuardedLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready.broker.out += [do.WriteStderr("x" * (1 << 18)), do.Finish(5)]
    ready.supervisor._run_commands()  # noqa: SLF001
    assert not ready.loop.was_stopped
    assert ready.loop.delays["last lines"] == 0.45
    monkeypatch.setattr(supervisors, "_LAST_LINES_LIMIT", 99.0)
    ready.supervisor._try_to_leave()  # noqa: SLF001
    assert ready.loop.delays["last lines"] == 0.45  # the first counts
    ready.loop.fire("last lines")

    assert ready.loop.was_stopped


def test_we_leave_as_soon_as_the_host_has_read_stderr(ready: GuardedLaunch) -> None:
    ready.broker.out += [do.WriteStderr("x" * (1 << 18)), do.Finish(5)]
    ready.supervisor._run_commands()  # noqa: SLF001

    def is_read() -> bool:
        drain(ready.streams.host_errors)
        return ready.loop.was_stopped

    ready.loop.cancel_timer("last lines")
    ready.loop.run_until(is_read)


def test_we_do_not_leave_before_the_broker_finishes(ready: GuardedLaunch) -> None:
    ready.supervisor._try_to_leave()  # noqa: SLF001

    assert not ready.loop.was_stopped
    assert not ready.loop.has_timer("last lines")


def test_a_failed_launch_answers_what_was_read_and_what_comes(
    loop: BoundedLoop, streams: StandardStreams, log: RecordedLog
) -> None:
    launch = GuardedLaunch(loop, streams, log)
    error = LaunchError("there is no server", fix="install it")
    launch.supervisor.fail(error, GREETING)
    assert launch.reported == [error]
    assert b'"id":0,"error"' in streams.read()
    streams.say(ask(1))

    got = launch.wait_for_host(b'"id":1')
    assert b"there is no server" in got
    streams.end_input()
    assert launch.finish() == 125


def test_a_failed_launch_without_a_request_leaves_after_a_while(launch: GuardedLaunch) -> None:
    launch.supervisor.fail(LaunchError("there is no server", fix="install it"), b"")

    assert launch.streams.read() == b""
    assert launch.loop.delays["broker linger"] == 3.0
    launch.loop.fire("broker linger")
    assert launch.loop.was_stopped


def test_leaving_releases_every_guardian(ready: GuardedLaunch) -> None:
    pipes = Pipes()
    other = FakeServer(pipes)
    pipes.close_servers()
    ready.broker.open_backend("other", ready.playbook.first)
    ready.supervisor.attach("other", other.guardian, pipes, ready.playbook.first.plan)
    ready.supervisor.leave()

    assert ready.first.guardian.was_left
    assert other.guardian.was_left
