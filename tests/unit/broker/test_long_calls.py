"""Long calls arrive whole, whatever happens on their way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broker_playbooks import Playbook, open_playbook

from mcp_launch.broker import commands
from mcp_launch.protocol import LONG_LINE

TEXT = b'a \\"b\\" \\\\' * LONG_LINE


def make_call(
    number: int = 1, session: bytes = b"s-1", arguments: bytes = b'{"text":"%b","n":1.10}' % TEXT
) -> bytes:
    """Return a long call of a session."""
    line = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"session":"%b"},'
    return line % (number, session) + b'"arguments":%b}}\n' % arguments


# Nothing of it can be left out while it is checked.
MANY_VALUES = b"[%b1]" % (b"1," * LONG_LINE)


def send(playbook: Playbook, line: bytes) -> tuple[bytes, bytes]:
    """Return what the server and the host get when the host sends a line in chunks."""
    for at in range(0, len(line), LONG_LINE):
        playbook.broker.host_said("host", line[at : at + LONG_LINE])
    return take_data(playbook)


def take_data(playbook: Playbook) -> tuple[bytes, bytes]:
    """Return what the server and the host have got."""
    done = playbook.broker.take_commands()
    to_server = b"".join(one.data for one in done if isinstance(one, commands.SendToServer))
    to_host = b"".join(one.data for one in done if isinstance(one, commands.SendToHost))
    return to_server, to_host


def start_next(playbook: Playbook) -> bytes:
    """Start the next server; return what it gets after the handshake."""
    broker = playbook.broker
    assert any(isinstance(one, commands.StartServer) for one in broker.take_commands())
    broker.server_started("server")
    greeting = json.loads(take_data(playbook)[0])
    broker.server_said("server", b'{"id":"%b","result":{}}\n' % greeting["id"].encode())
    sent, to_host = take_data(playbook)
    assert to_host == b""
    return b"".join(sent.splitlines(keepends=True)[1:])  # after `notifications/initialized`


def read_stamp(line: bytes, original: bytes) -> Any:
    """Return the stamp of a call, after a check that nothing else was added."""
    assert line.count(b"mcp-launch/context") == 1
    start = line.index(b'"mcp-launch/context":')
    end = line.index(b"},", start) + 2
    assert line[:start] + line[end:] == original
    return json.loads(line)["params"]["_meta"]["mcp-launch/context"]


@pytest.mark.parametrize("arguments", [b'{"text":"%b"}' % TEXT, MANY_VALUES, b'["\\u00e4\xc3"]'])
@pytest.mark.parametrize("chunk", [LONG_LINE, 1000, 1 << 30])
def test_a_long_call_arrives_byte_for_byte(arguments: bytes, chunk: int) -> None:
    playbook = open_playbook()
    line = make_call(arguments=arguments)
    for at in range(0, len(line), chunk):
        playbook.broker.host_said("host", line[at : at + chunk])

    assert take_data(playbook) == (line, b"")


@pytest.mark.parametrize("arguments", [b'{"text":"%b"}' % TEXT, MANY_VALUES])
def test_a_long_call_is_stamped_and_nothing_else_changes(arguments: bytes) -> None:
    playbook = open_playbook(no_meta=False)
    line = make_call(arguments=arguments)

    stamp = read_stamp(send(playbook, line)[0], line)

    assert stamp == {"for": "session s-1", "in": "None"}


@pytest.mark.parametrize("arguments", [b'{"text":"%b"}' % TEXT, MANY_VALUES])
def test_a_long_call_of_another_session_is_refused(arguments: bytes) -> None:
    playbook = open_playbook(on_change="refuse")
    assert send(playbook, make_call(1))[0]

    sent, answer = send(playbook, make_call(2, b"s-2", arguments))

    assert sent == b""
    refusal = json.loads(answer)
    assert refusal["id"] == 2
    assert "session s-2" in refusal["result"]["content"][0]["text"]
    assert len(answer) < 1000


@pytest.mark.parametrize("arguments", [b'{"text":"%b"}' % TEXT, MANY_VALUES])
def test_a_long_call_that_waits_for_another_server_arrives_whole(arguments: bytes) -> None:
    playbook = open_playbook(on_change="restart", no_meta=False)
    send(playbook, b'{"id":1,"method":"tools/call","params":{"_meta":{"session":"s-1"}}}\n')
    line = make_call(2, b"s-2", arguments)
    later = make_call(3, b"s-2", arguments)

    assert send(playbook, line) == (b"", b"")
    assert send(playbook, later) == (b"", b"")
    playbook.broker.server_said("server", b'{"id":1,"result":{}}\n')
    playbook.broker.server_gone("server", b"", b"")
    first, second = start_next(playbook).splitlines(keepends=True)

    assert read_stamp(first, line)["for"] == "session s-2"
    assert read_stamp(second, later)["for"] == "session s-2"


def test_a_long_call_goes_from_one_dead_server_to_the_next() -> None:
    playbook = open_playbook(no_meta=False)
    line = make_call()
    sent, _ = send(playbook, line)
    for _ in range(3):
        playbook.broker.server_gone("server", sent, b"")
        sent = start_next(playbook)

        read_stamp(sent, line)


def test_a_long_call_that_a_dead_server_has_begun_to_read_is_answered_with_an_error() -> None:
    playbook = open_playbook()
    sent, _ = send(playbook, make_call())

    playbook.broker.server_gone("server", sent[1:], b"")

    answer = json.loads(take_data(playbook)[1])
    assert answer["id"] == 1
    assert "was not answered" in answer["result"]["content"][0]["text"]


def test_waiting_long_calls_are_answered_when_there_is_no_server_any_more() -> None:
    playbook = open_playbook(restart="off")
    sent, _ = send(playbook, make_call())
    waiting, _ = send(playbook, make_call(2, arguments=MANY_VALUES))

    playbook.broker.server_gone("server", sent + waiting, b"")

    answers = [json.loads(line) for line in take_data(playbook)[1].splitlines()]
    assert sorted(answer["id"] for answer in answers) == [1, 2]
