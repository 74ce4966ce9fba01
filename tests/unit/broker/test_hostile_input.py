"""Input that no honest host or server sends: nothing breaks, and nothing takes for ever."""

from __future__ import annotations

from typing import Any

import pytest
from broker_playbooks import Playbook, open_playbook

from mcp_launch import protocol
from mcp_launch.broker import commands, waiting
from mcp_launch.broker import connection as connections
from mcp_launch.errors import LaunchError

GREETING = """
    >> started server
    << timer greeting server: 30
    << server: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
    >> server: "mcp-launch/L/1" = {}
    << server: notifications/initialized
"""


def send(playbook: Playbook, line: bytes) -> list[Any]:
    """Return the commands that follow from a line of the host's."""
    playbook.broker.host_said("host", line)
    return playbook.broker.take_commands()


def read_host(done: list[Any]) -> bytes:
    """Return what the host gets."""
    return b"".join(one.data for one in done if isinstance(one, commands.SendToHost))


def nest(depth: int) -> bytes:
    """Return a call in arrays in arrays."""
    call = b'{"id":%d,"method":"tools/call","params":{}}'
    return b"".join(b"[%b," % (call % number) for number in range(depth)) + b"0" + b"]" * depth


@pytest.mark.parametrize("depth", [2, 600, 990, 5_000])
def test_nested_arrays_do_not_keep_a_failed_launch_from_answering(depth: int) -> None:
    playbook = Playbook()
    playbook.broker.server_start_failed("server", LaunchError("no", fix="install it"))
    playbook.broker.take_commands()
    send(playbook, b"[" * depth + b"]" * depth + b"\n")

    assert b'"id":1,' in read_host(send(playbook, b'{"id":1,"method":"initialize"}\n'))


def test_the_host_waits_when_many_messages_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "QUEUE_COUNT_LIMIT", 3)
    playbook = open_playbook()
    playbook.play("""
        >> gone server
        << start server
    """)

    done = [send(playbook, b'{"id":%d,"method":"ping"}\n' % number) for number in range(5)]

    assert [commands.PauseHost("host") in one for one in done] == [False] * 3 + [True] * 2


def test_a_waiting_request_is_parsed_once_however_many_are_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    playbook = open_playbook()
    playbook.play("""
        >> gone server
        << start server
    """)
    for number in range(20):
        send(playbook, b'{"id":%d,"method":"ping"}\n' % number)
    read: list[bytes] = []
    original = protocol.read_key

    def read_key(line: bytes) -> bytes | None:
        read.append(line)
        return original(line)

    monkeypatch.setattr(protocol, "read_key", read_key)
    for number in reversed(range(20)):
        cancelled = b'{"method":"notifications/cancelled","params":{"requestId":%d}}\n' % number
        send(playbook, cancelled)

    assert not playbook.broker.backends["server"].queue
    assert len(read) <= 20


def test_a_stream_that_was_never_confirmed_is_confirmed_by_the_next_server() -> None:
    stream = "io.modelcontextprotocol/subscriptionId"
    confirmed = f'notifications/subscriptions/acknowledged {{"_meta":{{"{stream}":4}}}}'
    open_playbook().play(f"""
        >> host: 4 subscriptions/listen {{}}
        << server: 4 subscriptions/listen {{}}
        >> gone server
        << start server
        {GREETING}
        << server: 4 subscriptions/listen {{}}
        >> server: {confirmed}
        << host: {confirmed}
    """)


def test_so_many_refused_calls_are_remembered_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_REFUSED_LIMIT", 2)
    connection = connections.HostConnection("host")
    for key in (b"1", b"2", b"3"):
        connection.remember_refusal(key)

    assert [connection.forget_refusal(key) for key in (b"1", b"2", b"3")] == [False, True, True]


def test_lines_are_held_only_as_long_as_one_of_them_has_to_be_read() -> None:
    playbook = open_playbook()
    playbook.play(f"""
        >> gone server
        << start server
        {GREETING}
    """)
    beginning = b'{"jsonrpc":"2.0","id":9,"result":"' + b"x" * 20_000

    playbook.broker.server_said("server", beginning)

    assert read_host(playbook.broker.take_commands()) == beginning


def test_where_a_call_works_is_read_again_when_the_roots_are_known() -> None:
    playbook = open_playbook()
    send(playbook, b'{"id":1,"method":"tools/call","params":{"_meta":{"session":"s-1"}}}\n')
    admission = playbook.broker._admission  # noqa: SLF001
    assert admission.known is not None

    admission.contradict(None)

    assert admission.known is None


def test_a_line_that_is_meant_as_an_answer_arrives_in_any_pieces_even_if_it_is_broken() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"a":oops}}\n'
    for pieces in ([line], [line[:20], line[20:]], [line + line]):
        playbook = open_playbook()
        for piece in pieces:
            playbook.broker.server_said("server", piece)

        assert read_host(playbook.broker.take_commands()) == b"".join(pieces)


def test_an_unread_notification_alone_does_not_start_another_server() -> None:
    open_playbook(restart="off").play("""
        >> host: notifications/x
        << server: notifications/x
        >> exited server 0
        >> gone server | notifications/x
        << finish 0
    """)


def test_an_unread_call_with_a_carriage_return_in_a_string_goes_to_the_next_server() -> None:
    playbook = open_playbook()
    line = b'{"id":1,"method":"tools/call","params":{"a":"b\rc"}}\n'
    send(playbook, line)
    playbook.broker.server_gone("server", line, b"")

    [kept] = playbook.broker.backends["server"].queue
    assert (kept.connection, kept.line) == ("host", line)


@pytest.mark.parametrize("line", [b"0\r1\n", b"a\rb\n", b'{"a":1}\r{"b":2}\n'])
def test_a_line_that_is_not_a_message_keeps_its_carriage_returns(line: bytes) -> None:
    sent = send(open_playbook(), line)

    assert b"".join(one.data for one in sent) == line


@pytest.mark.parametrize("line", [b"not a message\n", b'nor is "method"\n'])
def test_a_line_that_is_not_a_message_waits_for_the_next_server(line: bytes) -> None:
    playbook = open_playbook()
    playbook.play("""
        >> gone server
        << start server
    """)
    assert send(playbook, line) == []

    playbook.play(f"""
        {GREETING}
        << server: {line!r}
    """)
