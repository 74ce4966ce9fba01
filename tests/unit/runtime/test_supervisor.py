"""The guarded wire: data in both directions, a slow host and a slow server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from guarded_launch import GREETING, WELCOME, GuardedLaunch, answer, ask
from loop_rig import drain, is_at_end, is_null, open_socket_pair

from mcp_launch.runtime.supervisor import SERVER
from mcp_launch.system.kernel import HostWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakes import FakeProcessTable
    from loop_rig import BoundedLoop, RecordedLog, StandardStreams


def test_a_request_reaches_the_server_and_its_answer_the_host(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    launch.tell_server(ask(1))
    launch.tell_host(answer(1))


def test_what_the_host_says_before_the_server_runs_waits(launch: GuardedLaunch) -> None:
    launch.streams.say(GREETING)
    launch.loop.run_until(lambda: bool(launch.broker.backends[SERVER].queue))
    assert launch.server.read() == b""
    launch.server.guardian.start()

    launch.expect_at_server(GREETING)
    assert launch.noted == [launch.server.guardian]


def test_a_call_gets_the_stamp(
    loop: BoundedLoop, streams: StandardStreams, log: RecordedLog
) -> None:
    launch = GuardedLaunch(loop, streams, log, no_meta=False)
    launch.shake_hands()
    streams.say(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"do"}}\n')
    got = b""

    def has_come() -> bool:
        nonlocal got
        got += launch.server.read()
        return got.endswith(b"\n")

    loop.run_until(has_come)

    assert b'"_meta":{"mcp-launch/context":{"for":' in got


def test_the_broker_knows_the_time_of_each_event(
    launch: GuardedLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert launch.broker.now > 0
    now = [launch.broker.now]
    monkeypatch.setattr("mcp_launch.runtime.supervisor._now", lambda: now[0])
    launch.shake_hands()
    events: list[Callable[[], None]] = [
        lambda: launch.tell_server(ask(1)),
        lambda: launch.tell_host(answer(1)),
        lambda: launch.supervisor._notify(launch.broker.bytes_moved),  # noqa: SLF001
    ]
    for event in events:
        now[0] += 1000
        event()
        assert launch.broker.now == now[0]


def test_a_slow_host_pauses_the_servers_output_but_not_its_input(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    output = launch.output
    launch.tell_server(ask(1))
    sent = answer(1, 50_000) + answer(2, 50_000)
    for part in (answer(1, 50_000), answer(2, 50_000)):
        launch.server.say(part[:60000])
        launch.loop.run_once()
    assert not launch.loop.is_watched(output)
    assert launch.loop.is_watched(0)
    launch.tell_server(ask(3))  # the other direction goes on

    launch.expect_at_host(sent)
    assert launch.loop.is_watched(output)


def test_a_host_that_does_not_read_our_own_answers_is_not_read_either(
    launch: GuardedLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_launch.runtime.supervisor._UNREAD_LIMIT", 1000)
    launch.shake_hands()
    refused = b'{"id":1,"Method":"x"}\n' * 500
    while not launch.supervisor.to_host.pending:
        launch.streams.say(refused)
        launch.loop.run_once()
    launch.streams.say(refused)
    launch.loop.run_once()
    assert not launch.loop.is_watched(0)

    def is_read() -> bool:
        launch.streams.read()
        return launch.loop.is_watched(0)

    launch.loop.run_until(is_read)


def test_a_slow_server_pauses_the_host_but_not_the_answers(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    sent = [ask(number, 40_000) for number in (1, 2, 3)]
    for one in sent:
        launch.streams.say(one)
        launch.loop.run_once()
    assert not launch.loop.is_watched(0)
    assert launch.loop.is_watched(launch.output)
    launch.tell_host(answer(0))  # the other direction goes on

    launch.expect_at_server(b"".join(sent))
    assert launch.loop.is_watched(0)


def test_the_host_is_not_read_again_while_the_broker_has_paused_it(
    launch: GuardedLaunch,
) -> None:
    launch.shake_hands()
    launch.supervisor._is_paused = True  # noqa: SLF001
    sent = [ask(number, 40_000) for number in (1, 2, 3)]
    for one in sent:
        launch.streams.say(one)
        launch.loop.run_once()
    launch.expect_at_server(b"".join(sent[:2]))

    assert not launch.loop.is_watched(0)


def test_the_host_is_not_read_again_after_its_end(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    sent = [ask(number, 40_000) for number in (1, 2, 3)]
    for one in sent:
        launch.streams.say(one)
        launch.loop.run_once()
    launch.supervisor._end_input()  # noqa: SLF001
    launch.expect_at_server(b"".join(sent[:2]))

    assert not launch.loop.is_watched(0)


def test_the_end_of_the_hosts_input_ends_the_servers(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    launch.streams.say(ask(1))
    launch.streams.end_input()
    launch.loop.run_until(lambda: launch.loop.has_timer("broker grace"))

    assert launch.server.read() == ask(1)
    assert is_at_end(launch.server.stdin)
    assert not launch.loop.is_watched(0)
    launch.server.say(answer(1))
    launch.server.exit(0)
    assert launch.finish() == 0
    assert launch.streams.read() == answer(1)


def test_a_reset_socket_is_the_end_of_the_hosts_input(
    loop: BoundedLoop, streams: StandardStreams, log: RecordedLog
) -> None:
    ours, theirs = open_socket_pair()
    os.write(ours, b"unread")
    streams.place(0, ours)
    launch = GuardedLaunch(loop, streams, log)
    launch.start()
    os.close(theirs)
    launch.loop.run_until(lambda: launch.host.input_has_ended)

    assert is_at_end(launch.server.stdin)


def test_bytes_that_move_extend_the_grace(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    launch.streams.say(ask(1, 40_000))
    launch.loop.run_once()
    launch.streams.say(ask(2, 40_000))
    launch.loop.run_once()
    launch.streams.end_input()
    os.close(0)  # the end is reported though the host is paused
    launch.streams.place(0, os.open(os.devnull, os.O_RDONLY))
    launch.supervisor._read_host()  # noqa: SLF001
    launch.loop.cancel_timer("broker grace")

    launch.expect_at_server(ask(1, 40_000) + ask(2, 40_000))
    assert launch.loop.has_timer("broker grace")
    assert is_at_end(launch.server.stdin)


def test_bytes_that_the_host_reads_extend_the_grace(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    launch.streams.end_input()
    launch.loop.run_until(lambda: launch.loop.has_timer("broker grace"))
    launch.server.say(answer(1, 50_000))
    launch.loop.run_once()
    launch.server.say(answer(2, 50_000))
    launch.loop.run_once()
    assert launch.supervisor.to_host.pending
    launch.loop.cancel_timer("broker grace")

    drain(launch.streams.host_input)
    launch.loop.run_until(lambda: launch.loop.has_timer("broker grace"))


def test_a_reader_that_is_lost_closes_the_servers_output(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    launch.streams.stop_reading()
    launch.server.say(answer(1))
    launch.loop.run_until(lambda: launch.host.reader_is_lost)

    assert launch.output == -1
    assert is_null(1)
    with pytest.raises(BrokenPipeError):
        os.write(launch.server.stdout, b"x")
    launch.tell_server(ask(2))  # its input goes on


def test_a_server_that_closes_its_input_is_reported(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    os.close(launch.server.stdin)
    launch.streams.say(ask(1))
    launch.loop.run_until(lambda: launch.broker.backends[SERVER].input_is_closed)

    assert launch.loop.delays["broker input server"] == 0.5
    assert launch.loop.is_watched(0)


def test_a_server_that_closes_its_output_is_reported_once(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    output = launch.output
    os.close(launch.server.stdout)
    launch.loop.run_until(lambda: launch.broker.backends[SERVER].output_has_ended)

    assert not launch.loop.is_watched(output)
    assert launch.output == output
    assert launch.loop.has_timer("broker output server")


def test_a_signal_is_passed_on_and_the_launch_leaves_soon(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    launch.send_signal(15)
    launch.send_signal(2)
    launch.loop.run_until(lambda: launch.broker.signalled == 15)
    launch.loop.run_once()

    assert launch.server.guardian.read_orders() == b"\x0f\x02"
    assert launch.loop.delays["broker leave"] == 0.45
    launch.loop.fire("broker leave")
    assert launch.finish() == 128 + 15


def test_several_signals_in_one_read_are_all_passed_on(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    launch.send_signal(2)
    launch.let_the_lease_be_due()
    launch.send_signal(15)
    launch.supervisor._handle_signals()  # noqa: SLF001

    assert launch.server.guardian.read_orders() == b"\x02\x0f"
    assert launch.lease_writes == 1


class Hosts(HostWatch):
    """Watched processes that the test ends."""

    def __init__(self, table: FakeProcessTable) -> None:
        super().__init__(table, [])
        self.polls = [False]

    @property
    def needs_polling(self) -> bool:
        return bool(self.polls)

    def look(self) -> bool:
        return self.polls.pop(0)


@pytest.fixture
def hosts(launch: GuardedLaunch) -> Hosts:
    table: FakeProcessTable = launch.starter.table  # type: ignore[assignment]
    hosts = Hosts(table)
    hosts.polls = []
    return hosts


def test_the_end_of_a_host_is_noticed_by_its_descriptor(
    launch: GuardedLaunch, hosts: Hosts
) -> None:
    launch.shake_hands()
    reading, writing = os.pipe()
    other = os.pipe()
    hosts.descriptors = [reading, other[0]]
    launch.supervisor.watch_hosts(hosts)
    assert not launch.loop.has_timer("hosts")
    os.close(writing)
    launch.loop.run_until(lambda: launch.host.input_has_ended)

    assert launch.broker.phase == "ending"
    assert is_at_end(launch.server.stdin)
    for fd in (reading, other[0], 0):
        assert not launch.loop.is_watched(fd)


def test_a_host_that_is_lost_already_ends_the_input_at_once(
    launch: GuardedLaunch, hosts: Hosts
) -> None:
    launch.shake_hands()
    hosts.is_lost = True
    launch.supervisor.watch_hosts(hosts)

    assert launch.host.input_has_ended
    assert not launch.loop.has_timer("hosts")


def test_hosts_without_a_descriptor_are_polled(launch: GuardedLaunch, hosts: Hosts) -> None:
    launch.shake_hands()
    hosts.polls = [False, False, True]
    launch.supervisor.watch_hosts(hosts)
    assert launch.loop.delays["hosts"] == HostWatch.interval
    launch.loop.fire("hosts")
    assert not launch.host.input_has_ended
    launch.loop.fire("hosts")

    assert launch.host.input_has_ended
    assert not launch.loop.has_timer("hosts")


def test_a_host_found_lost_by_its_descriptor_is_not_polled_again(
    launch: GuardedLaunch, hosts: Hosts
) -> None:
    launch.shake_hands()
    hosts.polls = [False, False]
    hosts.descriptors = [os.pipe()[0]]
    launch.supervisor.watch_hosts(hosts)
    launch.loop._handlers[hosts.descriptors[0]]()  # noqa: SLF001

    assert launch.host.input_has_ended
    assert not launch.loop.has_timer("hosts")


def test_the_rest_for_a_lost_host_is_not_awaited(launch: GuardedLaunch, hosts: Hosts) -> None:
    launch.shake_hands()
    for number in (1, 2):
        launch.server.say(answer(number, 50_000))
        launch.loop.run_once()
    assert launch.supervisor.to_host.pending
    hosts.is_lost = True
    launch.supervisor.watch_hosts(hosts)
    launch.server.exit(0)

    assert launch.finish() == 0


def test_a_new_server_replaces_the_pipes_of_the_last(launch: GuardedLaunch) -> None:
    launch.shake_hands()
    old = launch.supervisor.servers[SERVER]
    launch.server.exit(1)
    launch.loop.run_until(lambda: len(launch.starter.started) == 2)

    assert old.output == -1
    assert old.writer.is_closed
    assert [plan.cwd.value for plan in launch.starter.plans] == ["/work/app"]
    assert launch.loop.is_watched(launch.output)
    launch.server.guardian.start()
    launch.loop.run_until(lambda: launch.backend_state == "greeting")
    got = launch.server.read()
    assert got.startswith(b'{"jsonrpc":"2.0","id":"mcp-launch/L/1","method":"initialize"')
    launch.server.say(WELCOME.replace(b'"id":0', b'"id":"mcp-launch/L/1"'))
    launch.loop.run_until(lambda: launch.backend_state == "ready")
    launch.tell_host(answer(5))
