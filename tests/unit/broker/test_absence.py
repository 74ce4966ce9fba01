"""While no server runs, the host is answered from memory; the first real request starts one."""

from __future__ import annotations

import pytest
from broker_playbooks import Playbook
from remembered_servers import CALLED, CLIENT, GREETED, META, OFFERED, TOOLS, WOKEN, open_absent
from remembered_servers import remember as make_store

# What memory answers


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


def test_another_stream_starts_a_server() -> None:
    open_absent(f"""
        >> host: 0 server/discover {{"_meta":{META}}}
        << host: 0 = {OFFERED}
        >> host: 2 subscriptions/listen {{"notifications":{{"resourceSubscriptions":["u"]}}}}
        << start server
    """)


# The start


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


# The end


@pytest.mark.parametrize(
    ("event", "code"),
    [("host closed host", 0), ("host lost host", 0), ("reader lost host", 0), ("signal 15", 143)],
)
def test_without_a_server_the_launch_ends_at_once(event: str, code: int) -> None:
    playbook = open_absent()
    playbook.play_event(event)

    assert playbook.take()[-1] == f"finish {code}"


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
