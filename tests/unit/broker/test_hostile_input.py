"""Input that no honest host or server sends: nothing breaks, and nothing takes for ever."""

from __future__ import annotations

from typing import Any

import pytest
from broker_playbooks import Playbook, open_playbook

from mcp_launch.broker import commands

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


# Calls that begin like the ones before

BEGINNING = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"session":"s-1"'
RESTS = [
    b'},"name":"x"}}',
    b'},"arguments":{"a":"\\n"},"name":"x"}}',
    b',"progressToken":5},"name":"y"}}',
    b',"session":"s-2"},"name":"x"}}',
    b',"thread":"t"},"name":"x"}}',
    b',"mcp-launch/context":{}},"name":"x"}}',
    b'},"_meta":{"session":"s-2"}}}',
    b'},"_m\\u0065ta":{"session":"s-2"}}}',
    b'},"name":"x"},"method":"ping"}',
    b'},"name":"x"},"id":8}',
    b'},"name":"x","params":{}},"params":{}}',
    b'},"name":"\xc5\xbf"}}',
    b"}}}\r",
]


def open_used(calls: bytes, **settings: Any) -> Playbook:
    """Return a playbook of a server that serves session s-1, and has had these calls."""
    playbook = open_playbook(no_meta=False, on_change="refuse", **settings)
    for number in (901, 902):
        send(playbook, calls % number)
        playbook.broker.server_said("server", b'{"id":%d,"result":{}}\n' % number)
    playbook.broker.take_commands()
    return playbook


def list_sent(done: list[Any]) -> list[tuple[str, bytes]]:
    """Return what the server and the host get."""
    sent = (commands.SendToServer, commands.SendToHost)
    return [(type(one).__name__, one.data) for one in done if isinstance(one, sent)]


@pytest.mark.parametrize("read_outer", [None, lambda: None, lambda: {"host": "claude"}])
@pytest.mark.parametrize("rest", RESTS)
def test_a_call_is_handled_the_same_whether_it_begins_like_the_last_or_not(
    rest: bytes, read_outer: Any
) -> None:
    """A call that begins like the last ones has a shorter way through the broker."""
    alike = open_used(BEGINNING + b'},"name":"x"}}\n', read_outer=read_outer)
    unlike = open_used(
        b'{"method":"tools/call","params":{"_meta":{"session":"s-1"}},"id":%d}\n',
        read_outer=read_outer,
    )
    line = BEGINNING % 7 + rest + b"\n"

    sent = list_sent(send(alike, line))

    assert sent == list_sent(send(unlike, line))
    assert b"s-2" not in b"".join(data for kind, data in sent if kind == "SendToServer")


@pytest.mark.parametrize(
    "rest",
    [
        b",'session':'s-2'},\"name\":\"t\"}}",
        b"}}}{id:12,method:'tools/call'}",
        b"}}}[{id:12,method:'tools/call'}]",
    ],
)
def test_a_call_that_begins_like_the_last_may_not_name_another_session_or_method(
    rest: bytes,
) -> None:
    playbook = open_used(BEGINNING + b'},"name":"x"}}\n')

    sent = list_sent(send(playbook, BEGINNING % 7 + rest + b"\n"))

    assert [kind for kind, _ in sent] == ["SendToHost"]
    assert b"-32700" in sent[0][1]


def test_a_call_that_comes_in_pieces_is_delivered_once() -> None:
    line = BEGINNING % 7 + b'},"name":"x"}}\n'
    whole = list_sent(send(open_used(BEGINNING + b"}}}\n"), line))
    for cut in range(1, len(line)):
        playbook = open_used(BEGINNING + b"}}}\n")

        assert send(playbook, line[:cut]) == [], line[:cut]
        assert list_sent(send(playbook, line[cut:])) == whole, line[:cut]
