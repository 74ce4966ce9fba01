"""A server that dies, or has to give way, is followed by another; nothing is done twice."""

# ruff: noqa: E501  # what hosts are told is compared word for word

from __future__ import annotations

import pytest
from core_playbooks import META, OFFERED, TOOLS, Playbook, open_playbook

from mcp_launch.broker.succession import DEATHS_LIMIT

OPEN_CALL = """
    >> host: 1 tools/call {"name":"x"}
    << server: #a tools/call {"name":"x"}
"""
DISCOVERY = f'server/discover {{"_meta":{META}}}'


# Death


def test_what_was_read_gets_an_error_and_what_was_not_goes_to_the_next_server() -> None:
    open_playbook("""
        >> host: 1 tools/call {"name":"begun"}
        << server: #a tools/call {"name":"begun"}
        >> host: 2 ping
        << server: #b ping
        >> host: 3 tools/call {"_meta":{"progressToken":"p"},"name":"unread"}
        << server: #c tools/call {"_meta":{"progressToken":#c},"name":"unread"}
        >> died server 139 | #c tools/call {"_meta":{"progressToken":#c},"name":"unread"}
        << host: 1 refused [mcp-launch] srv was killed by signal 11 while it was at work; tools/call was not answered, but it may have taken effect — fix: check before you repeat it
        << host: 2 error -31000 [mcp-launch] srv … ping was not answered, …
        << start server
        >> host: 4 ping
        << host: 4 = {}
        >> host: 5 prompts/get
        >> started server
        << server: #c tools/call {"_meta":{"progressToken":#c},"name":"unread"}
        << server: #e prompts/get
        >> server: #c = {}
        << host: 3 = {}
    """)


def test_a_modern_host_gets_a_complete_result() -> None:
    open_playbook(f"""
        >> host: 1 tools/call {{"_meta":{META},"name":"x"}}
        << server: #a tools/call {{"_meta":{META},"name":"x"}}
        >> gone server
        << host: {{"jsonrpc":"2.0","id":1,"result":{{"content":…"resultType":"complete"}}}}
        << start server
    """)


def test_messages_that_concern_only_the_last_server_are_not_repeated() -> None:
    open_playbook("""
        >> host: notifications/x
        << server: notifications/x
        >> gone server | notifications/progress {"progressToken":1} | notifications/x | 9 = {}
        << start server
        >> started server
        << server: notifications/x
    """)


def test_an_idle_server_that_dies_is_started_again_at_once() -> None:
    playbook = open_playbook(">> died server 3\n<< start server")

    assert "the server ended with exit code 3 while it was idle" in playbook.notes


def test_a_server_that_died_is_started_again_by_the_next_call_only_if_that_is_asked_for() -> None:
    open_playbook(
        """
        >> died server 3
        >> host: 1 tools/call {}
        << start server
        """,
        starts_when_called=True,
    )


def test_a_server_that_dies_now_and_then_is_started_again() -> None:
    playbook = open_playbook()
    for _ in range(2 * DEATHS_LIMIT):
        playbook.play(f"""
            >> after {60 / DEATHS_LIMIT}
            >> gone server
            << start server
            >> started server
        """)


def test_a_server_that_dies_again_and_again_is_left_to_a_later_call() -> None:
    playbook = open_playbook(OPEN_CALL)
    call = '#a tools/call {"name":"x"}'
    for _ in range(DEATHS_LIMIT):
        playbook.play(f"""
            >> died server 3 | {call}
            << start server
            >> started server
            << server: {call}
        """)
    playbook.play(f"""
        >> died server 3 | {call}
        << tell : srv died 4 times within a minute: it is started again by a later call
        << host: 1 refused [mcp-launch] srv ended with exit code 3 while it was at work; it has …
        >> host: 2 tools/call {{}}
        << host: 2 refused …it has died 4 times within a minute … after that, call again …
        >> after 1
        >> host: 3 tools/call {{}}
        << start server
        >> started server
        << server: #c tools/call {{}}
    """)


def test_a_server_that_cannot_be_planned_anew_is_started_as_the_last_one_was() -> None:
    playbook = open_playbook()
    playbook.plan_problem = "no such variable"
    playbook.play(">> died server 3\n<< start server")

    assert "started as the last one was: no such variable" in playbook.notes


def test_the_next_server_has_the_settings_of_the_last() -> None:
    open_playbook("""
        >> host: 1 logging/setLevel {"level":"debug"}
        << server: #a logging/setLevel {"level":"debug"}
        >> server: #a = {}
        << host: 1 = {}
        >> host: 2 resources/subscribe {"uri":"u"}
        << server: #b resources/subscribe {"uri":"u"}
        >> server: #b = {}
        << host: 2 = {}
        >> host: 3 resources/subscribe {"uri":"v"}
        << server: #c resources/subscribe {"uri":"v"}
        >> server: #c error -1 no
        << host: 3 error -1 no
        >> gone server
        << start server
        >> started server
        << server: #d logging/setLevel {"level":"debug"}
        << server: #e resources/subscribe {"uri":"u"}
        >> server: #d = {}
        >> server: #e = {}
        >> host: 4 resources/unsubscribe {"uri":"u"}
        << server: #f resources/unsubscribe {"uri":"u"}
        >> gone server
        << host: 4 error -31000 …
        << start server
        >> started server
        << server: #g logging/setLevel {"level":"debug"}
    """)


def test_a_host_that_has_other_lists_than_the_next_server_is_told() -> None:
    playbook = open_playbook(f"""
        >> host: 1 tools/list
        << server: #a tools/list
        >> server: #a = {TOOLS}
        << host: 1 = {TOOLS}
    """)
    for tools, told in (
        (TOOLS, ""),
        ('{"tools":[{"name":"y"}]}', "<< host: notifications/tools/list_changed"),
        ('{"tools":[{"name":"y"}]}', ""),
    ):
        playbook.numbers.clear()
        playbook.play(f"""
            >> gone server
            << start server
            >> started server
            << server: #b tools/list
            >> server: #b = {tools}
            {told}
        """)


def test_a_list_of_several_pages_is_compared_page_by_page() -> None:
    open_playbook("""
        >> host: 1 tools/list
        << server: #a tools/list
        >> server: #a = {"tools":[{"name":"x"}],"nextCursor":"2"}
        << host: 1 = {"tools":[{"name":"x"}],"nextCursor":"2"}
        >> host: 2 tools/list {"cursor":"2"}
        << server: #b tools/list {"cursor":"2"}
        >> server: #b = {"tools":[{"name":"y"}]}
        << host: 2 = {"tools":[{"name":"y"}]}
        >> gone server
        << start server
        >> started server
        << server: #c tools/list
        >> server: #c = {"tools":[{"name":"x"}],"nextCursor":"other"}
        << server: {"params":{"cursor":"other"},…"id":#d,…
        >> server: #d = {"tools":[]}
        << host: notifications/tools/list_changed
    """)


# Streams of the newer era


def test_a_stream_goes_on_with_the_next_server_and_hears_of_other_tools() -> None:
    stream = '"s" subscriptions/listen {"notifications":{"toolsListChanged":true}}'
    named = '"_meta":{"io.modelcontextprotocol/subscriptionId":'
    Playbook().play(f"""
        >> started server
        >> host: 0 {DISCOVERY}
        << server: #z {DISCOVERY}
        >> server: #z = {OFFERED}
        << host: 0 = {OFFERED}
        >> host: {stream}
        << server: #s subscriptions/listen {{"notifications":{{"toolsListChanged":true}}}}
        >> server: notifications/subscriptions/acknowledged {{{named}#s}}}}
        << host: notifications/subscriptions/acknowledged {{{named}"s"}}}}
        >> server: notifications/tools/list_changed {{{named}#s}}}}
        << host: notifications/tools/list_changed {{{named}"s"}}}}
        >> host: 1 tools/list
        << server: #a tools/list
        >> server: #a = {{"tools":[]}}
        << host: 1 = {{"tools":[]}}
        >> gone server
        << start server
        >> started server
        << server: #s subscriptions/listen {{"notifications":{{"toolsListChanged":true}}}}
        << server: #b tools/list
        >> server: notifications/subscriptions/acknowledged {{{named}#s}}}}
        >> server: #b = {TOOLS}
        << host: notifications/tools/list_changed {{{named}"s"}}}}
        >> host: notifications/cancelled {{"requestId":"s"}}
        << server: notifications/cancelled {{"requestId":#s}}
        >> gone server
        << start server
        >> started server
        << server: #c tools/list
    """)


def test_a_stream_that_was_never_confirmed_is_confirmed_by_the_next_server() -> None:
    confirmed = (
        "notifications/subscriptions/acknowledged "
        '{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}'
    )
    open_playbook(f"""
        >> host: 4 subscriptions/listen {{}}
        << server: #s subscriptions/listen {{}}
        >> gone server
        << start server
        >> started server
        << server: #s subscriptions/listen {{}}
        >> server: {confirmed % "#s"}
        << host: {confirmed % 4}
        >> server: #s = {{}}
        << host: 4 = {{}}
    """)


# Discovery


def test_a_server_that_dies_of_discovery_is_followed_by_one_that_is_greeted() -> None:
    Playbook().play(f"""
        >> started server
        >> host: 0 {DISCOVERY}
        << server: #a {DISCOVERY}
        >> died server 1
        << host: 0 error -32601 Method not found
        << start server
        >> host: 1 initialize {{}}
        >> started server
        << host: 1 = {OFFERED}
    """)


def test_a_refused_discovery_is_the_hosts_to_see() -> None:
    Playbook(on_failure="tool").play(f"""
        >> started server
        >> host: 0 {DISCOVERY}
        << server: #a {DISCOVERY}
        >> server: #a error -32601 what?
        << host: 0 error -32601 what?
        >> host: 1 initialize {{}}
        << host: 1 = {OFFERED}
    """)


def test_a_server_that_dies_of_discovery_and_again_ends_the_launch() -> None:
    Playbook(greeting="").play(f"""
        >> started server
        >> host: 0 {DISCOVERY}
        << server: #a {DISCOVERY}
        >> host: 1 initialize {{}}
        << server: #b initialize {{}}
        >> died server 3
        << host: 0 error -32601 Method not found
        << start server
        >> started server
        << server: #c initialize {{}}
        >> died server 3
        << fail: srv ended with exit code 3 before it answered
        << host: 1 error -31000 …
        >> after 1
        << leave host: 3
    """)


# Restart for another caller

S1_CALLS = """
    >> host: 1 tools/call {"_meta":{"session":"s-1"}}
    << server: #a tools/call {"_meta":{"session":"s-1"}}
"""


def test_a_call_of_another_session_goes_to_a_fresh_server_when_the_last_one_has_answered() -> None:
    open_playbook(
        f"""
        {S1_CALLS}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        >> host: 3 prompts/get
        >> server: #a = {{}}
        << host: 1 = {{}}
        << end server: replaced
        << close server
        >> gone server
        << start server
        >> started server
        << server: #b tools/call {{"_meta":{{"session":"s-2"}}}}
        << server: #c prompts/get
        >> after 60
        """,
        on_change="restart",
    )


def test_what_a_server_does_not_finish_in_its_time_is_answered_for_it() -> None:
    open_playbook(
        f"""
        {S1_CALLS}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        >> after 10
        << host: 1 refused … srv was replaced, because its session has changed; tools/call was not …
        << end server: replaced
        << close server
        >> host: notifications/cancelled {{"requestId":1}}
        >> gone server
        << start server
        >> started server
        << server: #b tools/call {{"_meta":{{"session":"s-2"}}}}
        """,
        on_change="restart",
    )


def test_cancelling_the_last_open_request_ends_the_drain() -> None:
    open_playbook(
        f"""
        {S1_CALLS}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        >> host: notifications/cancelled {{"requestId":1}}
        << server: notifications/cancelled {{"requestId":#a}}
        << end server: replaced
        << close server
        """,
        on_change="restart",
    )


def test_a_call_that_waits_for_another_server_can_be_cancelled() -> None:
    open_playbook(
        f"""
        {S1_CALLS}
        >> host: 2 tools/call {{"_meta":{{"session":"s-2"}}}}
        >> host: notifications/cancelled {{"requestId":2}}
        >> server: #a = {{}}
        << host: 1 = {{}}
        << end server: replaced
        << close server
        >> gone server
        << start server
        >> started server
        """,
        on_change="restart",
    )


# Restart on request


def test_a_restart_lets_open_requests_finish_and_new_ones_wait() -> None:
    playbook = open_playbook("""
        >> host: 1 tools/call {}
        << server: #a tools/call {}
        >> restart now
        >> host: 2 tools/call {}
        >> server: #a = {}
        << host: 1 = {}
        << end server: restarted
        << close server
        >> restart now
        >> gone server
        << start server
        >> restart now
        >> started server
        << server: #b tools/call {}
    """)

    assert playbook.server.history.restarts == 1


def test_a_request_that_takes_too_long_is_answered_with_the_reason() -> None:
    open_playbook("""
        >> host: 1 tools/call {}
        << server: #a tools/call {}
        >> restart now
        >> after 10
        << host: 1 refused … was replaced, because a restart was requested; tools/call was not …
        << end server: restarted
        << close server
    """)


def test_a_server_that_has_not_answered_its_host_is_replaced_as_soon_as_it_has() -> None:
    playbook = Playbook(greeting="")
    playbook.play(f"""
        >> started server
        >> host: 0 initialize {{}}
        << server: #a initialize {{}}
        >> restart now
        >> server: #a = {OFFERED}
        << server: notifications/initialized
        << end server: restarted
        << close server
        >> gone server
        << start server
        >> started server
        << server: #b initialize {{}}
        >> server: #b = {OFFERED}
        << server: notifications/initialized
        << host: 0 = {OFFERED}
    """)

    assert playbook.server.history.restarts == 1


def test_if_the_next_server_fails_a_later_call_or_restart_tries_again() -> None:
    playbook = open_playbook("""
        >> restart now
        << end server: restarted
        << close server
        >> gone server
        << start server
        >> host: 1 tools/call {}
        >> failed server
        << host: 1 refused … after that, call again …
        >> host: 2 tools/call {}
        << host: 2 refused … after that, call again …
    """)
    assert (playbook.server.state, playbook.server.history.restarts) == ("absent", 1)
    playbook.play("""
        >> restart now
        << start server
        >> started server
    """)
    assert playbook.server.history.restarts == 2


def test_a_restart_without_a_server_is_done_at_once() -> None:
    playbook = Playbook(is_started=False)
    playbook.play(">> restart now")

    assert playbook.server.history.restarts == 1
    assert "a restart was requested: no server runs; the next call starts one" in playbook.notes


@pytest.mark.parametrize(
    ("event", "then"),
    [
        ("input ended host", "<< close server"),
        ("host lost now", "<< close server"),
        ("reader lost host", "<< mute server"),
    ],
)
def test_no_server_is_replaced_for_a_host_that_is_leaving(event: str, then: str) -> None:
    open_playbook(f">> {event}\n{then}\n>> restart now")


# Long calls

TEXT = 'a \\"b\\" \\\\' * (1 << 16)
LONG = {"a long text": f'{{"text":"{TEXT}","n":1.5}}', "many values": f"[{'1,' * (1 << 16)}1]"}


@pytest.mark.parametrize("arguments", list(LONG.values()), ids=list(LONG))
def test_a_long_call_arrives_whole_at_whatever_server_reads_it(arguments: str) -> None:
    call = f'tools/call {{"_meta":{{%s"session":"s"}},"arguments":{arguments}}}'
    stamped = call % '"mcp-launch/context":{"for":"session s","in":"/work/app"},'
    playbook = open_playbook(f">> host: 1 {call % ''}\n<< server: #a {stamped}", no_meta=False)
    for _ in range(DEATHS_LIMIT):
        playbook.play(f"""
            >> gone server | #a {stamped}
            << start server
            >> started server
            << server: #a {stamped}
        """)


@pytest.mark.parametrize("arguments", list(LONG.values()), ids=list(LONG))
def test_a_long_call_that_was_read_is_answered_when_its_server_dies(arguments: str) -> None:
    playbook = open_playbook()
    playbook.happen(f'host: 1 tools/call {{"arguments":{arguments}}}')
    playbook.take()
    playbook.play("""
        >> gone server
        << host: 1 refused … tools/call was not answered, but it may have taken effect …
        << start server
    """)


@pytest.mark.parametrize("arguments", list(LONG.values()), ids=list(LONG))
def test_a_long_call_that_waits_for_another_session_s_server_arrives_whole(arguments: str) -> None:
    call = f'tools/call {{"_meta":{{"session":"s-2"}},"arguments":{arguments}}}'
    open_playbook(
        f"""
        {S1_CALLS}
        >> host: 2 {call}
        >> server: #a = {{}}
        << host: 1 = {{}}
        << end server: replaced
        << close server
        >> gone server
        << start server
        >> started server
        << server: #b {call}
        """,
        on_change="restart",
    )
