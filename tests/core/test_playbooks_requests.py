"""Requests and answers between one host and one server: `>>` is an event, `<<` what follows."""

from __future__ import annotations

import pytest
from core_playbooks import HELLO, OFFERED, Playbook, open_playbook

CALL = """
    >> host: 1 tools/call {"name":"x"}
    << server: #a tools/call {"name":"x"}
"""


# The opening


def test_a_host_is_greeted_by_its_server() -> None:
    Playbook(greeting="").play(f"""
        >> host: "first" initialize {HELLO}
        >> host: 1 ping
        >> started server
        << server: #a initialize {HELLO}
        >> server: #a = {OFFERED}
        << server: notifications/initialized
        << host: "first" = {OFFERED}
        << server: #b ping
        >> host: notifications/initialized
        >> server: #b = {{}}
        << host: 1 = {{}}
    """)


def test_a_greeting_that_comes_when_the_server_runs_reaches_it() -> None:
    Playbook(greeting="").play(f"""
        >> started server
        >> host: 0 initialize {HELLO}
        << server: #a initialize {HELLO}
        >> server: #a = {OFFERED}
        << server: notifications/initialized
        << host: 0 = {OFFERED}
    """)


def test_the_error_answer_to_a_greeting_reaches_the_host_which_may_try_again() -> None:
    Playbook(greeting="").play(f"""
        >> started server
        >> host: 0 initialize {HELLO}
        << server: #a initialize {HELLO}
        >> server: #a error -32602 no license
        << host: 0 error -32602 no license
        >> host: 1 initialize {HELLO}
        << server: #b initialize {HELLO}
        >> server: #b = {OFFERED}
        << server: notifications/initialized
        << host: 1 = {OFFERED}
    """)


def test_a_server_that_refuses_its_host_and_leaves_ends_the_launch() -> None:
    Playbook(greeting="").play(f"""
        >> started server
        >> host: 0 initialize {HELLO}
        << server: #a initialize {HELLO}
        >> server: #a error -32602 no license
        << host: 0 error -32602 no license
        >> died server 3
        << leave host: 3
    """)


# What passes


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n":1.10,"u":"\\u00e4"}}\n',
            b'{"jsonrpc":"2.0","id":#,"method":"tools/call","params":{"n":1.10,"u":"\\u00e4"}}\n',
        ),
        (b' { "id" : 2 , "method" : "ping" }\r\n', b' { "id" : # , "method" : "ping" }\r\n'),
        (
            b'{"method":"ping","params":{"_meta":{"progressToken":"p"}},"id":"a,b"}\n',
            b'{"method":"ping","params":{"_meta":{"progressToken":#}},"id":#}\n',
        ),
        (b'\xef\xbb\xbf{"id":1,"method":"ping"}\n', b'\xef\xbb\xbf{"id":#,"method":"ping"}\n'),
        (b'{"i\\u0064":1,"method":"ping"}\n', b'{"i\\u0064":#,"method":"ping"}\n'),
        (b"not a message\n", b"not a message\n"),
        (b"\n", b"\n"),
        (b"\xff\xfe\n", b"\xff\xfe\n"),
        (
            '{"method":"notifications/x","params":"ä€"}\n'.encode(),
            '{"method":"notifications/x","params":"ä€"}\n'.encode(),
        ),
    ],
)
def test_all_bytes_but_ids_and_tokens_arrive_as_they_were_sent(line: bytes, sent: bytes) -> None:
    playbook = open_playbook()
    playbook.core.client_said("host", line)

    number = b"%d" % playbook.core.counts.numbers
    assert ("send", "server", sent.replace(b"#", number)) in playbook.core.out


@pytest.mark.parametrize(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":#,"result":{"n":1.10}}\n',
        b'{"result":{"n":[1,"id"]},"jsonrpc":"2.0","id":#}\n',
        b' { "id" : # , "result" : null }\r\n',
        b'{"jsonrpc": "2.0", "id": #, "error": {"code": 1}}\n',
        b'{"id":#.0,"result":{"\\u00e4":"\xff"}}\n',
        b'{"jsonrpc":"2.0","id":#,"result":"' + b"x" * 70_000 + b'"}\n',
    ],
    ids=["usual", "id last", "spaces", "Python's", "a float", "long"],
)
def test_an_answer_arrives_under_the_hosts_id_and_else_as_it_was_sent(answer: bytes) -> None:
    playbook = open_playbook(CALL.replace(" 1 ", ' "a\\"b" ').replace('\\"', ""))
    number = playbook.numbers["#a"]
    playbook.core.server_said("server", answer.replace(b"#", number))

    given = answer.replace(b"#.0", b"#").replace(b"#", b'"ab"')
    assert playbook.core.out == [("send", "host", given)]


@pytest.mark.parametrize("key", [r'"a\"b\\c"', "9007199254740993", '"\\u0061"', "1e2", '""', "-1"])
def test_an_id_comes_back_as_it_was_written(key: str) -> None:
    answer = f'{{"jsonrpc":"2.0","id":{key},"result":{{}}}}\n'.encode()
    open_playbook(f"""
        >> host: {{"jsonrpc":"2.0","id":{key},"method":"tools/call","params":{{"name":"x"}}}}
        << server: #a tools/call {{"name":"x"}}
        >> server: #a = {{}}
        << host: {answer!r}
    """)


def test_an_answer_that_nobody_is_waiting_for_is_dropped() -> None:
    open_playbook(f"""
        {CALL}
        >> server: #a = {{}}
        << host: 1 = {{}}
        >> server: #a = {{"again":true}}
        >> server: 99 = {{}}
        >> server: "x" = {{}}
        >> host: 99 = {{}}
    """)


def test_an_id_that_is_used_twice_is_answered_twice() -> None:
    open_playbook(f"""
        {CALL}
        >> host: 1 tools/call {{"name":"y"}}
        << server: #b tools/call {{"name":"y"}}
        >> server: #b = {{"of":"y"}}
        << host: 1 = {{"of":"y"}}
        >> gone server
        << host: 1 refused …
        << start server
    """)


# Progress and cancellation


def test_progress_has_the_token_of_its_asker() -> None:
    open_playbook("""
        >> host: 1 tools/call {"_meta":{"progressToken":"p"},"name":"x"}
        << server: #a tools/call {"_meta":{"progressToken":#a},"name":"x"}
        >> server: notifications/progress {"progressToken":#a,"progress":1.5}
        << host: notifications/progress {"progressToken":"p","progress":1.5}
        >> server: notifications/progress {"progressToken":"p","progress":1}
        >> server: #a = {}
        << host: 1 = {}
        >> server: notifications/progress {"progressToken":#a,"progress":1}
    """)


def test_a_cancelled_request_gets_no_answer() -> None:
    open_playbook(f"""
        {CALL}
        >> host: notifications/cancelled {{"requestId":1,"reason":"no"}}
        << server: notifications/cancelled {{"requestId":#a,"reason":"no"}}
        >> server: #a = {{"late":true}}
        >> host: notifications/cancelled {{"requestId":1}}
        >> host: notifications/cancelled {{"requestId":77}}
        >> host: notifications/cancelled
    """)


@pytest.mark.parametrize(
    ("asked", "cancelled"), [("1", "1.0"), ('"a"', '"\\u0061"'), ("10", "1e1")]
)
def test_a_request_is_cancelled_however_its_id_is_spelt(asked: str, cancelled: str) -> None:
    open_playbook(f"""
        >> host: {asked} ping
        << server: #a ping
        >> host: notifications/cancelled {{"requestId":{cancelled}}}
        << server: notifications/cancelled {{"requestId":#a}}
    """)


def test_a_waiting_request_that_is_cancelled_reaches_no_server() -> None:
    open_playbook("""
        >> gone server
        << start server
        >> host: 1 tools/call {}
        >> host: 2 tools/call {}
        >> host: notifications/cancelled {"requestId":1}
        >> started server
        << server: #b tools/call {}
    """)


# Questions of the server


def test_a_question_and_its_answer_pass_both_ways() -> None:
    open_playbook("""
        >> server: 7 sampling/createMessage {"_meta":{"progressToken":"t"}}
        << host: #q sampling/createMessage {"_meta":{"progressToken":#q}}
        >> host: notifications/progress {"progressToken":#q,"progress":1}
        << server: notifications/progress {"progressToken":"t","progress":1}
        >> host: #q = {"x":1.0}
        << server: 7 = {"x":1.0}
        >> host: notifications/progress {"progressToken":#q,"progress":2}
    """)


def test_a_server_takes_its_question_back() -> None:
    open_playbook("""
        >> server: "q" elicitation/create
        << host: #q elicitation/create
        >> server: notifications/cancelled {"requestId":"q"}
        << host: notifications/cancelled {"requestId":#q}
        >> host: #q = {}
    """)


def test_we_answer_a_servers_ping() -> None:
    open_playbook("""
        >> server: 3 ping
        << server: 3 = {}
    """)


def test_questions_of_a_server_that_is_gone_are_taken_back() -> None:
    open_playbook("""
        >> server: 7 elicitation/create
        << host: #q elicitation/create
        >> gone server
        << host: notifications/cancelled {"requestId":#q,"reason":"the server that asked is gone"}
        << start server
        >> host: #q = {}
        >> host: notifications/progress {"progressToken":#q}
    """)


def test_a_host_that_has_closed_its_end_is_asked_and_told_nothing() -> None:
    """Some hosts break at anything but an answer then."""
    open_playbook(f"""
        {CALL}
        >> input ended host
        << close server
        >> server: 7 elicitation/create
        << server: 7 error -31000 [mcp-launch] the host has closed its end
        >> server: notifications/message {{"level":"info"}}
        >> server: #a = {{}}
        << host: 1 = {{}}
    """)


def test_notifications_pass_both_ways() -> None:
    open_playbook("""
        >> host: notifications/x {"a":1.0}
        << server: notifications/x {"a":1.0}
        >> server: notifications/tools/list_changed
        << host: notifications/tools/list_changed
        >> server: notifications/resources/updated {"uri":"u"}
        << host: notifications/resources/updated {"uri":"u"}
        >> server: notifications/elicitation/complete {"elicitationId":"unknown"}
    """)


def test_the_end_of_an_elicitation_reaches_whoever_was_asked() -> None:
    open_playbook("""
        >> server: 1 elicitation/create {"elicitationId":"e"}
        << host: #q elicitation/create {"elicitationId":"e"}
        >> host: #q = {}
        << server: 1 = {}
        >> server: notifications/elicitation/complete {"elicitationId":"e"}
        << host: notifications/elicitation/complete {"elicitationId":"e"}
    """)


def test_log_messages_come_from_the_level_on_that_the_host_wants() -> None:
    open_playbook("""
        >> host: 1 logging/setLevel {"level":"error"}
        << server: #a logging/setLevel {"level":"error"}
        >> server: #a = {}
        << host: 1 = {}
        >> server: notifications/message {"level":"info"}
        >> server: notifications/message {"level":"alert"}
        << host: notifications/message {"level":"alert"}
        >> server: notifications/message {"level":"own"}
        << host: notifications/message {"level":"own"}
    """)


# The outcome of a call, for its record


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ('= {"content":[]}', "ok"),
        ('= {"content":[],"isError":false}', "ok"),
        ('= {"content":["\\"isError\\":true"]}', "ok"),
        ('= {"structuredContent":{"error":1}}', "ok"),
        ("refused it is broken", "tool error"),
        ("error -32602 no such tool", "protocol error"),
    ],
)
def test_the_answer_of_a_server_tells_the_outcome(answer: str, outcome: str) -> None:
    playbook = open_playbook(f"{CALL}\n>> server: #a {answer}\n<< host: 1 {answer}")

    assert playbook.outcomes == [(b"1", outcome)]
    assert playbook.find_call(b"1").length > 20


def test_a_call_that_waits_for_a_server_is_counted_from_its_arrival() -> None:
    playbook = Playbook()
    playbook.play("""
        >> after 10
        >> host: 1 tools/call {"name":"a"}
        >> after 3
    """)
    playbook.core.server_started("server", 4711)
    playbook.core.server_said("server", b'{"jsonrpc":"2.0","id":1,"result":{}}\n')

    call = playbook.find_call(b"1")
    assert (call.began, call.ended, call.has_waited, call.pid) == (10.0, 13.0, True, 4711)


def test_a_cancelled_call_and_one_whose_server_died_are_recorded_as_such() -> None:
    playbook = open_playbook(f"""
        {CALL}
        >> host: notifications/cancelled {{"requestId":1}}
        << server: notifications/cancelled {{"requestId":#a}}
        >> host: 2 tools/call {{}}
        << server: #b tools/call {{}}
        >> died server 3
        << host: 2 refused …
        << start server
    """)

    assert playbook.outcomes == [(b"1", "cancelled"), (b"2", "died")]
    assert playbook.find_call(b"2").reason == "srv ended with exit code 3 while it was at work"


# Too much at once


def test_a_host_that_sends_too_much_while_there_is_no_server_is_paused() -> None:
    playbook = open_playbook(">> gone server\n<< start server")
    playbook.core.client_said("host", b'{"method":"m/x","p":"%b"}\n' % (b"x" * (1 << 20)))

    assert playbook.take() == ["pause host"]
    playbook.play("""
        >> started server
        << server: {"method":"m/x","p":"xx…
        << resume host
    """)
