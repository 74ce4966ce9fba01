"""Several hosts share a server, and nothing of one reaches another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from broker_playbooks import Playbook

from mcp_launch.broker.pool import Pool
from mcp_launch.broker.pool.client_lines import IN_FLIGHT_LIMIT

if TYPE_CHECKING:
    from mcp_launch.broker import Broker
    from mcp_launch.broker.commands import Settings

ROOTS: dict[str, Any] = {"roots": [{"uri": "file:///work/app"}]}
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


# Calls and answers that are passed without being parsed
