"""Several launches share a server, and nothing of one reaches another."""

# ruff: noqa: E501  # what hosts are told is compared word for word

from __future__ import annotations

from typing import Any

import pytest
from core_playbooks import HELLO, META, OFFERED, Playbook

ROOTS: dict[str, Any] = {"roots": [{"uri": "file:///work/app"}]}
DISCOVERY = f'server/discover {{"_meta":{META}}}'
LIMIT = 128

BOTH = f"""
    >> joined a
    << start server
    >> started server
    >> a: 0 initialize {HELLO}
    << a: 0 = {OFFERED}
    >> a: notifications/initialized
    >> joined b
    >> b: 0 initialize {HELLO}
    << b: 0 = {OFFERED}
    >> b: notifications/initialized
"""


def make_pool(**settings: Any) -> Playbook:
    """Return a playbook of connections that come and go."""
    values: dict[str, Any] = {"returns_unread": True, "in_flight": LIMIT, "roots": ROOTS}
    return Playbook(clients=(), is_started=False, **(values | settings))


def open_pool(script: str = "", **settings: Any) -> Playbook:
    """Return a playbook of two connections that share a server."""
    playbook = make_pool(**settings)
    playbook.play(BOTH + script)
    return playbook


# What pools of others fail


def test_the_same_id_from_two_sessions() -> None:
    open_pool("""
        >> a: 1 tools/call {"name":"x"}
        << server: #a tools/call {"name":"x"}
        >> b: 1 tools/call {"name":"y"}
        << server: #b tools/call {"name":"y"}
        >> server: #b = {"of":"b"}
        << b: 1 = {"of":"b"}
        >> server: #a = {"of":"a"}
        << a: 1 = {"of":"a"}
    """)


def test_the_same_progress_token_from_two_sessions() -> None:
    open_pool("""
        >> a: 1 tools/call {"_meta":{"progressToken":7}}
        << server: #a tools/call {"_meta":{"progressToken":#a}}
        >> b: 1 tools/call {"_meta":{"progressToken":7}}
        << server: #b tools/call {"_meta":{"progressToken":#b}}
        >> server: notifications/progress {"progressToken":#b,"progress":1}
        << b: notifications/progress {"progressToken":7,"progress":1}
        >> server: notifications/progress {"progressToken":#a,"progress":1}
        << a: notifications/progress {"progressToken":7,"progress":1}
    """)


def test_one_session_cancels_an_id_that_the_other_also_has() -> None:
    open_pool("""
        >> a: 9 tools/call {"name":"x"}
        << server: #a tools/call {"name":"x"}
        >> b: 9 tools/call {"name":"y"}
        << server: #b tools/call {"name":"y"}
        >> a: notifications/cancelled {"requestId":9}
        << server: notifications/cancelled {"requestId":#a}
        >> server: #a = {"late":true}
        >> server: #b = {}
        << b: 9 = {}
    """)


def test_a_question_goes_to_the_one_session_at_work_or_is_refused() -> None:
    open_pool("""
        >> a: 1 tools/call {"name":"x"}
        << server: #a tools/call {"name":"x"}
        >> server: 5 sampling/createMessage
        << a: #q sampling/createMessage
        >> b: #q = {"from":"b"}
        >> b: notifications/progress {"progressToken":#q}
        >> a: #q = {"from":"a"}
        << server: 5 = {"from":"a"}
        >> b: 1 tools/call {"name":"y"}
        << server: #b tools/call {"name":"y"}
        >> server: 6 sampling/createMessage
        << server: 6 error -31000 [mcp-launch] several sessions share this server, and the request does not say which one it is for
        >> server: #a = {}
        << a: 1 = {}
        >> server: #b = {}
        << b: 1 = {}
        >> server: 7 elicitation/create
        << server: 7 error -31000 …
    """)


@pytest.mark.parametrize("event", ["left a", 'a: notifications/cancelled {"requestId":1}'])
def test_a_question_about_a_call_that_nobody_waits_for_reaches_nobody(event: str) -> None:
    reason = ',"reason":"the session has ended"' if event == "left a" else ""
    open_pool(f"""
        >> b: 7 tools/call {{"name":"x"}}
        << server: #b tools/call {{"name":"x"}}
        >> a: 1 tools/call {{"name":"x"}}
        << server: #a tools/call {{"name":"x"}}
        >> {event}
        << server: notifications/cancelled {{"requestId":#a{reason}}}
        >> server: 9 elicitation/create {{"message":"a's password?"}}
        << server: 9 error -31000 [mcp-launch] this may be for a session that has ended or cancelled its request
        >> server: #a = {{}}
        >> server: 9 elicitation/create {{"message":"b's?"}}
        << b: #q elicitation/create {{"message":"b's?"}}
    """)


def test_a_session_that_leaves_does_not_answer_what_it_was_asked() -> None:
    open_pool("""
        >> a: 1 tools/call {"name":"x"}
        << server: #a tools/call {"name":"x"}
        >> server: 5 sampling/createMessage
        << a: #q sampling/createMessage
        >> left a
        << server: notifications/cancelled {"requestId":#a,"reason":"the session has ended"}
        << server: 5 error -31000 [mcp-launch] the session that was asked has ended
    """)


def test_another_kind_of_client_gets_a_server_of_its_own() -> None:
    other = HELLO.replace('"1"', '"2"')
    open_pool(f"""
        >> joined c
        >> c: 0 initialize {other}
        << start server-2
        >> c: 1 prompts/get
        >> started server-2
        << c: 0 = {OFFERED}
        << server-2: #b prompts/get
        >> c: 2 tools/call {{"name":"z"}}
        << server-2: #c tools/call {{"name":"z"}}
        >> a: 1 tools/call {{"name":"x"}}
        << server: #a tools/call {{"name":"x"}}
        >> left c
        << server-2: notifications/cancelled {{"requestId":#b,"reason":"the session has ended"}}
        << server-2: notifications/cancelled {{"requestId":#c,"reason":"the session has ended"}}
        << end server-2: replaced
        << close server-2
        >> gone server-2
        >> server: #a = {{}}
        << a: 1 = {{}}
    """)


# Greetings


def test_greetings_wait_for_the_first_one() -> None:
    playbook = make_pool(greeting="")
    playbook.play(f"""
        >> joined a
        << start server
        >> joined b
        >> a: 0 initialize {HELLO}
        >> b: 7 initialize {HELLO}
        >> started server
        << server: #h initialize {HELLO}
        >> joined c
        >> c: "x" initialize {HELLO}
        >> left a
        >> server: #h = {{"v":1}}
        << server: notifications/initialized
        << b: 7 = {{"v":1}}
        << c: "x" = {{"v":1}}
        >> c: notifications/initialized
        >> b: notifications/initialized
    """)


def test_a_discovery_that_was_refused_is_not_sent_to_a_server_of_the_older_era() -> None:
    make_pool().play(f"""
        >> joined a
        << start server
        >> started server
        >> a: 0 {DISCOVERY}
        << server: #a {DISCOVERY}
        >> server: #a error -32601 Method not found
        << a: 0 error -32601 Method not found
        >> a: 1 initialize {HELLO}
        << a: 1 = {OFFERED}
        >> joined b
        >> b: 8 {DISCOVERY}
        << b: 8 error -32601 Method not found
        >> b: 9 initialize {HELLO}
        << b: 9 = {OFFERED}
    """)


def test_a_discovery_that_is_not_known_yet_cannot_harm_a_server_of_the_older_era() -> None:
    open_pool(f"""
        >> joined c
        >> c: 0 {DISCOVERY}
        << start server-2
        >> started server-2
        << server-2: #a {DISCOVERY}
        >> died server-2 1
        << leave c: 1
        >> joined d
        >> d: 3 {DISCOVERY}
        << d: 3 error -32601 Method not found
        >> d: 4 initialize {HELLO}
        << d: 4 = {OFFERED}
    """)


def test_sessions_of_the_newer_era_share_without_a_greeting() -> None:
    make_pool().play(f"""
        >> joined a
        << start server
        >> started server
        >> a: 0 {DISCOVERY}
        << server: #z {DISCOVERY}
        >> server: #z = {OFFERED}
        << a: 0 = {OFFERED}
        >> a: 1 tools/call {{"_meta":{META}}}
        << server: #a tools/call {{"_meta":{META}}}
        >> joined b
        >> b: 0 {DISCOVERY}
        << b: 0 = {OFFERED}
        >> b: 1 tools/call {{"_meta":{META}}}
        << server: #b tools/call {{"_meta":{META}}}
    """)


def test_another_client_of_the_newer_era_uses_the_same_server() -> None:
    other = META.replace("}}", '},"io.modelcontextprotocol/clientInfo":{"name":"other"}}')
    make_pool().play(f"""
        >> joined a
        << start server
        >> started server
        >> a: 0 tools/call {{"_meta":{META}}}
        << server: #a tools/call {{"_meta":{META}}}
        >> joined b
        >> b: 0 server/discover {{"_meta":{other}}}
        << server: #b server/discover {{"_meta":{other}}}
    """)


def test_a_session_whose_pool_has_lost_all_servers_gets_another() -> None:
    open_pool(f"""
        >> joined c
        >> died server 3
        << leave a: 3
        << leave b: 3
        >> c: 0 initialize {HELLO}
        << start server
        >> started server
        << c: 0 = {OFFERED}
    """)


def test_streams_of_two_sessions_with_the_same_id_are_kept_apart() -> None:
    named = (
        'notifications/tools/list_changed {"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}'
    )
    make_pool().play(f"""
        >> joined a
        << start server
        >> started server
        >> joined b
        >> a: 1 subscriptions/listen {{"_meta":{META}}}
        << server: #a subscriptions/listen {{"_meta":{META}}}
        >> b: 1 subscriptions/listen {{"_meta":{META}}}
        << server: #b subscriptions/listen {{"_meta":{META}}}
        >> server: {named % "#b"}
        << b: {named % 1}
        >> left b
        << server: notifications/cancelled {{"requestId":#b,"reason":"the session has ended"}}
        >> server: {named % "#b"}
        >> server: {named % "#a"}
        << a: {named % 1}
    """)


# Notifications


def test_changed_lists_reach_all_and_updates_only_the_subscribers() -> None:
    open_pool("""
        >> server: notifications/tools/list_changed
        << a: notifications/tools/list_changed
        << b: notifications/tools/list_changed
        >> a: 1 resources/subscribe {"uri":"u:x"}
        << server: #a resources/subscribe {"uri":"u:x"}
        >> server: #a = {}
        << a: 1 = {}
        >> server: notifications/resources/updated {"uri":"u:x"}
        << a: notifications/resources/updated {"uri":"u:x"}
        >> b: 1 resources/subscribe {"uri":"u:x"}
        << server: #b resources/subscribe {"uri":"u:x"}
        >> server: #b = {}
        << b: 1 = {}
        >> server: notifications/resources/updated {"uri":"u:x/part"}
        << a: notifications/resources/updated {"uri":"u:x/part"}
        << b: notifications/resources/updated {"uri":"u:x/part"}
        >> a: 2 resources/unsubscribe {"uri":"u:x"}
        << a: 2 = {}
        >> server: notifications/resources/updated {"uri":"u:x"}
        << b: notifications/resources/updated {"uri":"u:x"}
        >> server: notifications/resources/updated {"uri":"other"}
        >> left b
        << server: #c resources/unsubscribe {"uri":"u:x"}
        >> server: #c = {}
    """)


def test_log_messages_reach_whoever_is_at_work_from_the_level_that_it_wants() -> None:
    open_pool("""
        >> server: notifications/message {"level":"info","data":1}
        << a: notifications/message {"level":"info","data":1}
        << b: notifications/message {"level":"info","data":1}
        >> a: 1 logging/setLevel {"level":"debug"}
        << server: #a logging/setLevel {"level":"debug"}
        >> server: #a = {}
        << a: 1 = {}
        >> b: 1 logging/setLevel {"level":"error"}
        << server: #b logging/setLevel {"level":"debug"}
        >> server: #b = {}
        << b: 1 = {}
        >> server: notifications/message {"level":"info","data":2}
        << a: notifications/message {"level":"info","data":2}
        >> b: 2 tools/call {"name":"x"}
        << server: #c tools/call {"name":"x"}
        >> server: notifications/message {"level":"info","data":3}
        >> server: notifications/message {"level":"alert","data":4}
        << b: notifications/message {"level":"alert","data":4}
        >> left a
        << server: #d logging/setLevel {"level":"error"}
    """)


def test_questions_about_roots_and_life_are_answered_here() -> None:
    open_pool("""
        >> server: 3 roots/list
        << server: 3 = {"roots":[{"uri":"file:///work/app"}]}
        >> server: 4 ping
        << server: 4 = {}
        >> a: notifications/roots/list_changed
    """)


# Tasks


def test_a_task_belongs_to_the_session_that_got_it() -> None:
    of_task = '{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}'
    open_pool(f"""
        >> a: 1 tools/call {{"name":"x"}}
        << server: #a tools/call {{"name":"x"}}
        >> server: #a = {{"task":{{"taskId":"t","status":"working"}}}}
        << a: 1 = {{"task":{{"taskId":"t","status":"working"}}}}
        >> b: 2 tasks/get {{"taskId":"t"}}
        << b: 2 error -31000 [mcp-launch] several sessions share this server, and this task is another's
        >> b: 3 tasks/cancel {{"taskId":"t"}}
        << b: 3 error -31000 …
        >> b: 4 tasks/list
        << b: 4 error -31000 [mcp-launch] several sessions share this server, so its tasks cannot be listed
        >> a: 2 tasks/get {{"taskId":"t"}}
        << server: #b tasks/get {{"taskId":"t"}}
        >> server: #b = {{"taskId":"t","status":"working"}}
        << a: 2 = {{"taskId":"t","status":"working"}}
        >> server: notifications/tasks/status {{"taskId":"t","status":"working"}}
        << a: notifications/tasks/status {{"taskId":"t","status":"working"}}
        >> b: 5 tools/call {{"name":"y"}}
        << server: #c tools/call {{"name":"y"}}
        >> server: 8 elicitation/create {of_task}
        << a: #q elicitation/create {of_task}
        >> a: #q = {{}}
        << server: 8 = {{}}
        >> left a
        << server: #d tasks/cancel {{"taskId":"t"}}
        >> server: 9 elicitation/create {of_task}
        << server: 9 error -31000 [mcp-launch] the session that this is for has ended
    """)


def test_a_task_that_comes_too_late_for_its_session_is_cancelled() -> None:
    open_pool("""
        >> a: 1 tools/call {"name":"x"}
        << server: #a tools/call {"name":"x"}
        >> left a
        << server: notifications/cancelled {"requestId":#a,"reason":"the session has ended"}
        >> server: #a = {"task":{"taskId":"t","status":"working"}}
        << server: #b tasks/cancel {"taskId":"t"}
    """)


# Fairness


def test_a_session_that_floods_the_server_does_not_stand_before_another() -> None:
    playbook = open_pool()
    for number in range(LIMIT):
        playbook.numbers.pop("#n", None)
        playbook.play(f">> a: {number} tools/call {{}}\n<< server: #n tools/call {{}}")
    first = int(playbook.numbers["#n"]) - LIMIT + 1
    playbook.play(f"""
        >> a: 1000 tools/call {{}}
        >> a: 1001 tools/call {{}}
        >> a: 1002 tools/call {{}}
        >> a: 2000 ping
        << server: #p ping
        >> b: 1 tools/call {{}}
        << server: #b tools/call {{}}
        >> a: notifications/cancelled {{"requestId":1001}}
        >> server: {first} = {{}}
        << a: 0 = {{}}
        >> server: #p = {{}}
        << a: 2000 = {{}}
        << server: #c tools/call {{}}
        >> server: {first + 1} = {{}}
        << a: 1 = {{}}
        << server: #d tools/call {{}}
        >> server: {first + 2} = {{}}
        << a: 2 = {{}}
    """)


def test_a_session_that_sends_too_much_is_not_read_for_a_while() -> None:
    playbook = open_pool(in_flight=1)
    big = f'{{"t":"{"x" * (1 << 19)}"}}'
    playbook.play(f"""
        >> a: 1 tools/call {{}}
        << server: #a tools/call {{}}
        >> a: 2 tools/call {big}
        >> a: 3 tools/call {big}
        << pause a
        >> server: #a = {{}}
        << a: 1 = {{}}
        << server: #b tools/call {big}
        >> server: #b = {{}}
        << a: 2 = {{}}
        << server: #c tools/call {big}
        << resume a
    """)


def test_a_session_that_does_not_read_gets_nothing_more_to_read() -> None:
    open_pool("""
        >> behind a
        >> a: 1 tools/call {"name":"x"}
        >> b: 1 tools/call {"name":"y"}
        << server: #b tools/call {"name":"y"}
        >> caught up a
        << server: #a tools/call {"name":"x"}
    """)


# Ends


def test_a_session_that_has_closed_its_end_gets_its_answers_and_leaves() -> None:
    open_pool("""
        >> a: 1 tools/call {"name":"x"}
        << server: #a tools/call {"name":"x"}
        >> input ended a
        >> server: #a = {}
        << a: 1 = {}
        << leave a: 0
        >> input ended b
        << leave b: 0
    """)


def test_a_session_that_cannot_read_leaves_at_once() -> None:
    open_pool("""
        >> a: 1 tools/call {"name":"x"}
        << server: #a tools/call {"name":"x"}
        >> reader lost a
        << server: notifications/cancelled {"requestId":#a,"reason":"the session has ended"}
        << leave a: 0
    """)


def test_a_dead_servers_sessions_get_back_what_it_has_not_read() -> None:
    open_pool("""
        >> a: 1 tools/call {"name":"x"}
        << server: #a tools/call {"name":"x"}
        >> b: 1 tools/call {"name":"y"}
        << server: #b tools/call {"name":"y"}
        >> died server 3 | #b tools/call {"name":"y"}
        << return to b: 1 tools/call {"name":"y"}
        << leave a: 3
        << leave b: 3
    """)


def test_a_session_hears_why_its_server_was_ended() -> None:
    open_pool("""
        >> overflowed server
        << end server: input ended
        >> died server 143
        << tell a: the shared server was ended, because it wrote a line of more than 256 MB
        << leave a: 143
        << tell b: the shared server was ended, because it wrote a line of more than 256 MB
        << leave b: 143
    """)


def test_a_greeting_that_a_dead_server_may_have_read_is_not_given_back() -> None:
    make_pool(greeting="").play(f"""
        >> joined a
        << start server
        >> started server
        >> joined b
        >> a: 0 initialize {HELLO}
        << server: #h initialize {HELLO}
        >> b: 0 initialize {HELLO}
        >> died server 1
        << return to b: 0 initialize {HELLO}
        << leave a: 1
        << leave b: 1
    """)


def test_a_greeting_of_a_server_that_was_killed_is_given_back() -> None:
    make_pool(greeting="").play(f"""
        >> joined a
        << start server
        >> started server
        >> a: 0 initialize {HELLO}
        << server: #h initialize {HELLO}
        >> died server 137
        << return to a: 0 initialize {HELLO}
        << leave a: 137
    """)


# A launch whose server is shared


def test_a_launch_whose_servers_die_of_others_before_its_greeting_tries_the_next() -> None:
    """Each is started for all, and dies before this launch has said a word to it."""
    playbook = Playbook(is_shared=True, greeting="")
    playbook.play(f"""
        >> started server
        >> host: 0 initialize {HELLO}
        << server: #a initialize {HELLO}
    """)
    for _ in range(2):
        number = playbook.numbers.pop("#a").decode()
        playbook.play(f"""
            >> died server 137 | {number} initialize {HELLO}
            << start server
            >> started server
            << server: #a initialize {HELLO}
        """)
    playbook.play(f"""
        >> server: #a = {OFFERED}
        << server: notifications/initialized
        << host: 0 = {OFFERED}
    """)


def test_a_launch_that_waits_for_nothing_starts_no_other_shared_server() -> None:
    playbook = Playbook(is_shared=True)
    playbook.play(f"""
        >> started server
        >> host: 0 initialize {HELLO}
        << host: 0 = {OFFERED}
        >> died server 3
        >> host: 1 tools/call {{}}
        << start server
    """)

    assert playbook.server.history.deaths == []
