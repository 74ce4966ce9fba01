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
        b'[{"id":3,"method":"ping"},{"method":"notifications/y"}]\n',
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
        b'[{"id":3,"result":{}}]\n',
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
    assert not playbook.broker.backends["server"].requests.open


def test_a_line_without_a_newline_is_passed_on_when_the_host_closes_our_stdin() -> None:
    open_playbook().play("""
        >> host: b'{"id":1,"method":"ping"}'
        >> host closed host
        << server: b'{"id":1,"method":"ping"}'
        << timer grace: 2
        << close input of server
    """)


def test_messages_sent_before_the_first_server_runs_wait_for_it() -> None:
    Playbook().play("""
        >> host: 0 initialize
        >> host: b'[{"id":1,"method":"ping"}]\\n'
        >> host: notifications/initialized
        >> started server
        << server: 0 initialize
        << server: [{"id":1,"method":"ping"}]
        << server: notifications/initialized
    """)


def test_a_message_with_wrongly_capitalised_members_is_refused() -> None:
    open_playbook().play("""
        >> host: {"id":1,"Method":"tools/call","method":"ping"}
        << host: 1 error -32600 [mcp-launch] not delivered: members of this message …
        >> host: {"id":2,"method":"tools/call","params":{"_META":{}}}
        << host: 2 error -32600 …
    """)


def test_a_line_in_which_another_parser_may_find_a_message_is_refused() -> None:
    open_playbook().play("""
        >> host: {"id":1,"method":"tools/call",}
        << host: null error -32700 [mcp-launch] not delivered: this line cannot be read as JSON
        >> host: {"id":2, …}
        << server: {"id":2, …}
    """)


# Death and replacement


def test_a_dead_server_is_replaced_and_gets_the_same_handshake() -> None:
    playbook = open_playbook()
    playbook.play(f"""
        >> exited server 3
        >> gone server
        << start server
        {GREETING}
        >> host: 1 ping
        << server: 1 ping
    """)

    assert playbook.broker.backends["server"].generation == 1
    assert not playbook.timers


def test_the_next_server_gets_the_level_and_subscriptions_and_the_host_gets_no_second_answer() -> (
    None
):
    open_playbook().play("""
        >> host: 1 logging/setLevel {"level":"info"}
        << server: 1 logging/setLevel {"level":"info"}
        >> server: 1 = {}
        << host: 1 = {}
        >> host: 2 resources/subscribe {"uri":"a"}
        << server: 2 resources/subscribe {"uri":"a"}
        >> host: 3 resources/subscribe {"uri":"b"}
        << server: 3 resources/subscribe {"uri":"b"}
        >> host: 4 resources/unsubscribe {"uri":"a"}
        << server: 4 resources/unsubscribe {"uri":"a"}
        >> server: b'{"id":2,"result":{}}\\n{"id":3,"result":{}}\\n{"id":4,"result":{}}\\n'
        << host: {"id":2,"result":{}}
        << host: {"id":3,"result":{}}
        << host: {"id":4,"result":{}}
        >> gone server
        << start server
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize …
        >> server: "mcp-launch/L/1" = {}
        << server: notifications/initialized
        << server: "mcp-launch/L/2" logging/setLevel {"level":"info"}
        << server: "mcp-launch/L/3" resources/subscribe {"uri":"b"}
        >> server: "mcp-launch/L/2" = {}
        >> server: "mcp-launch/L/3" error -32602 no
    """)


def test_the_next_server_gets_the_streams_and_the_host_gets_no_second_confirmation() -> None:
    confirmed = """notifications/subscriptions/acknowledged {"_meta":\
{"io.modelcontextprotocol/subscriptionId":7}}"""
    playbook = Playbook()
    playbook.play(f"""
        >> started server
        >> host: 0 server/discover
        << server: 0 server/discover
        >> server: 0 = {{}}
        << host: 0 = {{}}
        >> host: 7 subscriptions/listen {{"notifications":{{"toolsListChanged":true}}}}
        << server: 7 subscriptions/listen …
        >> server: {confirmed}
        << host: {confirmed}
        >> gone server
        << start server
        >> started server
        << server: 7 subscriptions/listen …
        >> server: {confirmed}
        >> server: {confirmed}
        << host: {confirmed}
    """)


TOOLS = """
    >> host: 1 tools/list
    << server: 1 tools/list
    >> server: 1 = {"tools":[{"name":"a"}],"nextCursor":"p2"}
    << host: 1 = …
    >> host: 2 tools/list {"cursor":"p2"}
    << server: 2 tools/list {"cursor":"p2"}
    >> server: 2 = {"tools":[{"name":"b"}]}
    << host: 2 = …
    >> gone server
    << start server
    >> started server
    << timer greeting server: 30
    << server: "mcp-launch/L/1" initialize …
    >> server: "mcp-launch/L/1" = {}
    << server: notifications/initialized
    << server: "mcp-launch/L/2" tools/list
    >> server: "mcp-launch/L/2" = {"tools":[{"name":"a"}],"nextCursor":"q"}
    << server: {"params":{"cursor":"q"},"jsonrpc":"2.0","id":"mcp-launch/L/3","method":"tools/list"}
"""


def test_the_host_is_not_notified_if_the_next_server_has_the_same_tools() -> None:
    open_playbook().play(TOOLS + '>> server: "mcp-launch/L/3" = {"tools":[{"name":"b"}]}')


def test_the_host_is_notified_if_the_next_server_has_other_tools() -> None:
    open_playbook().play(f"""
        {TOOLS}
        >> server: "mcp-launch/L/3" = {{"tools":[{{"name":"c"}}]}}
        << host: notifications/tools/list_changed
    """)


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


def test_requests_from_a_dead_server_are_cancelled_and_answers_to_it_are_dropped() -> None:
    playbook = open_playbook()
    playbook.play(f"""
        >> server: {{"id":1.0,"method":"sampling/createMessage"}}
        << host: {{"id":1.0,"method":"sampling/createMessage"}}
        >> gone server
        << host: notifications/cancelled {{"requestId":1.0,"reason":"the server that …"}}
        << start server
        >> host: 1 = {{}}
        {GREETING}
        >> host: 1 = {{}}
    """)

    assert playbook.notes.count("an answer that nobody is waiting for was dropped") == 2


def test_requests_from_a_second_server_get_our_own_ids() -> None:
    open_playbook().play(f"""
        >> gone server
        << start server
        {GREETING}
        >> server: 1 sampling/createMessage
        << host: "mcp-launch/L/2" sampling/createMessage
        >> server: {{"method":"notifications/cancelled","params":{{"requestId":1}}}}
        << host: {{"method":"notifications/cancelled","params":{{"requestId":"mcp-launch/L/2"}}}}
        >> server: 1 elicitation/create
        << host: "mcp-launch/L/3" elicitation/create
        >> host: "mcp-launch/L/3" = {{"a":1}}
        << server: 1 = {{"a":1}}
        >> host: "mcp-launch/L/3" = {{"a":1}}
    """)


def test_a_cancelled_request_from_the_first_server_leaves_nothing_behind() -> None:
    playbook = open_playbook()
    playbook.play("""
        >> server: 1 sampling/createMessage
        << host: 1 sampling/createMessage
        >> server: notifications/cancelled {"requestId":1}
        << host: notifications/cancelled {"requestId":1}
    """)

    assert not playbook.broker.connections["host"].server_requests


def test_a_new_server_that_refuses_the_greeting_ends_the_launch() -> None:
    open_playbook().play("""
        >> gone server
        << start server
        >> host: 1 ping
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize …
        >> server: "mcp-launch/L/1" error -32600 no
        << end server: input ended
        >> gone server
        << fail: srv was started again, but did not complete the handshake
        << timer linger: 1
        << host: 1 error -31000 [mcp-launch] srv was started again, …
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


def test_a_dead_server_is_not_replaced_with_restart_off() -> None:
    open_playbook(restart="off").play(f"""
        {OPEN_CALL}
        >> exited server 3
        >> gone server
        << host: 1 refused …
        << finish 3
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


def test_a_server_that_dies_four_times_within_a_minute_is_not_started_again() -> None:
    playbook = open_playbook()
    for number in range(DEATHS_LIMIT):
        playbook.play(f"""
            >> exited server 1
            >> gone server
            << start server
            >> started server
            << timer greeting server: 30
            << server: "mcp-launch/L/{number + 1}" initialize …
            >> server: "mcp-launch/L/{number + 1}" = {{}}
            << server: notifications/initialized
        """)
    playbook.play("""
        >> host: 1 tools/call {}
        << server: 1 tools/call {}
        >> exited server 1
        >> gone server
        << stderr: srv died 4 times within a minute: it is not started again; reconnect …
        << host: 1 refused … fix: reconnect the server in its host, because it is not started …
        << finish 1
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


def test_a_server_that_died_of_discovery_is_replaced_by_one_that_gets_initialize() -> None:
    playbook = Playbook()
    playbook.play("""
        >> started server
        >> host: 0 server/discover
        << server: 0 server/discover
        >> host: notifications/x
        << server: notifications/x
        >> gone server | notifications/x
        << host: 0 error -32601 Method not found
        << start server
        >> started server
        >> host: 1 initialize
        << server: 1 initialize
        >> server: 1 = {}
        << host: 1 = {}
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


def test_a_server_that_died_of_discovery_is_not_replaced_with_restart_off() -> None:
    Playbook(restart="off").play("""
        >> started server
        >> host: 0 server/discover
        << server: 0 server/discover
        >> exited server 3
        >> gone server
        << fail: srv ended with exit code 3 before it answered
        << host: 0 error -32601 Method not found
        << timer linger: 3
        >> host: 1 initialize
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

    assert str(playbook.broker.backends["server"].served.bound) == "session s-2"
    assert not playbook.timers


def test_an_idle_server_is_replaced_at_once_for_another_caller() -> None:
    open_playbook(on_change="restart").play(f"""
        {SERVES_S1}
        >> server: 1 = {{}}
        << host: 1 = {{}}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        << close input of server
        << end server: replaced
    """)


def test_an_old_server_still_exchanges_requests_and_answers_while_it_drains() -> None:
    open_playbook(on_change="restart").play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        >> server: 1 elicitation/create
        << host: 1 elicitation/create
        >> host: 1 = {{"ok":true}}
        << server: 1 = {{"ok":true}}
        >> host: notifications/x
        >> server: notifications/progress {{"progressToken":1}}
        << host: notifications/progress {{"progressToken":1}}
    """)


def test_requests_that_the_old_server_does_not_answer_in_time_are_answered_by_us() -> None:
    open_playbook(on_change="restart").play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        >> timer drain server
        << host: 1 refused [mcp-launch] srv was replaced, because its session has changed; …
        << close input of server
        << end server: replaced
        >> server: 1 = {{}}
        >> gone server
        << start server
    """)


BEGINNING = b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * 20_000

OVERDUE = f"""
    {SERVES_S1}
    >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
    << timer drain server: 10
    >> server: {BEGINNING!r}
    << host: {BEGINNING!r}
    >> timer drain server
    << timer drain server: 2
"""


def test_an_answer_that_is_being_written_when_the_time_is_up_may_be_finished() -> None:
    open_playbook(on_change="restart").play(f"""
        {OVERDUE}
        >> server: b'x"}}\\n'
        << host: b'x"}}\\n'
        << close input of server
        << end server: replaced
    """)


def test_a_line_that_does_not_end_is_cut_off_before_our_answer() -> None:
    open_playbook(on_change="restart").play(f"""
        {OVERDUE}
        >> timer drain server
        << host: b' [cut off]\\n'
        << host: 1 refused …
        << close input of server
        << end server: replaced
        >> server: b'x"}}\\n'
        >> server: 1 = {{}}
        >> gone server
        << start server
    """)


def test_a_server_that_dies_while_it_drains_is_replaced_by_the_planned_one() -> None:
    playbook = open_playbook(on_change="restart", restart="off")
    playbook.play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        >> exited server 1
        >> gone server
        << host: 1 refused [mcp-launch] srv ended with exit code 1 while it was at work; …
        << start server
    """)

    assert str(playbook.broker.backends["server"].served.bound) == "session s-2"
    assert not playbook.timers


def test_a_server_is_kept_if_its_replacement_cannot_be_planned() -> None:
    playbook = open_playbook(on_change="restart")
    playbook.play(SERVES_S1)
    playbook.plan_problem = "there is no such directory"
    playbook.play("""
        >> host: 2 tools/call {"_meta":{"session":"s-2"}}
        << host: 2 refused [mcp-launch] there is no such directory — fix: plan again
        >> host: 3 tools/call {"_meta":{"session":"s-1"}}
        << server: 3 tools/call {"_meta":{"session":"s-1"}}
    """)

    assert playbook.broker.refusals == 0


def test_a_call_from_another_directory_gets_a_server_in_that_directory() -> None:
    open_playbook(on_change="restart").play(f"""
        {SERVES_S1}
        >> server: 1 = {{}}
        << host: 1 = {{}}
        >> host: 2 tools/call {{"_meta":{{"session":"s-1","place":"/elsewhere"}}}}
        << timer drain server: 10
        << close input of server
        << end server: replaced
        >> gone server
        << start server in /elsewhere
    """)


def test_a_call_of_another_session_is_refused_with_on_change_refuse() -> None:
    playbook = open_playbook(on_change="refuse")
    playbook.play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << host: 2 refused … this call belongs to session s-2, but this server serves session s-1: …
        >> host: 3 resources/read {{"_meta":{{"session":"s-2"}}}}
        << host: 3 error -31000 …
        >> host: notifications/x {{"_meta":{{"session":"s-2"}}}}
        >> host: notifications/cancelled {{"requestId":2}}
        >> host: 4 tools/call {{"_meta":{{"session":"s-1"}}}}
        << server: 4 tools/call {{"_meta":{{"session":"s-1"}}}}
    """)

    assert playbook.broker.refusals == 3


def test_a_server_gets_the_calls_of_every_session_with_on_change_follow() -> None:
    playbook = open_playbook(on_change="follow")
    playbook.play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << server: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
    """)

    assert playbook.notes[-1] == "now serves session s-2, according to the call's session"


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


def test_a_cancelled_request_is_not_waited_for() -> None:
    playbook = open_playbook()
    playbook.play(f"""
        {OPEN_CALL}
        >> host: notifications/cancelled {{"requestId":1}}
        << server: notifications/cancelled {{"requestId":1}}
        >> gone server
        << start server
    """)


def test_a_cancelled_request_that_was_not_read_reaches_no_other_server() -> None:
    open_playbook().play(f"""
        {OPEN_CALL}
        >> host: notifications/cancelled {{"requestId":1}}
        << server: notifications/cancelled {{"requestId":1}}
        >> gone server | 1 tools/call {{"name":"x"}} | notifications/cancelled {{"requestId":1}}
        << start server
        {GREETING}
    """)


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


def test_a_cancellation_of_an_unknown_request_reaches_the_first_server_as_it_would_without_us() -> (
    None
):
    open_playbook().play("""
        >> host: notifications/cancelled {"requestId":77}
        << server: notifications/cancelled {"requestId":77}
    """)


# Noise and our own lines


def test_noise_does_not_reach_the_host() -> None:
    playbook = open_playbook()
    playbook.play("""
        >> server: b'Listening\\n{"method":"notifications/x"}\\n'
        << divert: b'Listening\\n'
        << host: {"method":"notifications/x"}
    """)

    assert playbook.broker.noise == 1


def test_a_long_line_of_noise_counts_as_one_however_it_is_split() -> None:
    line = b"Loading " + b"x" * 20_000
    playbook = open_playbook()
    playbook.play(f"""
        >> server: {line!r}
        << divert: {line!r}
        >> server: b'more'
        << divert: b'more'
        >> server: b'\\n'
        << divert: b'\\n'
    """)

    assert playbook.broker.noise == 1


def test_our_own_lines_are_sent_between_two_lines_from_the_server() -> None:
    open_playbook(on_change="refuse").play(f"""
        {SERVES_S1}
        >> server: {BEGINNING!r}
        << host: {BEGINNING!r}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        >> server: b'x"}}\\n'
        << host: b'x"}}\\n'
        << host: 2 refused …
    """)


# The end


def test_the_end_of_the_hosts_input_is_passed_on_and_the_server_may_finish() -> None:
    open_playbook().play(f"""
        {OPEN_CALL}
        >> host closed host
        << timer grace: 2
        << close input of server
        >> after 1.5
        >> server: 1 = {{}}
        << timer grace: 2
        << host: 1 = {{}}
        >> after 1
        >> bytes moved
        << timer grace: 2
        >> exited server 0
        >> gone server
        << finish 0
    """)


def test_a_server_that_goes_on_after_the_end_of_its_input_is_ended() -> None:
    playbook = open_playbook()
    playbook.play(f"""
        {OPEN_CALL}
        >> host closed host
        << timer grace: 2
        << close input of server
        >> after 2
        >> timer grace
        << cut input of server
        << end server: input ended
        >> exited server 143
        >> gone server
        << host: 1 refused … was killed by signal 15 … tools/call was not answered, …
        << finish 143
    """)

    assert playbook.broker.is_out_of_time


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


def test_a_signal_is_passed_on_and_we_leave_soon() -> None:
    open_playbook().play(f"""
        {OPEN_CALL}
        >> signal 15
        << signal server: 15
        << timer leave: 0.45
        >> signal 2
        << signal server: 2
        >> timer leave
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


def test_a_live_server_that_closes_its_stdout_closes_our_stdout() -> None:
    open_playbook().play(f"""
        {OPEN_CALL}
        >> output closed by server
        << timer output server: 0.5
        >> timer output server
        << close output to host
        >> exited server 0
        >> gone server
        << finish 0
    """)


def test_a_server_that_closes_its_stdout_because_it_died_is_replaced() -> None:
    open_playbook().play("""
        >> output closed by server
        << timer output server: 0.5
        >> exited server 1
        >> timer output server
        >> gone server
        << start server
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


def test_a_paused_host_is_resumed_when_the_server_closes_its_stdin() -> None:
    playbook = open_playbook()
    playbook.broker.server_closed_input("server")

    assert commands.ResumeHost("host") in playbook.broker.take_commands()


def test_the_end_of_a_server_that_closes_its_stdin_before_the_handshake_is_awaited() -> None:
    Playbook().play("""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> input closed by server
        >> exited server 2
        >> gone server | 0 initialize
        << fail: srv ended with exit code 2 before it answered
        << timer linger: 1
        << host: 0 error -31000 [mcp-launch] srv ended with exit code 2 before it answered …
    """)


def test_the_servers_stdout_is_closed_when_the_host_stops_reading() -> None:
    open_playbook().play("""
        >> reader lost host
        << close output of server
        >> exited server 141
        >> gone server
        << finish 141
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


def test_every_request_gets_an_error_if_the_next_server_cannot_be_started() -> None:
    open_playbook().play("""
        >> gone server
        << start server
        >> host: 1 tools/call {"name":"x"}
        >> start failed server
        << fail: it cannot be started
        << timer linger: 1
        << host: 1 refused [mcp-launch] it cannot be started …
        >> host closed host
        << timer grace: 2
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


# Batches


def test_a_batch_without_calls_passes_unchanged_and_is_answered() -> None:
    playbook = open_playbook()
    playbook.play("""
        >> host: [{"id":1,"method":"ping"},{"id":2,"method":"ping"}]
        << server: [{"id":1,"method":"ping"},{"id":2,"method":"ping"}]
        >> server: [{"id":1,"result":{}}]
        << host: [{"id":1,"result":{}}]
        >> gone server
        << host: 2 error -31000 …
        << start server
    """)


OF_S2 = '{"id":2,"method":"tools/call","params":{"_meta":{"session":"s-2"}}}'


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


def test_an_id_that_is_used_twice_in_a_batch_is_answered_twice() -> None:
    playbook = open_playbook()
    playbook.play("""
        >> host: [{"id":1,"method":"ping"},{"id":1,"method":"ping"}]
        << server: {"id":1,"method":"ping"}
        << server: {"id":"mcp-launch/1","method":"ping"}
        >> host: [{"id":1,"method":"ping"}]
        << server: {"id":"mcp-launch/2","method":"ping"}
        >> server: 1 = {}
        << host: [{"jsonrpc":"2.0","id":1,"result":{}}]
        >> server: "mcp-launch/2" = {}
        << host: 1 = {}
        >> server: "mcp-launch/1" = {}
        << host: 1 = {}
    """)

    assert not playbook.broker.backends["server"].requests.open


def test_the_calls_of_a_batch_are_checked_one_by_one() -> None:
    open_playbook(on_change="refuse").play(f"""
        {SERVES_S1}
        >> host: [{OF_S2}, {{"id":3,"method":"ping"}}]
        << server: {{"id":3,"method":"ping"}}
        >> server: 3 = {{}}
        << host: [{{"jsonrpc":"2.0","id":2,"result":…,{{"jsonrpc":"2.0","id":3,"result":{{}}}}]
    """)


def test_a_batch_is_answered_without_what_was_cancelled_in_it() -> None:
    playbook = open_playbook(on_change="refuse")
    playbook.play(f"""
        {SERVES_S1}
        >> host: [{OF_S2}, {{"id":3,"method":"ping"}}]
        << server: {{"id":3,"method":"ping"}}
        >> host: notifications/cancelled {{"requestId":3}}
        << host: [{{"jsonrpc":"2.0","id":2,"result":…]
        << server: notifications/cancelled {{"requestId":3}}
    """)

    assert not playbook.broker.connections["host"].batches


def test_a_batch_that_the_server_has_is_answered_by_it_in_its_own_way() -> None:
    playbook = open_playbook()
    playbook.play("""
        >> host: [{"id":1,"method":"ping"},{"id":2,"method":"ping"}]
        << server: [{"id":1,"method":"ping"},{"id":2,"method":"ping"}]
        >> server: [{"id":2,"result":{}},{"id":1,"result":{}}]
        << host: [{"id":2,"result":{}},{"id":1,"result":{}}]
        >> host: [{"id":1,"method":"ping"},{"id":2,"method":"ping"}]
        << server: [{"id":1,"method":"ping"},{"id":2,"method":"ping"}]
        >> server: 2 = {}
        << host: 2 = {}
        >> server: 1 = {}
        << host: 1 = {}
    """)

    assert not playbook.broker.connections["host"].batches


def test_a_batch_over_which_the_server_dies_is_answered_as_one() -> None:
    open_playbook().play("""
        >> host: [{"id":1,"method":"ping"},{"id":2,"method":"ping"}]
        << server: [{"id":1,"method":"ping"},{"id":2,"method":"ping"}]
        >> gone server
        << host: [{"jsonrpc":"2.0","id":1,"error":…{"jsonrpc":"2.0","id":2,"error":…]
        << start server
    """)


def test_a_batch_that_the_server_has_not_read_is_answered_as_one_by_the_next() -> None:
    open_playbook().play(f"""
        >> host: [{{"id":1,"method":"ping"}},{{"id":2,"method":"ping"}}]
        << server: [{{"id":1,"method":"ping"}},{{"id":2,"method":"ping"}}]
        >> gone server | [{{"id":1,"method":"ping"}},{{"id":2,"method":"ping"}}]
        << start server
        {GREETING}
        << server: {{"id":1,"method":"ping"}}
        << server: {{"id":2,"method":"ping"}}
        >> server: 1 = {{}}
        >> server: 2 = {{}}
        << host: [{{"jsonrpc":"2.0","id":1,"result":{{}}}},{{"jsonrpc":"2.0","id":2,"result":{{}}}}]
    """)


def test_several_messages_in_one_line_are_checked_one_by_one() -> None:
    open_playbook(on_change="refuse").play(f"""
        {SERVES_S1}
        >> host: {OF_S2}{{"id":3,"method":"ping"}}
        << host: 2 refused …
        << server: {{"id":3,"method":"ping"}}
    """)


def test_the_messages_of_a_batch_wait_one_by_one_for_the_next_server() -> None:
    open_playbook().play(f"""
        >> gone server
        << start server
        >> host: [{{"id":1,"method":"ping"}},{{"id":2,"method":"ping"}}]
        >> host: notifications/cancelled {{"requestId":1}}
        {GREETING.rstrip()}
        << server: {{"id":2,"method":"ping"}}
    """)


def test_a_batch_of_answers_that_we_have_given_ourselves_does_not_reach_the_host() -> None:
    open_playbook(on_change="restart").play(f"""
        {SERVES_S1}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        << timer drain server: 10
        >> timer drain server
        << host: 1 refused …
        << close input of server
        << end server: replaced
        >> server: [{{"id":1,"result":{{}}}}]
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

    assert playbook.broker.connections["host"].roots == ["/else where"]
    assert "the host works in /else where, the server in /work/app" in playbook.notes


def test_a_host_that_the_server_asks_for_its_roots_is_not_asked_again() -> None:
    playbook = open_moving()
    playbook.play(f"""
        >> server: 1 roots/list
        << host: 1 roots/list
        >> timer roots host
        >> host: 1 = {HERE}
        << server: 1 = {HERE}
    """)

    assert playbook.broker.connections["host"].roots == ["/work/app"]


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

# That server gets the call.
MOVED_TO_ROOT = f"""
        {MOVED}
        {GREETING.replace("L/1", "L/2").rstrip()}
        << server: 1 tools/call {{"name":"x"}}
        << server: 2 ping
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


def test_a_call_waits_for_roots_only_until_the_time_limit() -> None:
    open_moving(on_change="refuse").play(f"""
        {HELD_CALL}
        >> timer roots host
        << server: 1 tools/call {{"name":"x"}}
        << server: 2 ping
        >> host: "mcp-launch/L/1" = {ELSEWHERE}
        >> host: 3 tools/call {{"name":"x"}}
        << host: 3 refused … this call belongs to … in /else where (the host's roots/list), …
    """)


def test_a_call_is_refused_if_the_roots_are_elsewhere_with_on_change_refuse() -> None:
    open_moving(on_change="refuse").play(f"""
        {HELD_CALL}
        >> host: "mcp-launch/L/1" = {ELSEWHERE}
        << host: 1 refused …
        << server: 2 ping
    """)


def test_a_call_gets_a_server_in_the_root_directory_with_on_change_restart() -> None:
    open_moving(on_change="restart").play(MOVED_TO_ROOT)


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


def test_a_server_in_its_hosts_directory_is_replaced_by_one_in_the_root_directory() -> None:
    playbook = open_agent()
    playbook.play(MOVED_TO_ROOT)

    assert not playbook.broker.backends["server"].served.context.is_host_directory


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


def test_a_server_in_its_hosts_directory_stays_if_the_host_names_no_root() -> None:
    playbook = open_agent()
    backend = playbook.broker.backends["server"]
    playbook.play("""
        >> timer roots host
        << host: "mcp-launch/L/1" roots/list
        >> host: "mcp-launch/L/1" = {"roots":[]}
        >> host: 1 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
    """)

    assert backend.served.context.is_host_directory


@pytest.mark.parametrize("root", ["/work", "/work/app/part"], ids=["above", "inside"])
def test_only_the_root_itself_is_right_for_a_server_in_its_hosts_directory(root: str) -> None:
    open_agent().play(f"""
        {HELD_CALL}
        >> host: "mcp-launch/L/1" = {{"roots":[{{"uri":"file://{root}"}}]}}
        << timer drain server: 10
        << close input of server
        << end server: replaced
        >> gone server
        << start server in {root}
    """)


def test_a_call_from_its_hosts_directory_follows_if_the_user_says_so() -> None:
    open_agent(on_change="follow").play(f"""
        >> timer roots host
        << host: "mcp-launch/L/1" roots/list
        >> host: "mcp-launch/L/1" = {ELSEWHERE}
        >> host: 1 tools/call {{"name":"x"}}
        << server: 1 tools/call {{"name":"x"}}
    """)


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


def test_a_server_that_cannot_work_in_the_root_directory_fails_if_the_user_wants_it_there() -> None:
    playbook = open_agent(on_change="restart")
    playbook.plan_problem = "no such variable there"
    playbook.play(f"""
        {HELD_CALL}
        >> host: "mcp-launch/L/1" = {ELSEWHERE}
        << host: 1 refused [mcp-launch] no such variable there — fix: plan again
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


def test_a_directory_of_a_call_that_is_missing_leaves_the_server_in_its_hosts() -> None:
    playbook = open_agent(is_directory=lambda path: path != "/missing")
    playbook.play("""
        >> timer roots host
        << host: "mcp-launch/L/1" roots/list
        >> host: "mcp-launch/L/1" = {"roots":[]}
        >> host: 1 tools/call {"_meta":{"session":"s-1","place":"/missing"}}
        << server: 1 tools/call {"_meta":{"session":"s-1","place":"/missing"}}
    """)


IN_APP = '{"_meta":{"session":"s1","place":"/work/app"},"name":"x"}'
IN_PART = '{"_meta":{"session":"s1","place":"/work/app/part"},"name":"x"}'


def test_a_call_that_names_its_hosts_directory_removes_all_doubt_about_it() -> None:
    playbook = open_agent()
    backend = playbook.broker.backends["server"]
    backend.served.context.is_host_directory = True
    playbook.play(f"""
        >> timer roots host
        << host: "mcp-launch/L/1" roots/list
        >> host: "mcp-launch/L/1" = {{"roots":[]}}
        >> host: 1 tools/call {IN_APP}
        << server: 1 tools/call {IN_APP}
    """)

    assert not backend.served.context.is_host_directory
    assert backend.served.context.place.value == "/work/app"


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
