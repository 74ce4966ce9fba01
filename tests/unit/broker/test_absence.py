"""While no server runs, the host is answered from memory; the first real request starts one."""

from __future__ import annotations

import pytest
from broker_playbooks import Playbook
from remembered_servers import CALLED, CLIENT, GREETED, META, OFFERED, TOOLS, WOKEN, open_absent
from remembered_servers import remember as make_store

from mcp_launch.broker import commands
from mcp_launch.broker.waiting import QUEUE_LIMIT

# What memory answers


def test_handshake_and_lists_are_answered_without_a_server() -> None:
    open_absent()


@pytest.mark.parametrize(
    "request_text",
    ["ping", 'logging/setLevel {"level":"debug"}'],
    ids=["ping", "log level"],
)
def test_chatter_is_answered_without_a_server(request_text: str) -> None:
    open_absent().play(f"""
        >> host: 2 {request_text}
        << host: 2 = {{}}
    """)


def test_the_next_server_gets_the_log_level_that_was_set_without_one() -> None:
    open_absent().play(f"""
        >> host: 2 logging/setLevel {{"level":"debug"}}
        << host: 2 = {{}}
        >> host: 3 tools/call {{"name":"x"}}
        << start server
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/1" initialize {CLIENT}
        >> server: "mcp-launch/L/1" = {OFFERED}
        << timer remember host: 1
        << server: notifications/initialized
        << server: "mcp-launch/L/2" logging/setLevel {{"level":"debug"}}
        << server: "mcp-launch/L/3" tools/list
        << timer compare server: 2
    """)


def test_a_log_level_that_is_set_while_the_lists_are_compared_reaches_the_server() -> None:
    open_absent(GREETED + WOKEN).play(f"""
        >> host: 3 logging/setLevel {{"level":"debug"}}
        >> server: "mcp-launch/L/2" = {TOOLS}
        << timer remember host: 1
        << server: 2 tools/call {{"name":"x"}}
        << server: 3 logging/setLevel {{"level":"debug"}}
    """)


def test_a_client_of_another_kind_is_not_answered_from_memory() -> None:
    open_absent("").play("""
        >> host: 0 initialize {"protocolVersion":"2","capabilities":{}}
        << start server
    """)


def test_a_modern_host_gets_what_is_left_of_the_time_to_live() -> None:
    params = f'{{"_meta":{META}}}'
    open_absent("", handshakes=make_store(age=3.0)).play(f"""
        >> host: 0 server/discover {params}
        << host: 0 = {OFFERED}
        >> host: 1 tools/list {params}
        << host: 1 = {{"tools":[{{"name":"x"}}],"ttlMs":2000,"cacheScope":"private"}}
        >> after 9
        >> host: 2 tools/list {params}
        << host: 2 = {{"tools":[{{"name":"x"}}],"ttlMs":0,"cacheScope":"private"}}
    """)


def test_a_modern_host_need_not_greet() -> None:
    playbook = open_absent("")
    playbook.play(f"""
        >> host: 1 tools/list {{"_meta":{META}}}
        << host: 1 = {{"tools":[{{"name":"x"}}],"ttlMs":5000,"cacheScope":"private"}}
        >> host: 2 ping
        << host: 2 = {{}}
        >> host: 3 tools/call {{"name":"x"}}
        << start server
        >> start failed server
        << forget
        << host: 3 refused … it cannot be started …
    """)


STREAM = '{"notifications":{"toolsListChanged":true}}'
CONFIRMED = (
    'notifications/subscriptions/acknowledged {"_meta":'
    '{"io.modelcontextprotocol/subscriptionId":2},"notifications":{"toolsListChanged":true}}'
)
DISCOVERED = f"""
    >> host: 0 server/discover {{"_meta":{META}}}
    << host: 0 = {OFFERED}
    >> host: 2 subscriptions/listen {STREAM}
    << host: {CONFIRMED}
"""


def test_a_stream_of_list_changes_is_held_without_a_server_and_confirmed_once() -> None:
    open_absent(DISCOVERED).play(f"""
        >> host: 3 tools/call {{"name":"x"}}
        << start server
        >> started server
        << server: 2 subscriptions/listen {STREAM}
        << server: 3 tools/call {{"name":"x"}}
        >> server: {CONFIRMED}
    """)


def test_a_stream_that_a_server_has_not_read_is_confirmed_once() -> None:
    open_absent(DISCOVERED).play(f"""
        >> host: 3 tools/call {{"name":"x"}}
        << start server
        >> started server
        << server: 2 subscriptions/listen {STREAM}
        << server: 3 tools/call {{"name":"x"}}
        >> gone server | 2 subscriptions/listen {STREAM} | 3 tools/call {{"name":"x"}}
        << start server
        >> started server
        << server: 2 subscriptions/listen {STREAM}
        << server: 3 tools/call {{"name":"x"}}
        >> server: {CONFIRMED}
    """)


def test_another_stream_starts_a_server() -> None:
    open_absent(f"""
        >> host: 0 server/discover {{"_meta":{META}}}
        << host: 0 = {OFFERED}
        >> host: 2 subscriptions/listen {{"notifications":{{"resourceSubscriptions":["u"]}}}}
        << start server
    """)


# The start


def test_the_first_call_starts_a_server_which_is_greeted_first() -> None:
    open_absent().play(CALLED)


@pytest.mark.parametrize(
    "text",
    ["prompts/get", "resources/read", 'resources/subscribe {"uri":"u"}', "x/unknown"],
)
def test_any_other_request_starts_a_server(text: str) -> None:
    open_absent().play(f"""
        >> host: 2 {text}
        << start server
    """)


@pytest.mark.parametrize(
    "text",
    ["notifications/roots/list_changed", "notifications/cancelled", "notifications/progress"],
)
def test_notifications_about_the_present_start_no_server(text: str) -> None:
    open_absent().play(f">> host: {text}")


def test_many_first_calls_start_one_server_and_stay_in_order() -> None:
    open_absent(GREETED + WOKEN).play(f"""
        >> host: 3 tools/call {{"name":"y"}}
        >> host: 4 tools/call {{"name":"z"}}
        >> server: "mcp-launch/L/2" = {TOOLS}
        << timer remember host: 1
        << server: 2 tools/call {{"name":"x"}}
        << server: 3 tools/call {{"name":"y"}}
        << server: 4 tools/call {{"name":"z"}}
    """)


def test_a_call_that_is_cancelled_while_it_waits_is_not_delivered_but_the_server_starts() -> None:
    open_absent(GREETED + WOKEN).play(f"""
        >> host: notifications/cancelled {{"requestId":2}}
        >> server: "mcp-launch/L/2" = {TOOLS}
        << timer remember host: 1
    """)


def test_a_server_is_started_for_the_session_that_calls() -> None:
    playbook = open_absent()
    playbook.play("""
        >> host: 2 tools/call {"_meta":{"session":"s-2"}}
        << start server
    """)

    assert playbook.broker.backends["server"].served.bound.session == "s-2"


def test_a_cancellation_of_what_memory_has_answered_reaches_no_server() -> None:
    open_absent(GREETED + CALLED).play("""
        >> host: notifications/cancelled {"requestId":1}
    """)


def test_a_call_of_the_usual_form_that_is_not_json_is_answered_while_there_is_no_server() -> None:
    playbook = open_absent(GREETED + CALLED, starts_when_called=True)
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"session":"s"},%s}}'
    playbook.broker.host_said("host", (call % (3, '"name":"x"') + "\n").encode())
    playbook.play_event("server: 2 = {}")
    playbook.play_event("server: 3 = {}")
    playbook.play_event("gone server")
    playbook.take()
    broken = (call % (4, '"name":x') + "\n").encode()
    assert playbook.broker.connections["host"].pattern.match(broken)

    playbook.broker.host_said("host", broken)

    assert [text.split(" ")[:4] for text in playbook.take()] == [
        ["host:", "null", "error", "-32700"]
    ]


# A start that fails

REASON = "[mcp-launch] it cannot be started — fix: install it; after that, call again"


def test_a_failed_start_is_the_result_of_the_call() -> None:
    open_absent().play(f"""
        >> host: 2 tools/call {{"name":"x"}}
        << start server
        >> start failed server
        << forget
        << host: 2 refused {REASON} (a call in 1 s or later starts it again)
    """)


def test_the_next_attempts_come_later_and_later() -> None:
    playbook = open_absent()
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        playbook.play(f"""
            >> host: 2 tools/call {{"name":"x"}}
            << start server
            >> start failed server
            << forget
            << host: 2 refused {REASON} (a call in {wait} s or later starts it again)
            >> after {wait - 0.5}
            >> host: 3 tools/call {{"name":"x"}}
            << host: 3 refused {REASON} (a call in 1 s or later starts it again)
            >> after 0.5
        """)


def test_a_start_that_fails_for_days_is_still_tried() -> None:
    playbook = open_absent()
    playbook.broker.backends["server"].failed_wakes = 5000
    playbook.play(f"""
        >> host: 2 tools/call {{"name":"x"}}
        << start server
        >> start failed server
        << forget
        << host: 2 refused {REASON} (a call in 60 s or later starts it again)
    """)


def test_a_success_resets_the_wait() -> None:
    playbook = open_absent()
    playbook.broker.backends["server"].failed_wakes = 3

    playbook.play(CALLED)

    assert playbook.broker.backends["server"].failed_wakes == 0


@pytest.mark.parametrize(
    "how",
    [
        """
            >> server: "mcp-launch/L/1" error -1 no
            << timer remember host: 1
            << end server: input ended
            >> gone server
        """,
        ">> timer greeting server\n<< end server: input ended\n>> gone server",
        ">> exited server 1\n>> gone server",
    ],
    ids=["greeting refused", "greeting not answered", "died"],
)
def test_a_server_that_does_not_get_ready_fails_the_call_and_the_launch_goes_on(how: str) -> None:
    open_absent().play(f"""
        >> host: 2 tools/call {{"name":"x"}}
        << start server
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/1" initialize {CLIENT}
        {how}
        << forget
        << host: 2 refused [mcp-launch] …
        >> host: 3 ping
        << host: 3 = {{}}
    """)


def test_what_waits_for_a_start_that_fails_no_longer_stops_the_host() -> None:
    playbook = open_absent()
    playbook.play_event('host: 2 tools/call {"name":"x"}')
    long = '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"%s"}}\n'
    playbook.broker.host_said("host", (long % ("y" * QUEUE_LIMIT)).encode())
    assert commands.PauseHost("host") in playbook.broker.take_commands()

    playbook.play_event("start failed server")

    assert commands.ResumeHost("host") in playbook.broker.take_commands()


def test_nothing_is_kept_of_a_server_that_fails_after_the_greeting() -> None:
    playbook = open_absent(GREETED + WOKEN)
    playbook.play("""
        >> exited server 1
        >> gone server
        << forget
        << host: 2 refused …
        >> timer remember host
    """)


def test_a_memory_is_not_compared_before_the_next_attempt_is_due() -> None:
    store = make_store(is_due=True)
    playbook = Playbook(handshakes=store, is_started=False, ignores_changes=True)
    playbook.plan_problem = "no plan"
    playbook.play("""
        >> host: 1 tools/call {"name":"x"}
        << host: 1 refused … no plan …
    """)
    playbook.plan_problem = ""
    playbook.play(f"""
        >> host: 2 tools/list {{"_meta":{META}}}
        << host: 2 = {{"tools":[{{"name":"x"}}],"ttlMs":5000,"cacheScope":"private"}}
    """)


# The end


@pytest.mark.parametrize(
    ("event", "code"),
    [("host closed host", 0), ("host lost host", 0), ("reader lost host", 0), ("signal 15", 143)],
)
def test_without_a_server_the_launch_ends_at_once(event: str, code: int) -> None:
    playbook = open_absent()
    playbook.play_event(event)

    assert playbook.take()[-1] == f"finish {code}"


def test_the_exit_code_of_a_server_that_died_long_ago_is_not_ours() -> None:
    playbook = open_absent(GREETED + CALLED, starts_when_called=True)
    for event in ("server: 2 = {}", "exited server 3", "gone server", "host closed host"):
        playbook.play_event(event)

    assert playbook.take()[-1] == "finish 0"


def test_a_server_that_died_is_started_again_by_the_next_call_only() -> None:
    open_absent(GREETED + CALLED, starts_when_called=True).play("""
        >> server: 2 = {}
        << host: 2 = {}
        >> exited server 3
        >> gone server
        >> host: 3 tools/list
        << host: 3 = {"tools":[{"name":"x"}]}
        >> host: 4 tools/call {"name":"x"}
        << start server
    """)


def test_lines_that_are_not_messages_do_not_hold_a_launch_without_a_server() -> None:
    open_absent().play("""
        >> host: b'hello\\n'
        >> host closed host
        << timer grace: 2
        << finish 0
    """)


# Lists that have changed

CHANGED = '{"tools":[{"name":"y"}]}'


def test_a_changed_list_is_announced_and_a_call_to_a_tool_that_is_gone_is_refused() -> None:
    open_absent(GREETED + WOKEN).play(f"""
        >> host: 3 tools/call {{"name":"y"}}
        >> host: 4 tools/call {{"name":["x"]}}
        >> server: "mcp-launch/L/2" = {CHANGED}
        << timer remember host: 1
        << host: notifications/tools/list_changed
        << host: 2 refused [mcp-launch] srv no longer has a tool x: … it has now: y
        << server: 3 tools/call {{"name":"y"}}
        << server: 4 tools/call {{"name":["x"]}}
        >> host: 5 tools/call {{"name":"x"}}
        << host: 5 refused [mcp-launch] srv no longer has a tool x: … it has now: y
        >> host: 6 tools/list
        << server: 6 tools/list
        >> server: 6 = {CHANGED}
        << host: 6 = {CHANGED}
        >> host: 7 tools/call {{"name":"x"}}
        << server: 7 tools/call {{"name":"x"}}
    """)


def test_a_call_does_not_wait_long_for_the_comparison() -> None:
    open_absent(GREETED + WOKEN).play("""
        >> timer compare server
        << server: 2 tools/call {"name":"x"}
    """)


def test_an_old_memory_is_compared_in_the_background_for_a_host_that_ignores_changes() -> None:
    playbook = Playbook(handshakes=make_store(is_due=True), is_started=False, ignores_changes=True)
    playbook.play(f"""
        >> host: 0 initialize {CLIENT}
        << start server
        << host: 0 = {OFFERED}
        >> host: notifications/initialized
        >> host: 1 tools/list
        << host: 1 = {TOOLS}
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/1" initialize {CLIENT}
        >> server: "mcp-launch/L/1" = {OFFERED}
        << timer remember host: 1
        << server: notifications/initialized
        << server: "mcp-launch/L/2" tools/list
        << timer compare server: 2
        >> server: "mcp-launch/L/2" = {CHANGED}
        << timer remember host: 1
        << host: notifications/tools/list_changed
        << close input of server
        << end server: rest
        >> timer remember host
        << remember 2 answers
        >> gone server
    """)

    assert len(playbook.broker.settings.handshakes.checked) == 1  # type: ignore[union-attr]


def test_a_server_that_is_only_compared_is_not_ended_while_it_asks_the_host() -> None:
    playbook = Playbook(handshakes=make_store(is_due=True), is_started=False, ignores_changes=True)
    playbook.play(f"""
        >> host: 0 initialize {CLIENT}
        << start server
        << host: 0 = {OFFERED}
        >> host: notifications/initialized
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/1" initialize {CLIENT}
        >> server: 1 roots/list
        << host: "mcp-launch/L/2" roots/list
        >> server: "mcp-launch/L/1" = {OFFERED}
        << timer remember host: 1
        << server: notifications/initialized
        << timer rest server: 10
        >> host: "mcp-launch/L/2" = {{"roots":[]}}
        << server: 1 = {{"roots":[]}}
        >> after 10
        >> timer rest server
        << close input of server
        << end server: rest
    """)


# A server that is late

LATE = f"""
    >> started server
    >> host: 0 initialize {CLIENT}
    << server: 0 initialize {CLIENT}
    << timer patience host: 0.4
"""


def open_late(script: str) -> Playbook:
    playbook = Playbook(handshakes=make_store(), answers_from_memory=True)
    playbook.play(LATE + script)
    return playbook


def test_a_server_that_answers_in_time_is_heard_itself() -> None:
    open_late("""
        >> server: 0 = {"capabilities":{}}
        << timer remember host: 1
        << host: 0 = {"capabilities":{}}
        >> timer patience host
    """)


def test_the_host_of_a_late_server_is_answered_from_memory_once() -> None:
    open_late(f"""
        >> timer patience host
        << timer greeting server: 120
        << host: 0 = {OFFERED}
        >> host: notifications/initialized
        >> host: 1 tools/list
        << host: 1 = {TOOLS}
        >> host: 2 tools/call {{"name":"x"}}
        >> server: 0 = {OFFERED}
        << timer remember host: 1
        << server: notifications/initialized
        << server: "mcp-launch/L/1" tools/list
        << timer compare server: 2
        >> server: "mcp-launch/L/1" = {TOOLS}
        << timer remember host: 1
        << server: 2 tools/call {{"name":"x"}}
    """)


def test_a_late_server_that_dies_is_started_again_by_a_later_call() -> None:
    open_late(f"""
        >> timer patience host
        << timer greeting server: 120
        << host: 0 = {OFFERED}
        >> host: 2 tools/call {{"name":"x"}}
        >> exited server 1
        >> gone server
        << forget
        << host: 2 refused …
        >> after 1
        >> host: 3 tools/call {{"name":"x"}}
        << start server
    """)
