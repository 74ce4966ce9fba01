"""When the broker has the lease written, and what it logs."""

from __future__ import annotations

import pytest
from broker_playbooks import Playbook, open_playbook

from mcp_launch.broker.commands import Note, WriteLease


def open_ready() -> Playbook:
    """Return a playbook whose server has answered the handshake; its lease is written."""
    playbook = open_playbook()
    playbook.broker.take_commands()
    playbook.broker.lease_is_due = False
    return playbook


def list_writes(playbook: Playbook, line: bytes) -> list[WriteLease]:
    """Return the writes of the lease that follow from a line of the host's."""
    playbook.broker.host_said("host", line)
    commands = playbook.broker.take_commands()
    return [command for command in commands if isinstance(command, WriteLease)]


def make_call(number: int, session: str) -> bytes:
    """Return a call that names its session."""
    return b'{"id":%d,"method":"tools/call","params":{"_meta":{"session":"%b"}}}\n' % (
        number,
        session.encode(),
    )


def test_the_lease_is_written_at_once_when_the_session_is_confirmed() -> None:
    writes = list_writes(open_ready(), make_call(1, "s-1"))

    assert writes == [WriteLease(is_urgent=True), WriteLease()]


def test_the_lease_is_written_later_and_once_for_further_calls() -> None:
    playbook = open_ready()
    list_writes(playbook, make_call(1, "s-1"))

    assert list_writes(playbook, make_call(2, "s-1")) == []
    playbook.broker.lease_is_due = False  # it was written
    assert list_writes(playbook, make_call(3, "s-1")) == [WriteLease()]
    assert list_writes(playbook, make_call(4, "s-1")) == []


def test_a_request_that_is_not_a_call_does_not_change_the_lease() -> None:
    assert list_writes(open_ready(), b'{"id":1,"method":"ping"}\n') == []


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ("host closed host", "the host has closed our stdin"),
        ("host lost host", "the host has ended"),
        ("signal 15", "signal 15: passed on to the server"),
    ],
)
def test_the_end_is_logged_with_its_cause(event: str, text: str) -> None:
    playbook = open_ready()
    playbook.play_event(event)

    assert Note(text) in playbook.broker.take_commands()
