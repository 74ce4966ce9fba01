"""What a broker does for one host and one server: `>>` is an event, `<<` its commands."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from broker_playbooks import Playbook, open_playbook, write
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.broker import commands
from mcp_launch.broker.replacement import DEATHS_LIMIT, DEATHS_SPAN
from mcp_launch.broker.waiting import QUEUE_LIMIT

GREETING = """
    >> started server
    << timer greeting server: 30
    << server: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
    >> server: "mcp-launch/L/1" = {}
    << server: notifications/initialized
"""

# A call is open.
OPEN_CALL = """
    >> host: 1 tools/call {"name":"x"}
    << server: 1 tools/call {"name":"x"}
"""

# The server serves session s-1, and a call of that session is open.
SERVES_S1 = """
    >> host: 1 tools/call {"_meta":{"session":"s-1"}}
    << server: 1 tools/call {"_meta":{"session":"s-1"}}
"""


def send_data(playbook: Playbook, data: bytes) -> tuple[bytes, bytes]:
    """Return what the server and the host get when the host sends data."""
    playbook.broker.host_said("host", data)
    return take_data(playbook)


def take_data(playbook: Playbook) -> tuple[bytes, bytes]:
    done = playbook.broker.take_commands()
    to_server = b"".join(one.data for one in done if isinstance(one, commands.SendToServer))
    to_host = b"".join(one.data for one in done if isinstance(one, commands.SendToHost))
    return to_server, to_host


# Passing data on

LINES = b"".join(
    [
        write('1 tools/call {"name":"x","n":1.10,"u":"\\u00e4"}'),
        b' { "id" : 2 , "method" : "ping" }\r\n',
        b"not a message\n",
        b"\n",
        '{"method":"notifications/x","params":"ä€"}\n'.encode(),
        b'{"id":4,"result":{}}\n',
        b"\xff\xfe\n",
    ]
)

ANSWERS = b"".join(
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"n":1.10}}\n',
        b' { "id" : 2 , "result" : null }\r\n',
        b'{"id":99,"result":"nobody asked"}\n',
        b'{"method":"notifications/message","params":{"data":"\\u00e4"}}\n',
        b'{"id":5,"method":"sampling/createMessage"}\n',
        b'{"jsonrpc":"2.0","id":6,"result":"' + b"x" * 40_000 + b'"}\n',
    ]
)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(one % len(data) for one in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(bounds) if a < b]


@given(cuts=st.lists(st.integers(0, 10**6), max_size=12))
def test_data_from_a_host_arrives_unchanged_however_it_is_split(cuts: list[int]) -> None:
    playbook = open_playbook()

    passed = [send_data(playbook, chunk) for chunk in cut(LINES, cuts)]

    assert b"".join(to_server for to_server, _ in passed) == LINES
    assert not any(to_host for _, to_host in passed)


@given(cuts=st.lists(st.integers(0, 10**6), max_size=12))
def test_data_from_a_server_arrives_unchanged_however_it_is_split(cuts: list[int]) -> None:
    playbook = open_playbook()
    send_data(playbook, LINES)

    passed = b""
    for chunk in cut(ANSWERS, cuts):
        playbook.broker.server_said("server", chunk)
        passed += take_data(playbook)[1]

    assert passed == ANSWERS


def test_a_message_with_wrongly_capitalised_members_is_refused() -> None:
    open_playbook().play("""
        >> host: {"id":1,"Method":"tools/call","method":"ping"}
        << host: 1 error -32600 [mcp-launch] not delivered: members of this message …
        >> host: {"id":2,"method":"tools/call","params":{"_META":{}}}
        << host: 2 error -32600 …
    """)


# Arrays of messages (JSON-RPC batches)

BATCH_ERROR = "null error -32600 [mcp-launch] not delivered: this line is an array …"


@pytest.mark.parametrize(
    "line",
    [
        '[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}]\n',
        ' [{"id":1,"result":{}}]\r\n',
        '\ufeff[{"id":1,"method":"ping"}]\n',
        "[]\n",
        "[" * 5000 + "]" * 5000 + "\n",
    ],
    ids=["a call", "an answer", "behind a byte order mark", "empty", "nested 5000 deep"],
)
def test_an_array_is_refused_and_what_follows_it_is_served(line: str) -> None:
    open_playbook().play(f"""
        >> host: {line.encode()!r}
        << host: {BATCH_ERROR}
        >> host: 2 ping
        << server: 2 ping
    """)


def test_an_array_is_refused_at_once_while_nothing_else_can_be_answered() -> None:
    playbook = Playbook()

    playbook.play(f"""
        >> host: [{{"id":1,"method":"ping"}}]
        << host: {BATCH_ERROR}
        >> host: 0 initialize
        >> start failed server
        << fail: it cannot be started
        << timer linger: 1
        << host: 0 error -31000 [mcp-launch] it cannot be started …
        >> host: [{{"id":1,"method":"ping"}}]
        << host: {BATCH_ERROR}
    """)


@pytest.mark.parametrize("length", [1, 40_000])
def test_an_array_of_a_server_is_noise_and_what_it_answers_stays_open(length: int) -> None:
    playbook = open_playbook()
    line = b'[{"jsonrpc":"2.0","id":1,"result":"%b"}]\n' % (b"x" * length)

    playbook.play(f"""
        {OPEN_CALL}
        >> server: {line!r}
        << divert: {line!r}
        >> server: 1 = {{}}
        << host: 1 = {{}}
    """)

    assert "which MCP removed in 2025-06-18" in str(playbook.notes)


def test_several_messages_on_one_line_are_refused() -> None:
    open_playbook().play("""
        >> host: b'{"method":"notifications/x"}{"id":1,"method":"ping"}\\n'
        << host: null error -32700 …
    """)


# Death and replacement


def test_a_stream_that_asked_for_it_is_notified_of_other_tools() -> None:
    playbook = Playbook()
    playbook.play("""
        >> started server
        >> host: 0 server/discover
        << server: 0 server/discover
        >> server: 0 = {}
        << host: 0 = {}
        >> host: "s" subscriptions/listen {"notifications":{"toolsListChanged":true}}
        << server: "s" subscriptions/listen …
        >> host: 1 tools/list
        << server: 1 tools/list
        >> server: 1 = {"tools":[]}
        << host: 1 = {"tools":[]}
        >> gone server
        << start server
        >> started server
        << server: "s" subscriptions/listen …
        << server: "mcp-launch/L/1" tools/list
        >> server: "mcp-launch/L/1" = {"tools":[1]}
        << host: {"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}},…list_changed"}
    """)


def test_a_request_that_was_read_gets_an_error_and_an_unread_one_goes_to_the_next_server() -> None:
    open_playbook().play("""
        >> host: 1 tools/call {"name":"begun"}
        << server: 1 tools/call {"name":"begun"}
        >> host: 2 ping
        << server: 2 ping
        >> host: 3 tools/call {"name":"unread"}
        << server: 3 tools/call {"name":"unread"}
        >> exited server 139
        >> gone server | b'"half a line"}\\n' | 3 tools/call {"name":"unread"}
        << host: 1 refused … srv was killed by signal 11 while it was at work; tools/call was not …
        << host: 2 error -31000 [mcp-launch] srv … ping was not answered, …
        << start server
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize …
        >> host: 4 ping
        >> server: "mcp-launch/L/1" = {}
        << server: notifications/initialized
        << server: 3 tools/call {"name":"unread"}
        << server: 4 ping
    """)


def test_messages_that_concern_only_the_last_server_are_not_repeated() -> None:
    open_playbook().play(f"""
        >> host: notifications/x
        << server: notifications/x
        >> gone server | notifications/progress {{"progressToken":1}} | notifications/x | 9 = {{}}
        << start server
        {GREETING.rstrip()}
        << server: notifications/x
    """)


def test_a_new_server_that_does_not_answer_the_greeting_ends_the_launch() -> None:
    open_playbook().play("""
        >> gone server
        << start server
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize …
        >> timer greeting server
        << end server: input ended
        >> server: "mcp-launch/L/1" = {}
        >> gone server
        << fail: srv was started again, but did not complete the handshake
        << timer linger: 3
        >> timer linger
        << finish 1
    """)


def test_a_new_server_that_dies_before_it_answers_the_greeting_is_replaced_again() -> None:
    open_playbook().play("""
        >> gone server
        << start server
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize …
        >> gone server | "mcp-launch/L/1" initialize
        << start server
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/2" initialize …
    """)


def test_requests_that_a_dead_server_has_not_read_get_the_reason_with_restart_off() -> None:
    open_playbook(restart="off").play(f"""
        {OPEN_CALL}
        >> exited server 3
        >> gone server | 1 tools/call {{"name":"x"}}
        << fail: srv ended with exit code 3 before it answered
        << timer linger: 1
        << host: 1 refused [mcp-launch] srv ended with exit code 3 before it answered …
        >> host: 2 ping
        << timer linger: 1
        << host: 2 error -31000 …
        >> host closed host
        << timer grace: 2
        << finish 3
    """)


def test_a_server_that_dies_now_and_then_is_started_again() -> None:
    playbook = open_playbook()
    for number in range(2 * DEATHS_LIMIT):
        playbook.play(f"""
            >> after {DEATHS_SPAN / DEATHS_LIMIT}
            >> gone server
            << start server
            >> started server
            << timer greeting server: 30
            << server: "mcp-launch/L/{number + 1}" initialize …
            >> server: "mcp-launch/L/{number + 1}" = {{}}
            << server: notifications/initialized
        """)


def test_a_server_that_died_after_reading_more_than_discovery_ends_the_launch() -> None:
    Playbook().play("""
        >> started server
        >> host: 0 server/discover
        << server: 0 server/discover
        >> host: 1 initialize
        << server: 1 initialize
        >> exited server 3
        >> gone server
        << fail: srv ended with exit code 3 before it answered
        << host: 0 error -32601 Method not found
        << timer linger: 1
        << host: 1 error -31000 …
    """)


# Restart for another caller


def test_a_call_of_another_session_goes_to_a_fresh_server_when_the_last_one_has_answered() -> None:
    playbook = open_playbook(on_change="restart")
    playbook.play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        >> host: 3 ping
        >> server: 1 = {{}}
        << host: 1 = {{}}
        << close input of server
        << end server: replaced
        >> gone server
        << start server
        {GREETING.rstrip()}
        << server: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << server: 3 ping
    """)

    assert not playbook.timers


def test_every_call_is_stamped_and_the_next_server_gets_the_hosts_original_line() -> None:
    open_playbook(no_meta=False).play("""
        >> host: 1 tools/call {"_meta":{"session":"s-1"}}
        << server: 1 tools/call {"_meta":{"mcp-launch/context":{"for":"session s-1",…
        >> gone server | 1 tools/call {"_meta":{"mcp-launch/context":{},"session":"s-1"}}
        << start server
        >> started server
        << timer greeting server: 30
        << server: …
        >> server: "mcp-launch/L/1" = {}
        << server: notifications/initialized
        << server: 1 tools/call {"_meta":{"mcp-launch/context":{"for":"session s-1",…

    """)


# Cancellation


def test_a_waiting_request_that_is_cancelled_is_dropped_from_the_queue() -> None:
    open_playbook().play(f"""
        >> gone server
        << start server
        >> host: 1 ping
        >> host: 2 ping
        >> host: notifications/cancelled {{"requestId":1}}
        {GREETING.rstrip()}
        << server: 2 ping
    """)


def test_cancelling_the_last_open_request_ends_the_drain() -> None:
    open_playbook(on_change="restart").play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        >> host: notifications/cancelled {{"requestId":1}}
        << server: notifications/cancelled {{"requestId":1}}
        << close input of server
        << end server: replaced
    """)


def test_a_call_that_waits_for_another_server_can_be_cancelled() -> None:
    open_playbook(on_change="restart").play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        >> host: notifications/cancelled {{"requestId":2}}
        >> server: 1 = {{}}
        << host: 1 = {{}}
        << close input of server
        << end server: replaced
        >> gone server
        << start server
        {GREETING}
    """)


def test_a_cancellation_for_a_server_that_is_being_ended_is_dropped() -> None:
    open_playbook(on_change="restart").play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        >> timer drain server
        << host: 1 refused …
        << close input of server
        << end server: replaced
        >> host: notifications/cancelled {{"requestId":1}}
        >> gone server
        << start server
        {GREETING.rstrip()}
        << server: 2 …
        >> host: notifications/cancelled {{"requestId":1}}
    """)


# The end


def test_a_server_that_never_stops_answering_is_ended_too() -> None:
    open_playbook().play("""
        >> host closed host
        << timer grace: 2
        << close input of server
        >> after 29
        >> server: notifications/x
        << timer grace: 1
        >> after 2
        >> server: notifications/x
        << timer grace: 0
        >> timer grace
        << cut input of server
        << end server: input ended
    """)


def test_waiting_requests_are_still_delivered_after_the_end_of_the_input() -> None:
    open_playbook().play(f"""
        {OPEN_CALL}
        >> host closed host
        << timer grace: 2
        << close input of server
        >> exited server 1
        >> gone server | 1 tools/call {{"name":"x"}}
        << start server
        >> after 2
        >> timer grace
        << timer grace: 2
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize …
        << timer grace: 2
        >> server: "mcp-launch/L/1" = {{}}
        << timer grace: 2
        << server: notifications/initialized
        << server: 1 tools/call {{"name":"x"}}
        << close input of server
        << timer grace: 2
        >> server: 1 = {{}}
        << timer grace: 2
        << host: 1 = {{}}
        >> exited server 0
        >> gone server
        << finish 0
    """)


def test_requests_of_a_host_that_closed_before_the_server_ran_are_answered() -> None:
    Playbook().play("""
        >> host: 0 initialize
        >> host closed host
        << timer grace: 2
        >> started server
        << server: 0 initialize
        << close input of server
        << timer grace: 2
        >> server: 0 = {}
        << timer grace: 2
        << host: 0 = {}
        >> exited server 0
        >> gone server
        << finish 0
    """)


def test_the_server_is_not_drained_when_the_host_is_lost() -> None:
    open_playbook(on_change="restart").play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        >> host lost now
        << timer grace: 2
        << close input of server
        >> server: notifications/x
        >> timer grace
        << cut input of server
        << end server: input ended
        >> exited server 143
        >> gone server
        << finish 143
    """)


def test_after_a_signal_no_other_server_is_started() -> None:
    open_playbook().play("""
        >> signal 2
        << signal server: 2
        << timer leave: 0.45
        >> exited server 130
        >> gone server
        << finish 130
    """)


def test_a_live_server_that_closes_its_stdin_closes_our_stdin() -> None:
    open_playbook().play(f"""
        {OPEN_CALL}
        >> input closed by server
        << timer input server: 0.5
        >> host: 2 ping
        >> timer input server
        << close input from host
        >> server: 1 = {{}}
        << host: 1 = {{}}
        >> exited server 0
        >> gone server
        << host: 2 error -31000 [mcp-launch] srv … it did not read this …
        << finish 0
    """)


def test_a_server_that_closes_its_stdin_because_it_died_is_replaced() -> None:
    open_playbook().play(f"""
        >> input closed by server
        << timer input server: 0.5
        >> host: 2 ping
        >> exited server 1
        >> timer input server
        >> gone server
        << start server
        {GREETING.rstrip()}
        << server: 2 ping
    """)


# Failures


def test_every_request_gets_an_error_if_the_first_server_cannot_be_started() -> None:
    Playbook().play("""
        >> host: 0 initialize
        >> start failed server
        << fail: it cannot be started
        << timer linger: 1
        << host: 0 error -31000 [mcp-launch] it cannot be started — fix: install it
        >> host: b'{"id":1,"method":"tools/call"}\\n{"method":"notifications/x"}\\n'
        << timer linger: 1
        << host: 1 refused [mcp-launch] it cannot be started — fix: install it
        >> host: 2 server/discover
        << host: 2 error -32601 Method not found
        >> timer linger
        << finish 125
    """)


def test_a_failed_launch_ends_soon_if_the_host_sends_nothing() -> None:
    Playbook().play("""
        >> start failed server
        << fail: it cannot be started
        << timer linger: 3
        >> timer linger
        << finish 125
    """)


# The queue


def test_a_host_that_sends_too_much_while_there_is_no_server_is_paused() -> None:
    playbook = open_playbook()
    playbook.play("""
        >> gone server
        << start server
    """)
    playbook.broker.host_said(
        "host", json.dumps({"method": "m/x", "p": "x" * QUEUE_LIMIT}).encode()
    )
    assert playbook.take() == []
    playbook.broker.host_said("host", b"\n")
    assert playbook.take() == ["pause host"]
    playbook.play("""
        >> started server
        << timer greeting server: 30
        << server: …
        >> server: "mcp-launch/L/1" = {}
        << server: notifications/initialized
        << server: {"method": "m/x", …
        << resume host
    """)


def test_an_id_that_is_used_twice_is_answered_twice() -> None:
    beginning = b'{"jsonrpc":"2.0","id":"mcp-launch/1","result":"' + b"x" * 20_000
    whole = beginning.replace(b'"mcp-launch/1"', b"1") + b'"}\n'
    open_playbook().play(f"""
        {OPEN_CALL}
        >> host: 1 tools/call {{"name":"y"}}
        << server: "mcp-launch/1" tools/call {{"name":"y"}}
        >> server: {beginning!r}
        >> server: b'"}}\\n'
        << host: {whole!r}
        >> gone server
        << host: 1 refused …
        << start server
    """)


# Roots


def open_moving(**settings: Any) -> Playbook:
    """Return a playbook of a host that may change its directory unannounced."""
    playbook = Playbook(**({"moves_unannounced": True} | settings))
    playbook.play("""
        >> started server
        >> host: 0 initialize {"capabilities":{"roots":{}}}
        << server: 0 initialize {"capabilities":{"roots":{}}}
        >> server: 0 = {}
        << host: 0 = {}
        >> host: notifications/initialized
        << server: notifications/initialized
        << timer roots host: 0.1
    """)
    return playbook


HERE = '{"roots":[{"uri":"file:///work/app"}]}'
ELSEWHERE = '{"roots":[{"uri":"file:///else%20where"}]}'


def test_a_host_that_may_move_is_asked_for_its_roots() -> None:
    playbook = open_moving()
    playbook.play(f"""
        >> timer roots host
        << host: "mcp-launch/L/1" roots/list
        >> host: "mcp-launch/L/1" = {ELSEWHERE}
        >> host: notifications/roots/list_changed
        << server: notifications/roots/list_changed
        << timer roots host: 0.1
        >> timer roots host
        << host: "mcp-launch/L/2" roots/list
    """)

    assert "the host works in /else where, the server in /work/app" in playbook.notes


def test_a_call_does_not_wait_for_roots_that_cannot_change_its_routing() -> None:
    open_moving().play("""
        >> host: 1 tools/call {"name":"x"}
        << host: "mcp-launch/L/1" roots/list
        << server: 1 tools/call {"name":"x"}
    """)


HELD_CALL = """
    >> host: 1 tools/call {"name":"x"}
    << host: "mcp-launch/L/1" roots/list
    << timer roots host: 2
    >> host: 2 ping
"""

# The call is held, the roots are elsewhere, and a server is started there.
MOVED = f"""
    {HELD_CALL}
    >> host: "mcp-launch/L/1" = {ELSEWHERE}
    << timer drain server: 10
    << close input of server
    << end server: replaced
    >> gone server
    << start server in /else where
"""


def test_a_call_waits_for_roots_and_is_delivered_if_they_match() -> None:
    playbook = open_moving(on_change="refuse")
    playbook.play(f"""
        {HELD_CALL}
        >> host: "mcp-launch/L/1" = {HERE}
        << server: 1 tools/call {{"name":"x"}}
        << server: 2 ping
    """)

    assert not playbook.timers


def test_answers_and_cancellations_are_handled_while_a_call_is_held() -> None:
    open_moving(on_change="refuse").play(f"""
        >> host: 9 ping
        << server: 9 ping
        >> server: 1 sampling/createMessage
        << host: 1 sampling/createMessage
        {HELD_CALL}
        >> host: 1 = {{}}
        << server: 1 = {{}}
        >> host: notifications/cancelled {{"requestId":9}}
        << server: notifications/cancelled {{"requestId":9}}
        >> host: notifications/cancelled {{"requestId":1}}
        >> timer roots host
        << server: 2 ping
    """)


def test_the_host_is_not_asked_for_roots_if_the_directory_is_configured() -> None:
    Playbook(moves_unannounced=True, cwd="/fixed").play("""
        >> started server
        >> host: 0 initialize {"capabilities":{"roots":{}}}
        << server: 0 initialize {"capabilities":{"roots":{}}}
        >> server: 0 = {}
        << host: 0 = {}
        >> host: notifications/initialized
        << server: notifications/initialized
    """)


# A host that starts servers in its own directory


def open_agent(**settings: Any) -> Playbook:
    """Return a playbook of a host that starts servers where it runs itself."""
    playbook = open_moving(moves_unannounced=False, is_host_directory=True, **settings)
    playbook.broker.backends["server"].served.context.is_host_directory = True
    return playbook


def test_a_server_in_its_hosts_directory_stays_if_the_root_is_the_same() -> None:
    playbook = open_agent()
    backend = playbook.broker.backends["server"]
    playbook.play(f"""
        >> timer roots host
        << host: "mcp-launch/L/1" roots/list
        >> host: "mcp-launch/L/1" = {HERE}
        >> host: 1 tools/call {{"name":"x"}}
        << server: 1 tools/call {{"name":"x"}}
    """)

    place = backend.served.context.place
    assert (place.value, place.origin) == ("/work/app", "the host's roots/list")
    assert not backend.served.context.is_host_directory


FAILED_STARTS = {
    "start": ">> start failed server",
    "early end": """
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/2" initialize {"capabilities":{"roots":{}}}
        >> exited server 3
        >> gone server
    """,
    "no answer": """
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/2" initialize {"capabilities":{"roots":{}}}
        >> timer greeting server
        << end server: input ended
        >> gone server
    """,
}


@pytest.mark.parametrize("failure", list(FAILED_STARTS.values()), ids=list(FAILED_STARTS))
def test_a_server_that_cannot_work_in_the_root_directory_works_in_its_hosts(failure: str) -> None:
    playbook = open_agent()
    backend = playbook.broker.backends["server"]
    backend.served.context.is_host_directory = True
    next_id = 2 if failure.startswith(">>") else 3
    playbook.play(f"""
        {MOVED}
        {failure.rstrip()}
        << start server
        {GREETING.replace("L/1", f"L/{next_id}").rstrip()}
        << server: 1 tools/call {{"name":"x"}}
        << server: 2 ping
        >> host: notifications/roots/list_changed
        << server: notifications/roots/list_changed
        << timer roots host: 0.1
        >> timer roots host
        << host: "mcp-launch/L/{next_id + 1}" roots/list
        >> host: "mcp-launch/L/{next_id + 1}" = {ELSEWHERE}
        >> host: 3 tools/call {{"name":"x"}}
        << server: 3 tools/call {{"name":"x"}}
    """)

    assert backend.served.context.is_host_directory
    assert any("another starts where its host runs" in note for note in playbook.notes)


def test_a_server_that_cannot_be_planned_in_the_root_directory_stays_in_its_hosts() -> None:
    playbook = open_agent()
    playbook.plan_problem = "no such variable there"
    playbook.play(f"""
        {HELD_CALL}
        >> host: "mcp-launch/L/1" = {ELSEWHERE}
        << server: 1 tools/call {{"name":"x"}}
        << server: 2 ping
    """)


ODD_ROOTS = {
    "another machine": ["file://host/else"],
    "a relative path": ["file://else"],
    "no file": ["https://example.com/else"],
    "missing": ["file:///missing"],
    "no text": [5, None],
}


@pytest.mark.parametrize("uris", list(ODD_ROOTS.values()), ids=list(ODD_ROOTS))
def test_a_root_that_no_server_can_work_in_leaves_the_server_in_its_hosts_directory(
    uris: list[Any],
) -> None:
    playbook = open_agent(is_directory=lambda path: path != "/missing")
    backend = playbook.broker.backends["server"]
    backend.served.context.is_host_directory = True
    playbook.play(f"""
        {HELD_CALL}
        >> host: "mcp-launch/L/1" = {json.dumps({"roots": [{"uri": uri} for uri in uris]})}
        << server: 1 tools/call {{"name":"x"}}
        << server: 2 ping
    """)

    assert backend.served.context.is_host_directory


def test_the_first_root_that_is_a_directory_counts() -> None:
    uris = ["file://host/a", "file:///missing", "file://localhost/else", "file:///other"]
    playbook = open_agent(is_directory=lambda path: path != "/missing")
    playbook.play(f"""
        {HELD_CALL}
        >> host: "mcp-launch/L/1" = {json.dumps({"roots": [{"uri": uri} for uri in uris]})}
        << timer drain server: 10
        << close input of server
        << end server: replaced
        >> gone server
        << start server in /else
    """)


IN_PART = '{"_meta":{"session":"s1","place":"/work/app/part"},"name":"x"}'


def test_a_call_from_a_directory_inside_its_hosts_gets_a_server_there() -> None:
    open_agent().play(f"""
        >> timer roots host
        << host: "mcp-launch/L/1" roots/list
        >> host: "mcp-launch/L/1" = {{"roots":[]}}
        >> host: 1 tools/call {IN_PART}
        << timer drain server: 10
        << close input of server
        << end server: replaced
        >> gone server
        << start server in /work/app/part
    """)
