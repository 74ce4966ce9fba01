"""Every call is followed to its one answer, and its outcome is noted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broker_playbooks import HANDSHAKE, Playbook

from mcp_launch import protocol
from mcp_launch.broker import commands
from mcp_launch.broker.limits import CallLimiter
from mcp_launch.errors import LaunchError


def open_followed(**settings: Any) -> Playbook:
    """Return a playbook whose calls are recorded, after the handshake."""
    playbook = Playbook(records_calls=True, **settings)
    playbook.play(HANDSHAKE)
    return playbook


def list_outcomes(playbook: Playbook) -> list[tuple[bytes | None, str]]:
    finished = playbook.broker.finished_calls
    return [(protocol.read_key(call.line), call.outcome) for call in finished]


CALL = """
    >> host: 1 tools/call {"name":"a"}
    << server: 1 tools/call {"name":"a"}
"""


# Each of two sessions has a call at its own server.
SECOND_SESSION = """
    >> host: 1 tools/call {"_meta":{"session":"a"}}
    << server: 1 tools/call {"_meta":{"session":"a"}}
    >> host: 2 tools/call {"_meta":{"session":"b"}}
    << start server-2
    >> started server-2
    << timer greeting server-2: 120
    << server-2: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
    >> server-2: "mcp-launch/L/1" = {}
    << server-2: notifications/initialized
    << server-2: 2 tools/call {"_meta":{"session":"b"}}
"""


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ('1 = {"content":[]}', "ok"),
        ('1 = {"content":[],"isError":false}', "ok"),
        ('1 = {"content":["\\"isError\\":true"]}', "ok"),
        ('1 = {"structuredContent":{"error":1}}', "ok"),
        ("1 refused it is broken", "tool error"),
        ("1 error -32602 no such tool", "protocol error"),
    ],
)
def test_the_answer_of_a_server_tells_the_outcome(answer: str, outcome: str) -> None:
    playbook = open_followed()
    playbook.play(f"{CALL}\n>> server: {answer}\n<< host: {answer}")

    assert list_outcomes(playbook) == [(b"1", outcome)]
    [call] = playbook.broker.finished_calls
    assert call.number == 1
    assert call.answer_length > 20


def test_a_long_answer_is_measured_although_it_is_not_held() -> None:
    playbook = open_followed()
    playbook.play(CALL)
    line = b'{"jsonrpc":"2.0","id":1,"result":{"content":["%b"],"isError":true}}\n' % (b"x" * 99999)

    for at in range(0, len(line), 4096):
        playbook.broker.server_said("server", line[at : at + 4096])

    [call] = playbook.broker.finished_calls
    assert (call.outcome, call.answer_length) == ("tool error", len(line))


def test_a_cancelled_call_gets_no_answer() -> None:
    playbook = open_followed()
    playbook.play(f"""{CALL}
        >> host: notifications/cancelled {{"requestId":1}}
        << server: notifications/cancelled {{"requestId":1}}
    """)

    assert list_outcomes(playbook) == [(b"1", "cancelled")]


def test_a_call_that_fails_with_its_launch_has_died() -> None:
    playbook = open_followed()
    playbook.play(CALL)

    playbook.broker.fail(LaunchError("no more", fix="none"))
    playbook.broker.host_said("host", b'{"id":2,"method":"tools/call","params":{"name":"b"}}\n')

    assert list_outcomes(playbook) == [(b"1", "died"), (b"2", "died")]


def test_a_call_of_another_session_is_refused() -> None:
    playbook = open_followed(on_change="refuse")
    playbook.play("""
        >> host: 1 tools/call {"_meta":{"session":"s-1"},"name":"a"}
        << server: 1 tools/call {"_meta":{"session":"s-1"},"name":"a"}
        >> host: 2 tools/call {"_meta":{"session":"s-2"},"name":"a"}
        << host: 2 refused …session s-2…
    """)

    [call] = playbook.broker.finished_calls
    assert call.outcome == "refused"
    assert call.caller == ("s-2", None, None)
    assert "session s-2" in call.reason


def test_a_call_that_waits_for_a_server_is_counted_from_its_arrival() -> None:
    playbook = Playbook(records_calls=True)
    broker = playbook.broker
    broker.now = 10.0
    broker.host_said("host", b'{"id":1,"method":"tools/call","params":{"name":"a"}}\n')
    broker.now = 13.0
    broker.server_started("server", 4711)
    broker.server_said("server", b'{"jsonrpc":"2.0","id":1,"result":{}}\n')

    [call] = broker.finished_calls
    assert (call.began, call.ended, call.has_waited, call.pid) == (10.0, 13.0, True, 4711)


# Limits


def open_limited(call_timeout: float = 0.0, max_concurrent: int = 0, **settings: Any) -> Playbook:
    """Return a playbook with limits, after the handshake."""
    limits = CallLimiter(call_timeout=call_timeout, max_concurrent=max_concurrent)
    playbook = Playbook(records_calls=True, limits=limits, **settings)
    playbook.play(HANDSHAKE)
    return playbook


def test_a_call_waits_for_its_turn() -> None:
    playbook = open_limited(max_concurrent=1)
    playbook.play("""
        >> host: 1 tools/call {"name":"a"}
        << server: 1 tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> host: 3 ping
        << server: 3 ping
        >> server: 1 = {}
        << timer next server: 0
        << host: 1 = {}
        >> timer next server
        << server: 2 tools/call {"name":"b"}
        >> server: 2 = {}
        << host: 2 = {}
    """)

    assert list_outcomes(playbook) == [(b"1", "ok"), (b"2", "ok")]


def test_sessions_take_turns() -> None:
    playbook = open_limited(max_concurrent=1)
    said = playbook.broker.host_said
    for number, session in enumerate(["a", "a", "a", "b", "b"], 1):
        params = f'{{"_meta":{{"session":"{session}"}},"name":"t"}}'
        said("host", f'{{"id":{number},"method":"tools/call","params":{params}}}\n'.encode())
    playbook.take()

    order = []
    for _ in range(5):
        [open_one] = [
            key
            for key, one in playbook.broker.backends["server"].requests.open.items()
            if one.method == "tools/call"
        ]
        order.append(int(open_one))
        playbook.broker.server_said("server", b'{"jsonrpc":"2.0","id":%b,"result":{}}\n' % open_one)
        playbook.broker.timer("next server")

    assert order == [1, 2, 4, 3, 5]


def test_a_call_that_is_cancelled_while_it_waits_reaches_no_server() -> None:
    playbook = open_limited(max_concurrent=1)
    playbook.play("""
        >> host: 1 tools/call {"name":"a"}
        << server: 1 tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> host: notifications/cancelled {"requestId":2}
        >> server: 1 = {}
        << host: 1 = {}
    """)

    assert list_outcomes(playbook) == [(b"2", "cancelled"), (b"1", "ok")]


def test_the_time_that_a_call_was_held_back_is_known() -> None:
    playbook = open_limited(max_concurrent=1)
    playbook.play("""
        >> host: 1 tools/call {"name":"a"}
        << server: 1 tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> host: 3 tools/call {"name":"b"}
        >> after 4
        >> server: 1 = {}
        << timer next server: 0
        << host: 1 = {}
        >> timer next server
        << server: 2 tools/call {"name":"b"}
        >> after 2
        >> host: notifications/cancelled {"requestId":3}
        >> server: 2 = {}
        << host: 2 = {}
    """)

    held = {protocol.read_key(one.line): one.held for one in playbook.broker.finished_calls}
    assert held == {b"1": 0.0, b"2": 4.0, b"3": 6.0}


def test_a_server_for_which_calls_wait_is_not_taken_away_from_its_session() -> None:
    playbook = open_limited(
        max_concurrent=1, carries="many sessions", on_change="isolate", server_limit=2
    )
    playbook.play(f"""{SECOND_SESSION}
        >> host: 3 tools/call {{"_meta":{{"session":"b"}}}}
        >> server-2: 2 = {{}}
        << timer next server-2: 0
        << host: 2 = {{}}
        >> host: 4 tools/call {{"_meta":{{"session":"c"}}}}
        << timer next server-2: 0
        << host: 4 refused …already has 2 servers…
    """)


def test_what_waits_goes_to_the_next_server_if_this_one_dies() -> None:
    playbook = open_limited(max_concurrent=1)
    broker = playbook.broker
    for number in (1, 2, 3):
        broker.host_said(
            "host", b'{"id":%d,"method":"tools/call","params":{"name":"a"}}\n' % number
        )

    broker.server_exited("server", 1)
    broker.server_gone("server", b"", b"")
    broker.server_started("server")
    greeting = next(iter(broker.backends["server"].own_requests))
    broker.server_said("server", b'{"jsonrpc":"2.0","id":%b,"result":{}}\n' % greeting)

    opened = list(broker.backends["server"].requests.open.values())
    assert [one.key for one in opened] == [b"2"]
    assert list_outcomes(playbook) == [(b"1", "died")]


def test_what_waits_is_delivered_before_the_input_ends() -> None:
    playbook = open_limited(max_concurrent=1)
    playbook.play("""
        >> host: 1 tools/call {"name":"a"}
        << server: 1 tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
    """)

    playbook.broker.host_closed("host")

    done = playbook.broker.take_commands()
    sent = commands.SendToServer(
        "server", b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b"}}\n'
    )
    assert done.index(sent) < done.index(commands.CloseInput("server"))


def test_a_call_without_an_answer_is_ended() -> None:
    playbook = open_limited(call_timeout=60.0)
    playbook.play("""
        >> host: 1 tools/call {"name":"a"}
        << timer deadline server: 60
        << server: 1 tools/call {"name":"a"}
    """)
    playbook.broker.now = 61.0
    playbook.play("""
        >> timer deadline server
        << server: notifications/cancelled …
        << host: 1 refused …within 1 min…
        << timer deadline server: 60
        >> server: 1 = {}
    """)

    assert list_outcomes(playbook) == [(b"1", "timed out")]
    assert "deadline server" not in playbook.timers


def test_a_server_that_stops_in_the_middle_of_a_line_delays_no_other_answer() -> None:
    playbook = open_limited(call_timeout=10.0)
    playbook.play("""
        >> host: 1 tools/call {"name":"a"}
        << timer deadline server: 10
        << server: 1 tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        << server: 2 tools/call {"name":"b"}
    """)
    broker = playbook.broker
    broker.server_said("server", b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + b"x" * 40_000)
    broker.take_commands()
    for moment in (10.0, 12.0, 14.0):
        broker.now = moment
        broker.timer("deadline server")
        if moment == 10.0:
            broker.server_said("server", b"more")

    done = broker.take_commands()
    sent = b"".join(one.data for one in done if isinstance(one, commands.SendToHost))
    cut, *answers = sent.removeprefix(b"more").splitlines()
    assert cut == b" [cut off]"
    assert sorted(json.loads(one)["id"] for one in answers) == [1, 2]
    broker.server_said("server", b'rest"}}\n')
    assert not [one for one in broker.take_commands() if isinstance(one, commands.SendToHost)]


EXPIRED = """
    >> host: 1 tools/call {"name":"a"}
    << timer deadline server: 10
    << server: 1 tools/call {"name":"a"}
    >> after 10
    >> timer deadline server
    << server: notifications/cancelled …
    << host: 1 refused …within 10 s…
    << timer deadline server: 60
"""


def test_a_call_after_one_that_was_ended_has_its_own_time() -> None:
    playbook = open_limited(call_timeout=10.0)
    playbook.play(f"""{EXPIRED}
        >> after 5
        >> host: 2 tools/call {{"name":"a"}}
        << timer deadline server: 10
        << server: 2 tools/call {{"name":"a"}}
        >> after 10
        >> timer deadline server
        << server: notifications/cancelled …
        << host: 2 refused …within 10 s…
        << timer deadline server: 45
    """)


def test_progress_gives_a_call_its_whole_time_again() -> None:
    playbook = open_limited(call_timeout=60.0)
    playbook.play("""
        >> host: 1 tools/call {"_meta":{"progressToken":"p"},"name":"a"}
        << timer deadline server: 60
        << server: 1 tools/call {"_meta":{"progressToken":"p"},"name":"a"}
    """)
    playbook.broker.now = 50.0
    playbook.play("""
        >> server: notifications/progress {"progressToken":"p"}
        << host: notifications/progress {"progressToken":"p"}
    """)
    playbook.broker.now = 60.0
    playbook.play("""
        >> timer deadline server
        << timer deadline server: 50
        >> server: 1 = {}
        << host: 1 = {}
    """)

    assert list_outcomes(playbook) == [(b"1", "ok")]
