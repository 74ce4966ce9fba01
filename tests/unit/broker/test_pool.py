"""Several hosts share a server, and nothing of one reaches another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from broker_playbooks import Playbook

from mcp_launch.broker.commands import SetTimer
from mcp_launch.broker.pool import Pool
from mcp_launch.broker.pool.client_lines import IN_FLIGHT_LIMIT

if TYPE_CHECKING:
    from mcp_launch.broker import Broker
    from mcp_launch.broker.commands import Settings

ROOTS: dict[str, Any] = {"roots": [{"uri": "file:///work/app"}]}
STREAM = "io.modelcontextprotocol/subscriptionId"
MODERN = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
HELLO = '{"protocolVersion":"2025-06-18","capabilities":{}}'

BOTH = f"""
    >> join a
    << start server
    >> started server
    >> a: 0 initialize {HELLO}
    << server: 2000000001 initialize {HELLO}
    >> server: 2000000001 = {{"protocolVersion":"2025-06-18"}}
    << a: 0 = {{"protocolVersion":"2025-06-18"}}
    >> a: notifications/initialized
    << server: notifications/initialized
    >> join b
    >> b: 0 initialize {HELLO}
    << b: 0 = {{"protocolVersion":"2025-06-18"}}
    >> b: notifications/initialized
"""


class PoolPlaybook(Playbook):
    """A playbook of connections that come and go."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(connections=(), backends=(), **settings)

    def make_broker(self, settings: Settings) -> Broker:
        return Pool(settings, self.first, ROOTS)


def open_pool() -> PoolPlaybook:
    """Return a playbook of two connections that share a server."""
    playbook = PoolPlaybook()
    playbook.play(BOTH)
    return playbook


# The ten tests that pools of others fail


def test_the_same_id_from_two_sessions() -> None:
    open_pool().play("""
        >> a: 1 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
        >> b: 1 tools/call {"name":"y"}
        << server: 2 tools/call {"name":"y"}
        >> server: 2 = {"of":"b"}
        << b: 1 = {"of":"b"}
        >> server: 1 = {"of":"a"}
        << a: 1 = {"of":"a"}
    """)


def test_the_same_progress_token_from_two_sessions() -> None:
    open_pool().play("""
        >> a: 1 tools/call {"_meta":{"progressToken":7}}
        << server: 1 tools/call {"_meta":{"progressToken":1}}
        >> b: 1 tools/call {"_meta":{"progressToken":7}}
        << server: 2 tools/call {"_meta":{"progressToken":2}}
        >> server: notifications/progress {"progressToken":2,"progress":1}
        << b: notifications/progress {"progressToken":7,"progress":1}
        >> server: notifications/progress {"progressToken":1,"progress":1}
        << a: notifications/progress {"progressToken":7,"progress":1}
        >> server: 2 = {}
        << b: 1 = {}
        >> server: notifications/progress {"progressToken":2,"progress":2}
    """)


def test_one_session_cancels_an_id_that_the_other_also_has() -> None:
    open_pool().play("""
        >> a: 9 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
        >> b: 9 tools/call {"name":"y"}
        << server: 2 tools/call {"name":"y"}
        >> a: notifications/cancelled {"requestId":9}
        << server: notifications/cancelled {"requestId":1}
        >> server: 1 = {"late":true}
        >> server: 2 = {}
        << b: 9 = {}
    """)


@pytest.mark.parametrize("key", [r'"a\"b\\c"', "9007199254740993", '"\\u0061"', "1e2", '""'])
def test_an_id_comes_back_as_it_was_written(key: str) -> None:
    asked = f'{{"jsonrpc":"2.0","id":{key},"method":"tools/call","params":{{"name":"x"}}}}'
    answer = f'{{"jsonrpc":"2.0","id":{key},"result":{{}}}}\n'.encode()
    open_pool().play(f"""
        >> a: {asked}
        << server: 1 tools/call {{"name":"x"}}
        >> server: 1 = {{}}
        << a: {answer!r}
    """)


def test_an_answer_after_its_asker_left_reaches_nobody() -> None:
    open_pool().play("""
        >> a: 5 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
        >> leave a
        << server: notifications/cancelled {"requestId":1,"reason":"the session has ended"}
        >> b: 5 tools/call {"name":"y"}
        << server: 2 tools/call {"name":"y"}
        >> server: 1 = {"of":"a"}
        >> server: notifications/progress {"progressToken":1,"progress":1}
        >> server: 2 = {"of":"b"}
        << b: 5 = {"of":"b"}
    """)


def test_a_request_of_the_server_goes_to_the_one_session_at_work_or_is_refused() -> None:
    open_pool().play("""
        >> a: 1 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
        >> server: 5 sampling/createMessage
        << a: "mcp-launch/L/1" sampling/createMessage
        >> b: "mcp-launch/L/1" = {"from":"b"}
        >> a: "mcp-launch/L/1" = {"from":"a"}
        << server: 5 = {"from":"a"}
        >> b: 1 tools/call {"name":"y"}
        << server: 2 tools/call {"name":"y"}
        >> server: 6 sampling/createMessage
        << server: 6 error -31000 [mcp-launch] several sessions share this server, and the request …
        >> server: 1 = {}
        << a: 1 = {}
        >> server: 2 = {}
        << b: 1 = {}
        >> server: 7 elicitation/create
        << server: 7 error -31000 …
    """)


def test_the_end_of_a_sessions_input_ends_its_connection_and_no_other() -> None:
    open_pool().play("""
        >> a: 1 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
        >> host closed a
        >> server: 1 = {}
        << a: 1 = {}
        << end a: 0
        >> b: 1 tools/call {"name":"y"}
        << server: 2 tools/call {"name":"y"}
        >> host closed b
        >> server: 2 = {}
        << b: 1 = {}
        << end b: 0
    """)


def test_another_protocol_version_or_capability_gets_a_server_of_its_own() -> None:
    other = HELLO.replace("06-18", "11-25")
    playbook = open_pool()
    playbook.play(f"""
        >> join c
        >> c: 0 initialize {other}
        << start server-2
        >> c: 1 ping
        >> started server-2
        << server-2: 2000000002 initialize {other}
        >> server-2: 2000000002 = {{"protocolVersion":"2025-11-25"}}
        << c: 0 = {{"protocolVersion":"2025-11-25"}}
        << server-2: 1 ping
        >> c: 1 tools/call {{"name":"z"}}
        << server-2: 2 tools/call {{"name":"z"}}
        >> a: 1 tools/call {{"name":"x"}}
        << server: 1 tools/call {{"name":"x"}}
        >> leave c
        << server-2: notifications/cancelled {{"requestId":1,"reason":"the session has ended"}}
        << server-2: notifications/cancelled {{"requestId":2,"reason":"the session has ended"}}
        << close input of server-2
        << end server-2: replaced
        >> gone server-2
        >> server: 1 = {{}}
        << a: 1 = {{}}
    """)


# Greetings


def test_greetings_wait_for_the_first_one() -> None:
    PoolPlaybook().play(f"""
        >> join a
        << start server
        >> join b
        >> a: 0 initialize {HELLO}
        >> b: 7 initialize {HELLO}
        >> started server
        << server: 2000000001 initialize {HELLO}
        >> join c
        >> c: "x" initialize {HELLO}
        >> leave a
        >> server: 2000000001 = {{"v":1}}
        << b: 7 = {{"v":1}}
        << c: "x" = {{"v":1}}
        >> c: notifications/initialized
        << server: notifications/initialized
        >> b: notifications/initialized
    """)


def test_a_refused_greeting_is_tried_again_by_the_next_session() -> None:
    PoolPlaybook().play(f"""
        >> join a
        << start server
        >> started server
        >> a: 0 initialize {HELLO}
        << server: 2000000001 initialize {HELLO}
        >> server: 2000000001 error -32602 not now
        << a: 0 error -32602 not now
        >> join b
        >> b: 0 initialize {HELLO}
        << server: 2000000002 initialize {HELLO}
    """)


DISCOVERY = f"server/discover {{{MODERN}}}"


def test_a_discovery_that_was_refused_is_not_sent_to_a_server_of_the_older_era() -> None:
    PoolPlaybook().play(f"""
        >> join a
        << start server
        >> started server
        >> a: 0 {DISCOVERY}
        << server: 1 {DISCOVERY}
        >> server: 1 error -32601 Method not found
        << a: 0 error -32601 Method not found
        >> a: 1 initialize {HELLO}
        << server: 2000000001 initialize {HELLO}
        >> server: 2000000001 = {{}}
        << a: 1 = {{}}
        >> join b
        >> b: 8 {DISCOVERY}
        << b: 8 error -32601 Method not found
        >> b: 9 initialize {HELLO}
        << b: 9 = {{}}
    """)


def test_a_discovery_that_is_not_known_yet_cannot_harm_a_server_of_the_older_era() -> None:
    open_pool().play(f"""
        >> join c
        >> c: 0 {DISCOVERY}
        << start server-2
        >> started server-2
        << server-2: 1 {DISCOVERY}
        >> exited server-2 1
        >> gone server-2
        << end c: 1
        >> join d
        >> d: 3 {DISCOVERY}
        << d: 3 error -32601 Method not found
        >> d: 4 initialize {HELLO}
        << d: 4 = {{"protocolVersion":"2025-06-18"}}
    """)


def test_sessions_of_the_newer_era_share_without_a_greeting() -> None:
    PoolPlaybook().play(f"""
        >> join a
        << start server
        >> started server
        >> a: 0 {DISCOVERY}
        << server: 1 {DISCOVERY}
        >> server: 1 = {{"supportedVersions":[]}}
        << a: 0 = {{"supportedVersions":[]}}
        >> a: 1 tools/call {{{MODERN}}}
        << server: 2 tools/call {{{MODERN}}}
        >> join b
        >> b: 0 {DISCOVERY}
        << b: 0 = {{"supportedVersions":[]}}
        >> b: 1 tools/call {{{MODERN}}}
        << server: 3 tools/call {{{MODERN}}}
    """)


# Notifications


def test_the_ids_of_streams_are_each_sessions_own() -> None:
    open_pool().play(f"""
        >> a: 1 subscriptions/listen
        << server: 1 subscriptions/listen
        >> b: 1 subscriptions/listen
        << server: 2 subscriptions/listen
        >> server: notifications/subscriptions/acknowledged {{"_meta":{{"{STREAM}":2}}}}
        << b: notifications/subscriptions/acknowledged {{"_meta":{{"{STREAM}":1}}}}
        >> server: notifications/tools/list_changed {{"_meta":{{"{STREAM}":1}}}}
        << a: notifications/tools/list_changed {{"_meta":{{"{STREAM}":1}}}}
        >> server: 2 = {{"_meta":{{"{STREAM}":2}}}}
        << b: 1 = {{"_meta":{{"{STREAM}":1}}}}
    """)


def test_changed_lists_reach_all_and_updates_only_the_subscribers() -> None:
    open_pool().play("""
        >> server: notifications/tools/list_changed
        << a: notifications/tools/list_changed
        << b: notifications/tools/list_changed
        >> a: 1 resources/subscribe {"uri":"u:x"}
        << server: 1 resources/subscribe {"uri":"u:x"}
        >> server: 1 = {}
        << a: 1 = {}
        >> server: notifications/resources/updated {"uri":"u:x"}
        << a: notifications/resources/updated {"uri":"u:x"}
        >> b: 1 resources/subscribe {"uri":"u:x"}
        << b: 1 = {}
        >> server: notifications/resources/updated {"uri":"u:x/part"}
        << a: notifications/resources/updated {"uri":"u:x/part"}
        << b: notifications/resources/updated {"uri":"u:x/part"}
        >> a: 2 resources/unsubscribe {"uri":"u:x"}
        << a: 2 = {}
        >> server: notifications/resources/updated {"uri":"u:x"}
        << b: notifications/resources/updated {"uri":"u:x"}
        >> server: notifications/resources/updated {"uri":"other"}
        >> leave b
        << server: 2000000002 resources/unsubscribe {"uri":"u:x"}
        >> server: 2000000002 = {}
    """)


def test_what_the_server_refuses_is_asked_for_again_by_the_next_session() -> None:
    open_pool().play("""
        >> a: 1 resources/subscribe {"uri":"u:x"}
        << server: 1 resources/subscribe {"uri":"u:x"}
        >> server: 1 error -32602 no
        << a: 1 error -32602 no
        >> b: 1 resources/subscribe {"uri":"u:x"}
        << server: 2 resources/subscribe {"uri":"u:x"}
        >> a: 2 logging/setLevel {"level":"debug"}
        << server: 3 logging/setLevel {"level":"debug"}
        >> server: 3 error -32601 no
        << a: 2 error -32601 no
        >> b: 2 logging/setLevel {"level":"debug"}
        << server: 4 logging/setLevel {"level":"debug"}
    """)


def test_a_resource_with_a_longer_name_is_not_a_part_of_another() -> None:
    open_pool().play("""
        >> a: 1 resources/subscribe {"uri":"file:///a/b"}
        << server: 1 resources/subscribe {"uri":"file:///a/b"}
        >> server: 1 = {}
        << a: 1 = {}
        >> server: notifications/resources/updated {"uri":"file:///a/bc"}
        >> server: notifications/resources/updated {"uri":"file:///a/b/c"}
        << a: notifications/resources/updated {"uri":"file:///a/b/c"}
    """)


def test_log_messages_reach_whoever_is_at_work_from_the_level_that_it_wants() -> None:
    open_pool().play("""
        >> server: notifications/message {"level":"info","data":1}
        << a: notifications/message {"level":"info","data":1}
        << b: notifications/message {"level":"info","data":1}
        >> a: 1 logging/setLevel {"level":"debug"}
        << server: 1 logging/setLevel {"level":"debug"}
        >> server: 1 = {}
        << a: 1 = {}
        >> b: 1 logging/setLevel {"level":"error"}
        << b: 1 = {}
        >> server: notifications/message {"level":"info","data":2}
        << a: notifications/message {"level":"info","data":2}
        >> b: 2 tools/call {"name":"x"}
        << server: 2 tools/call {"name":"x"}
        >> server: notifications/message {"level":"info","data":3}
        >> server: notifications/message {"level":"alert","data":4}
        << b: notifications/message {"level":"alert","data":4}
        >> leave a
        << server: 2000000002 logging/setLevel {"level":"error"}
    """)


def test_questions_about_roots_and_life_are_answered_here() -> None:
    open_pool().play("""
        >> server: 3 roots/list
        << server: 3 = {"roots":[{"uri":"file:///work/app"}]}
        >> server: 4 ping
        << server: 4 = {}
        >> a: notifications/roots/list_changed
    """)


# Tasks


def test_a_task_belongs_to_the_session_that_got_it() -> None:
    of_task = '{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}'
    playbook = open_pool()
    playbook.play("""
        >> a: 1 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
        >> server: 1 = {"task":{"taskId":"t","status":"working"}}
        << a: 1 = {"task":{"taskId":"t","status":"working"}}
        >> b: 2 tasks/get {"taskId":"t"}
        << b: 2 error -31000 [mcp-launch] several sessions share this server, and this task …
        >> b: 3 tasks/cancel {"taskId":"t"}
        << b: 3 error -31000 …
        >> b: 4 tasks/list
        << b: 4 error -31000 [mcp-launch] several sessions share this server, so its tasks …
        >> a: 2 tasks/get {"taskId":"t"}
        << server: 2 tasks/get {"taskId":"t"}
        >> server: 2 = {"taskId":"t","status":"working"}
        << a: 2 = {"taskId":"t","status":"working"}
        >> server: notifications/tasks/status {"taskId":"t","status":"working"}
        << a: notifications/tasks/status {"taskId":"t","status":"working"}
        >> b: 5 tools/call {"name":"y"}
        << server: 3 tools/call {"name":"y"}
    """)
    playbook.play(f"""
        >> server: 8 elicitation/create {of_task}
        << a: "mcp-launch/L/1" elicitation/create {of_task}
    """)
    playbook.play("""
        >> a: "mcp-launch/L/1" = {}
        << server: 8 = {}
        >> leave a
        << server: 2000000002 tasks/cancel {"taskId":"t"}
    """)


# Fairness


def test_a_session_that_floods_the_server_does_not_stand_before_another() -> None:
    playbook = open_pool()
    for number in range(IN_FLIGHT_LIMIT):
        playbook.play(f"""
            >> a: {number} tools/call {{}}
            << server: {number + 1} tools/call {{}}
        """)
    following = IN_FLIGHT_LIMIT + 1
    playbook.play(f"""
        >> a: 1000 tools/call {{}}
        >> a: 1001 tools/call {{}}
        >> a: 1002 tools/call {{}}
        >> b: 1 tools/call {{}}
        << server: {following} tools/call {{}}
        >> a: notifications/cancelled {{"requestId":1001}}
        >> server: 1 = {{}}
        << a: 0 = {{}}
        << server: {following + 1} tools/call {{}}
        >> server: 2 = {{}}
        << a: 1 = {{}}
        << server: {following + 2} tools/call {{}}
        >> server: 3 = {{}}
        << a: 2 = {{}}
    """)


def test_a_session_with_too_much_waiting_is_not_read_for_a_while() -> None:
    playbook = open_pool()
    for number in range(IN_FLIGHT_LIMIT):
        playbook.play(f"""
            >> a: {number} tools/call {{}}
            << server: {number + 1} tools/call {{}}
        """)
    long = "x" * (600 << 10)
    playbook.play(f"""
        >> a: 1000 tools/call {{"name":"{long}"}}
        >> a: 1001 tools/call {{"name":"{long}"}}
        << pause a
        >> server: 1 = {{}}
        << a: 0 = {{}}
        << server: {IN_FLIGHT_LIMIT + 1} tools/call {{"name":"{long}"}}
        >> server: 2 = {{}}
        << a: 1 = {{}}
        << server: {IN_FLIGHT_LIMIT + 2} tools/call {{"name":"{long}"}}
        << resume a
    """)


# Ends


def test_a_greeting_that_a_dead_server_may_have_read_is_not_given_back() -> None:
    playbook = PoolPlaybook()
    playbook.play(f"""
        >> join a
        << start server
        >> started server
        >> join b
        >> a: 0 initialize {HELLO}
        << server: 2000000001 initialize {HELLO}
        >> b: 0 initialize {HELLO}
        >> exited server 1
        >> gone server
        << unread of b: 0 initialize {HELLO}
        << end a: 1
        << end b: 1
    """)


def test_a_greeting_of_a_server_that_was_killed_is_given_back() -> None:
    playbook = PoolPlaybook()
    playbook.play(f"""
        >> join a
        << start server
        >> started server
        >> a: 0 initialize {HELLO}
        << server: 2000000001 initialize {HELLO}
        >> exited server 137
        >> gone server
        << unread of a: 0 initialize {HELLO}
        << end a: 137
    """)


def test_a_session_that_leaves_takes_only_its_own_requests_with_it() -> None:
    open_pool().play("""
        >> a: 1 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
        >> server: 5 sampling/createMessage
        << a: "mcp-launch/L/1" sampling/createMessage
        >> b: 1 tools/call {"name":"y"}
        << server: 2 tools/call {"name":"y"}
        >> leave a
        << server: notifications/cancelled {"requestId":1,"reason":"the session has ended"}
        << server: 5 error -31000 [mcp-launch] the session that was asked has ended
        >> server: 2 = {}
        << b: 1 = {}
    """)


def test_every_session_of_a_dead_server_gets_back_what_was_not_read() -> None:
    open_pool().play("""
        >> a: 1 tools/call {"name":"read"}
        << server: 1 tools/call {"name":"read"}
        >> b: 1 tools/call {"name":"unread"}
        << server: 2 tools/call {"name":"unread"}
        >> exited server 7
        >> gone server | 2 tools/call {"name":"unread"}
        << unread of b: 1 tools/call {"name":"unread"}
        << end a: 7
        << end b: 7
        >> join c
        << start server-2
    """)


def test_a_server_that_cannot_be_started_ends_its_connections() -> None:
    PoolPlaybook().play(f"""
        >> join a
        << start server
        >> a: 0 initialize {HELLO}
        >> start failed server
        << unread of a: 0 initialize {HELLO}
        << end a: 0
    """)


def test_a_server_without_connections_says_nothing_to_nobody() -> None:
    open_pool().play("""
        >> leave a
        >> leave b
        >> server: notifications/tools/list_changed
        >> server: 5 sampling/createMessage
        << server: 5 error -31000 …
        >> server: b'noise\\n'
        >> output closed by server
        >> exited server 0
        >> gone server
    """)


def test_noise_reaches_every_launch_which_knows_what_to_do_with_it() -> None:
    open_pool().play("""
        >> server: b'noise\\n'
        << a: b'noise\\n'
        << b: b'noise\\n'
    """)


# A launch


def test_a_launch_whose_servers_die_of_others_before_its_greeting_tries_the_next() -> None:
    """Each is started for all, and dies before this launch has said a word to it."""
    playbook = Playbook(is_shared=True)
    playbook.play(f"""
        >> started server
        >> host: 0 initialize {HELLO}
        << server: 0 initialize {HELLO}
    """)
    for _ in range(2):
        playbook.play(f"""
            >> exited server 137
            >> gone server | 0 initialize {HELLO}
            << start server
            >> started server
            << server: 0 initialize {HELLO}
        """)
    playbook.play("""
        >> server: 0 = {}
        << host: 0 = {}
    """)


def test_a_host_need_not_wait_for_the_answer_to_its_greeting() -> None:
    PoolPlaybook().play(f"""
        >> join a
        << start server
        >> started server
        >> a: 0 initialize {HELLO}
        << server: 2000000001 initialize {HELLO}
        >> a: notifications/initialized
        >> a: 1 tools/list
        >> server: 2000000001 = {{}}
        << a: 0 = {{}}
        << server: notifications/initialized
        << server: 1 tools/list
    """)


def test_a_session_that_says_nothing_does_not_hide_that_the_server_is_dying() -> None:
    playbook = PoolPlaybook()
    playbook.play(f"""
        >> join a
        << start server
        >> started server
        >> join b
        >> b: 0 initialize {HELLO}
        << server: 2000000001 initialize {HELLO}
        >> server: 2000000001 = {{}}
        << b: 0 = {{}}
    """)

    playbook.broker.server_closed_input("server")

    timers = [one for one in playbook.broker.take_commands() if isinstance(one, SetTimer)]
    assert [timer.name for timer in timers] == ["input server"]


@pytest.mark.parametrize(
    ("event", "cancelled"),
    [
        ("leave a", '{"requestId":2,"reason":"the session has ended"}'),
        ('a: notifications/cancelled {"requestId":1}', '{"requestId":2}'),
    ],
)
def test_a_question_about_a_call_that_nobody_waits_for_reaches_nobody(
    event: str, cancelled: str
) -> None:
    playbook = open_pool()
    playbook.play("""
        >> b: 7 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
    """)
    refusal = "[mcp-launch] this may be for a session that has ended or cancelled its request"
    playbook.play(f"""
        >> a: 1 tools/call {{"name":"x"}}
        << server: 2 tools/call {{"name":"x"}}
        >> {event}
        << server: notifications/cancelled {cancelled}
        >> server: 9 elicitation/create {{"message":"a's password?"}}
        << server: 9 error -31000 {refusal}
        >> server: 2 = {{}}
        >> server: 9 elicitation/create {{"message":"b's?"}}
        << b: "mcp-launch/L/1" elicitation/create {{"message":"b's?"}}
    """)


def test_a_call_that_a_session_gave_up_does_not_keep_questions_from_it() -> None:
    open_pool().play("""
        >> a: 1 tools/call {"name":"x"}
        << server: 1 tools/call {"name":"x"}
        >> a: notifications/cancelled {"requestId":1}
        << server: notifications/cancelled {"requestId":1}
        >> a: 2 tools/call {"name":"x"}
        << server: 2 tools/call {"name":"x"}
        >> server: 9 elicitation/create {"message":"?"}
        << a: "mcp-launch/L/1" elicitation/create {"message":"?"}
    """)


def test_a_session_keeps_its_tasks_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcp_launch.broker.rest._TASKS_LIMIT", 2)
    playbook = open_pool()
    for number in range(1, 5):
        task = f'{{"taskId":"t{number}","status":"working"}}'
        playbook.play(f"""
            >> a: {number} tools/call {{"name":"x"}}
            << server: {number} tools/call {{"name":"x"}}
            >> server: {number} = {{"task":{task}}}
            << a: {number} = {{"task":{task}}}
        """)

    playbook.play("""
        >> a: 9 tasks/get {"taskId":"t4"}
        << server: 5 tasks/get {"taskId":"t4"}
    """)
    backend = playbook.broker.backends["server"]
    assert backend.task_hosts.keys() == backend.tasks == {"t3", "t4"}


# Calls and answers that are passed without being parsed


def test_a_line_that_is_cut_off_is_not_passed() -> None:
    pool = open_pool().broker
    assert isinstance(pool, Pool)
    call = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":{"progressToken":7\n'

    assert pool.pass_call("a", call) is None


@pytest.mark.parametrize(
    ("params", "passed"),
    [
        ('"name":"x"', '"name":"x"'),
        ('"_meta":{"progressToken":7}', '"_meta":{"progressToken":1}'),
        ('"_meta":{"a":1,"progressToken":"t 1"}', '"_meta":{"a":1,"progressToken":1}'),
        ('"_meta":{"progressToken":1.0}', None),
        ('"_meta":{"progressToken": 7}', None),
        ('"_meta":{"a":{"b":{}},"progressToken":7}', '"_meta":{"a":{"b":{}},"progressToken":1}'),
        ('"_meta":{"a":"}","progressToken":7}', '"_meta":{"a":"}","progressToken":1}'),
        ('"name":"x","_meta":{"progressToken":7}', '"name":"x","_meta":{"progressToken":1}'),
        ('"_meta":{"a":{"progressToken":7}}', None),
        ('"_meta":{"a":[{"progressToken":7}]}', None),
        ('"_meta":{"a":"}","b":{"progressToken":7}}', None),
        ('"_meta":{"a":"}{"},"arguments":{"b":"}{","progressToken":7}', None),
        ('"_meta":{"a":1},"arguments":{"progressToken":7}', None),
        ('"_meta":{"progressToken":[7,8]}', None),
        ('"_meta":{"progressToken":true}', None),
        (r'"_meta":{"a":"{\"progressToken\":7"}', None),
        (r'"_meta":{"a":",\"progressToken\":7,"}', None),
        ('"arguments":{"progressToken":7}', None),
        ('"_meta":{"progressToken":7},"arguments":{"x":"progressToken"}', None),
        ('"_meta":{"progressToken":"\\u0041"}', None),
        ('"arguments":{"id":1}', None),
    ],
)
def test_only_a_call_that_can_be_understood_is_not_parsed(params: str, passed: str | None) -> None:
    pool = open_pool().broker
    assert isinstance(pool, Pool)
    call = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{%s}}\n'

    sent = pool.pass_call("a", (call % (5, params)).encode())

    assert sent == (passed and ("server", (call % (1, passed)).encode()))
    if passed:
        answer = pool.pass_answer("server", b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
        assert answer == ("a", b'{"jsonrpc":"2.0","id":5,"result":{}}\n')
        requests = pool.backends["server"].requests
        assert not requests.open
        assert not requests.tokens
