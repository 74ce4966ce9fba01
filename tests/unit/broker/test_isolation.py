"""Each session behind one host gets its own server, and keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from broker_playbooks import HANDSHAKE, Playbook, open_playbook

if TYPE_CHECKING:
    from mcp_launch.launch.plan import Plan

ISOLATED: dict[str, Any] = {"carries": "many sessions", "on_change": "isolate"}

# The server of the host serves session a, and `server-2` is opened for session b.
TWO = """
    >> host: 1 tools/call {"_meta":{"session":"a"}}
    << server: 1 tools/call {"_meta":{"session":"a"}}
    >> server: 1 = {"from":"a"}
    << host: 1 = {"from":"a"}
    >> host: 2 tools/call {"_meta":{"session":"b"}}
    << start server-2
    >> started server-2
    << timer greeting server-2: 120
    << server-2: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
    >> server-2: "mcp-launch/L/1" = {}
    << server-2: notifications/initialized
    << server-2: 2 tools/call {"_meta":{"session":"b"}}
    >> server-2: 2 = {"from":"b"}
    << host: 2 = {"from":"b"}
"""


def open_two(**settings: Any) -> Playbook:
    """Return a playbook of a host with two sessions, each with its server."""
    playbook = open_playbook(**(ISOLATED | settings))
    playbook.play(TWO)
    return playbook


def test_each_session_keeps_its_server() -> None:
    open_two().play("""
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: 3 tools/call {"_meta":{"session":"a"}}
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << server-2: 4 tools/call {"_meta":{"session":"b"}}
        >> host: 5 tools/call {"_meta":{"session":"a"}}
        << server: 5 tools/call {"_meta":{"session":"a"}}
        >> server-2: 4 = {}
        << host: 4 = {}
    """)


def test_calls_of_a_session_wait_while_its_server_starts_and_no_others_do() -> None:
    playbook = open_playbook(**ISOLATED)
    playbook.play("""
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: 1 tools/call {"_meta":{"session":"a"}}
        >> host: 2 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        >> host: 4 tools/call {"_meta":{"session":"a"}}
        << server: 4 tools/call {"_meta":{"session":"a"}}
        >> host: 5 tools/call {"_meta":{"session":"c"}}
        << start server-3
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
        >> server-2: "mcp-launch/L/1" = {}
        << server-2: notifications/initialized
        << server-2: 2 tools/call {"_meta":{"session":"b"}}
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
    """)


def test_what_concerns_no_session_goes_to_the_hosts_first_server() -> None:
    open_two().play("""
        >> host: 3 tools/list
        << server: 3 tools/list
        >> host: 4 tools/list {"_meta":{"session":"b"}}
        << server: 4 tools/list {"_meta":{"session":"b"}}
        >> host: 5 ping {"_meta":{"session":"z"}}
        << server: 5 ping {"_meta":{"session":"z"}}
    """)


def test_requests_of_two_servers_with_the_same_id_get_their_own_answers() -> None:
    open_two().play("""
        >> server: 7 elicitation/create
        << host: "mcp-launch/L/2" elicitation/create
        >> server-2: 7 elicitation/create
        << host: "mcp-launch/L/3" elicitation/create
        >> host: "mcp-launch/L/3" = {"of":"b"}
        << server-2: 7 = {"of":"b"}
        >> host: "mcp-launch/L/2" = {"of":"a"}
        << server: 7 = {"of":"a"}
    """)


def test_the_host_keeps_the_lists_of_the_first_server() -> None:
    playbook = open_playbook(**ISOLATED)
    playbook.play("""
        >> host: 1 tools/list
        << server: 1 tools/list
        >> server: 1 = {"tools":["x"]}
        << host: 1 = {"tools":["x"]}
        >> host: 2 tools/call {"_meta":{"session":"a"}}
        << server: 2 tools/call {"_meta":{"session":"a"}}
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
        >> server-2: "mcp-launch/L/1" = {}
        << server-2: notifications/initialized
        << server-2: "mcp-launch/L/2" tools/list
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
        >> server-2: "mcp-launch/L/2" = {"tools":["y"]}
        >> server-2: notifications/tools/list_changed
        >> server: notifications/tools/list_changed
        << host: notifications/tools/list_changed
    """)

    assert "tools/list of this session's server differs: the host keeps the first" in playbook.notes


def test_a_log_level_reaches_a_server_that_is_opened_later() -> None:
    playbook = open_playbook(**ISOLATED)
    playbook.play("""
        >> host: 1 logging/setLevel {"level":"debug"}
        << server: 1 logging/setLevel {"level":"debug"}
        >> server: 1 = {}
        << host: 1 = {}
        >> host: 2 tools/call {"_meta":{"session":"a"}}
        << server: 2 tools/call {"_meta":{"session":"a"}}
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
        >> server-2: "mcp-launch/L/1" = {}
        << server-2: notifications/initialized
        << server-2: "mcp-launch/L/2" logging/setLevel {"level":"debug"}
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
        >> host: 4 logging/setLevel {"level":"error"}
        << server: 4 logging/setLevel {"level":"error"}
        << server-2: "mcp-launch/L/3" logging/setLevel {"level":"error"}
        >> host: notifications/roots/list_changed
        << server: notifications/roots/list_changed
        << server-2: notifications/roots/list_changed
    """)


def test_beyond_the_limit_the_server_that_was_idle_longest_is_ended() -> None:
    playbook = open_two(server_limit=2)
    playbook.broker.now += 5
    playbook.play("""
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: 3 tools/call {"_meta":{"session":"a"}}
        >> server: 3 = {}
        << host: 3 = {}
        >> host: 4 tools/call {"_meta":{"session":"c"}}
        << timer drain server-2: 10
        << close input of server-2
        << end server-2: replaced
        >> gone server-2
        << start server-2
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/2" initialize {"capabilities":{"roots":{}}}
        >> server-2: "mcp-launch/L/2" = {}
        << server-2: notifications/initialized
        << server-2: 4 tools/call {"_meta":{"session":"c"}}
        >> host: 5 tools/call {"_meta":{"session":"a"}}
        << server: 5 tools/call {"_meta":{"session":"a"}}
    """)


def test_the_log_says_for_what_the_server_of_a_session_was_ended() -> None:
    playbook = open_two(server_limit=2)
    playbook.play(REPLACED_FOR_C)

    said = [note for note in playbook.notes if "was ended" in note]

    assert said == ["the server of session a was ended, because --max-servers is 2"]
    assert not any("its session has changed" in note for note in playbook.notes)


def test_a_session_does_not_inherit_the_calls_of_the_one_whose_server_it_gets() -> None:
    playbook = open_two(server_limit=2)
    playbook.play(REPLACED_FOR_C)
    first, second = playbook.broker.backends.values()
    assert first.own_calls == 0

    playbook.play("""
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/2" initialize {"capabilities":{"roots":{}}}
        >> server: "mcp-launch/L/2" = {}
        << server: notifications/initialized
        << server: 3 tools/call {"_meta":{"session":"c"}}
    """)

    assert (first.own_calls, first.calls, second.own_calls) == (1, 2, 1)


def test_a_session_that_gets_a_server_which_had_ended_inherits_no_calls() -> None:
    playbook = open_two(server_limit=2)
    playbook.play("""
        >> exited server 0
        >> gone server
        >> host: 3 tools/call {"_meta":{"session":"c"}}
        << start server
    """)

    assert [one.own_calls for one in playbook.broker.backends.values()] == [0, 1]


def test_a_server_at_work_is_not_taken_away_from_its_session() -> None:
    open_two(server_limit=2).play("""
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: 3 tools/call {"_meta":{"session":"a"}}
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << server-2: 4 tools/call {"_meta":{"session":"b"}}
        >> host: 5 tools/call {"_meta":{"session":"c"}}
        << host: 5 refused …already has 2 servers…--max-servers
    """)


def test_the_death_of_a_server_concerns_only_its_own_session() -> None:
    open_two().play("""
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: 3 tools/call {"_meta":{"session":"a"}}
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << server-2: 4 tools/call {"_meta":{"session":"b"}}
        >> exited server-2 1
        >> gone server-2
        << host: 4 refused …ended with exit code 1…
        >> server: 3 = {}
        << host: 3 = {}
        >> host: 5 tools/call {"_meta":{"session":"b"}}
        << start server-2
    """)


def test_a_server_that_keeps_dying_ends_no_other() -> None:
    playbook = open_two()
    for _ in range(6):
        playbook.play("""
            >> exited server 1
            >> gone server
            >> host: 7 tools/call {"_meta":{"session":"a"}}
            << start server
            >> started server
            << timer greeting server: 120
            << server: … initialize …
        """)
        own = next(iter(playbook.broker.backends["server"].own_requests)).decode()
        playbook.play(f"""
            >> server: {own} = {{}}
            << server: notifications/initialized
            << server: 7 tools/call {{"_meta":{{"session":"a"}}}}
            >> server: 7 = {{}}
            << host: 7 = {{}}
        """)
    playbook.play("""
        >> host: 8 tools/call {"_meta":{"session":"b"}}
        << server-2: 8 tools/call {"_meta":{"session":"b"}}
    """)


def test_a_server_that_stops_reading_is_ended_and_the_host_keeps_its_connection() -> None:
    open_two().play("""
        >> input closed by server-2
        << timer input server-2: 0.5
        >> timer input server-2
        << end server-2: replaced
        >> gone server-2
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: 3 tools/call {"_meta":{"session":"a"}}
    """)


def test_the_launch_ends_when_the_last_server_has() -> None:
    open_two().play("""
        >> host closed host
        << timer grace: 2
        << close input of server
        << close input of server-2
        >> exited server 3
        >> gone server
        >> exited server-2 0
        >> gone server-2
        << finish 3
    """)


def test_after_a_signal_the_launch_ends_when_the_last_server_has() -> None:
    open_two().play("""
        >> signal 15
        << signal server: 15
        << signal server-2: 15
        << timer leave: 0.45
        >> exited server 143
        >> gone server
        >> exited server-2 143
        >> gone server-2
        << finish 143
    """)


def test_a_server_that_rests_is_started_again_for_its_own_session() -> None:
    playbook = open_playbook(**ISOLATED)
    playbook.broker.settings.rests_after = 10.0
    called = '<< server-2: 2 tools/call {"_meta":{"session":"b"}}'
    playbook.play(TWO.replace(called, f"{called}\n<< timer rest server-2: 10"))
    playbook.broker.now += 20
    playbook.play("""
        >> timer rest server-2
        << close input of server-2
        << end server-2: rest
        >> gone server-2
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: 3 tools/call {"_meta":{"session":"a"}}
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << start server-2
    """)


def test_a_task_is_asked_for_at_the_server_that_made_it() -> None:
    open_two().play("""
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
        >> server-2: 3 = {"task":{"taskId":"t","status":"working"}}
        << host: 3 = {"task":{"taskId":"t","status":"working"}}
        >> host: 4 tasks/get {"taskId":"t"}
        << server-2: 4 tasks/get {"taskId":"t"}
        >> server-2: 4 = {"taskId":"t","status":"completed"}
        << host: 4 = {"taskId":"t","status":"completed"}
        >> host: 5 tasks/result {"taskId":"t"}
        << server-2: 5 tasks/result {"taskId":"t"}
    """)


def test_a_session_starts_its_server_in_its_own_directory() -> None:
    playbook = open_playbook(**ISOLATED)
    playbook.play("""
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: 1 tools/call {"_meta":{"session":"a"}}
        >> host: 2 tools/call {"_meta":{"session":"b","place":"/work/other"}}
        << start server-2 in /work/other
    """)


class Holding(Playbook):
    """A playbook whose plans hold the session in a variable that was asked for."""

    def _plan_for(self, context: Any, place: Any) -> tuple[Any, Plan]:
        context, plan = super()._plan_for(context, place)
        if session := getattr(context.session, "value", None):
            plan.held.add("session", session, is_requested=True)
        return context, plan


@pytest.mark.parametrize("place", ["", ',"place":"/work/other"'], ids=["here", "elsewhere"])
def test_a_requested_variable_makes_isolation_the_default(place: str) -> None:
    playbook = Holding(carries="many sessions")
    playbook.first.plan.held.add("session", "unknown yet", is_requested=True)
    where = " in /work/other" if place else ""
    playbook.play(f"""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> server: 0 = {{}}
        << host: 0 = {{}}
        >> host: 1 tools/call {{"_meta":{{"session":"a"}}}}
        << timer drain server: 10
        << close input of server
        << end server: replaced
        >> gone server
        << start server
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize
        >> server: "mcp-launch/L/1" = {{}}
        << server: 1 tools/call {{"_meta":{{"session":"a"}}}}
        >> host: 2 tools/call {{"_meta":{{"session":"b"{place}}}}}
        << start server-2{where}
        >> host: 3 tools/call {{"_meta":{{"session":"a"}}}}
        << server: 3 tools/call {{"_meta":{{"session":"a"}}}}
    """)


# What random schedules have found


def test_a_cancellation_that_names_a_session_starts_no_server() -> None:
    open_two().play("""
        >> host: notifications/cancelled {"requestId":2,"_meta":{"session":"b"}}
        >> host: notifications/cancelled {"requestId":9,"_meta":{"session":"c"}}
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
        >> host: notifications/cancelled {"requestId":3,"_meta":{"session":"a"}}
        << server-2: notifications/cancelled {"requestId":3,"_meta":{"session":"a"}}
    """)


def test_later_calls_wait_for_the_server_that_is_being_replaced_for_their_session() -> None:
    open_two(server_limit=2).play("""
        >> host: 3 tools/call {"_meta":{"session":"c"}}
        << timer drain server: 10
        << close input of server
        << end server: replaced
        >> host: 4 tools/call {"_meta":{"session":"c"}}
        >> gone server
        << start server
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/2" initialize {"capabilities":{"roots":{}}}
        >> server: "mcp-launch/L/2" = {}
        << server: notifications/initialized
        << server: 3 tools/call {"_meta":{"session":"c"}}
        << server: 4 tools/call {"_meta":{"session":"c"}}
    """)


def test_a_server_that_nobody_has_used_yet_gets_the_call_of_another_session() -> None:
    playbook = Playbook(backends=("server", "server-2"), server_limit=2, **ISOLATED)
    playbook.play(HANDSHAKE)
    playbook.play("""
        >> started server-2
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: 1 tools/call {"_meta":{"session":"a"}}
        >> host: 2 tools/call {"_meta":{"session":"b"}}
        << server-2: 2 tools/call {"_meta":{"session":"b"}}
        >> server-2: 2 = {}
        << host: 2 = {}
    """)


def test_a_session_does_not_wait_for_the_server_of_another_to_start() -> None:
    open_two().play("""
        >> exited server 1
        >> gone server
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << start server
        >> host: 4 tools/call {"_meta":{"session":"c"}}
        << start server-3
    """)


def test_a_server_that_has_ended_is_not_started_for_the_call_of_another_session() -> None:
    open_two().play("""
        >> exited server 1
        >> gone server
        >> host: 3 tools/call {"_meta":{"session":"c"}}
        << start server-3
        >> host: 4 tools/list {"_meta":{"session":"c"}}
        << start server
    """)


REPLACED_FOR_C = """
    >> host: 3 tools/call {"_meta":{"session":"c"}}
    << timer drain server: 10
    << close input of server
    << end server: replaced
    >> gone server
    << start server
"""


def test_a_server_that_cannot_be_started_for_another_session_ends_no_other() -> None:
    playbook = open_two(server_limit=2)
    playbook.play(REPLACED_FOR_C)
    playbook.play("""
        >> start failed server
        << host: 3 refused …it cannot be started…
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << server-2: 4 tools/call {"_meta":{"session":"b"}}
    """)


def test_a_server_that_refuses_the_greeting_ends_no_other() -> None:
    playbook = open_two(server_limit=2)
    playbook.play(REPLACED_FOR_C)
    playbook.play("""
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/2" initialize {"capabilities":{"roots":{}}}
        >> server: "mcp-launch/L/2" error -1 no
        << end server: input ended
        >> gone server
        << host: 3 refused …refused the handshake…
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << server-2: 4 tools/call {"_meta":{"session":"b"}}
    """)


def test_a_restart_is_over_if_the_server_that_is_started_dies() -> None:
    playbook = open_two(server_limit=2)
    playbook.play(REPLACED_FOR_C)
    playbook.play("""
        >> restart now
        << timer drain server-2: 10
        << close input of server-2
        << end server-2: replaced
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/2" initialize {"capabilities":{"roots":{}}}
        >> host: notifications/cancelled {"requestId":3}
        >> exited server 1
        >> gone server
    """)

    assert not playbook.broker.backends["server"].restart


def test_a_server_that_dies_before_it_reads_a_call_is_not_started_for_ever() -> None:
    playbook = open_two()
    call = '4 tools/call {"_meta":{"session":"b"}}'
    playbook.play(f"""
        >> host: {call}
        << server-2: {call}
    """)
    for own in range(2, 5):
        playbook.play(f"""
            >> gone server-2 | {call}
            << start server-2
            >> started server-2
            << timer greeting server-2: 120
            << server-2: "mcp-launch/L/{own}" initialize {{"capabilities":{{"roots":{{}}}}}}
            >> server-2: "mcp-launch/L/{own}" = {{}}
            << server-2: notifications/initialized
            << server-2: {call}
        """)
    playbook.play(f"""
        >> gone server-2 | {call}
        << host: 4 refused …4 times within a minute; it did not read this…
        >> host: 5 tools/call {{"_meta":{{"session":"b"}}}}
        << start server-2
    """)


def test_a_task_is_not_asked_for_at_the_server_of_another_session() -> None:
    open_two().play("""
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
        >> server-2: 3 = {"task":{"taskId":"t","status":"working"}}
        << host: 3 = {"task":{"taskId":"t","status":"working"}}
        >> host: 4 tasks/get {"taskId":"t","_meta":{"session":"a"}}
        << server: 4 tasks/get {"taskId":"t","_meta":{"session":"a"}}
    """)


def test_subscriptions_of_a_session_outlive_its_server_and_are_not_given_to_another() -> None:
    playbook = open_two(server_limit=2)
    playbook.play("""
        >> host: 3 resources/subscribe {"uri":"u","_meta":{"session":"b"}}
        << server-2: 3 resources/subscribe {"uri":"u","_meta":{"session":"b"}}
        >> server-2: 3 = {}
        << host: 3 = {}
        >> exited server-2 1
        >> gone server-2
        >> host: 4 tools/call {"_meta":{"session":"a"}}
        << server: 4 tools/call {"_meta":{"session":"a"}}
        >> host: 5 tools/call {"_meta":{"session":"c"}}
        << host: 5 refused …each is at work or has a subscriber…
        >> host: 6 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/2" initialize {"capabilities":{"roots":{}}}
        >> server-2: "mcp-launch/L/2" = {}
        << server-2: notifications/initialized
        << server-2: "mcp-launch/L/3" resources/subscribe {"uri":"u","_meta":{"session":"b"}}
        << server-2: 6 tools/call {"_meta":{"session":"b"}}
    """)


def test_the_only_server_forgets_the_subscriptions_of_the_last_session_but_not_the_hosts() -> None:
    playbook = open_playbook(**ISOLATED, server_limit=1)
    playbook.play("""
        >> host: 9 resources/subscribe {"uri":"host's"}
        << server: 9 resources/subscribe {"uri":"host's"}
        >> server: 9 = {}
        << host: 9 = {}
        >> host: 1 resources/subscribe {"uri":"u","_meta":{"session":"a"}}
        << server: 1 resources/subscribe {"uri":"u","_meta":{"session":"a"}}
        >> server: 1 = {}
        << host: 1 = {}
        >> host: 2 tools/call {"_meta":{"session":"b"}}
        << timer drain server: 10
        << close input of server
        << end server: replaced
        >> gone server
        << start server
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
        >> server: "mcp-launch/L/1" = {}
        << server: notifications/initialized
        << server: "mcp-launch/L/2" resources/subscribe {"uri":"host's"}
        << server: 2 tools/call {"_meta":{"session":"b"}}
    """)


def make_batch_with_cancellation(cancelled: int) -> str:
    ping = '{"jsonrpc":"2.0","id":4,"method":"ping"}'
    params = f'"params":{{"requestId":{cancelled}}}'
    return f'[{ping},{{"jsonrpc":"2.0","method":"notifications/cancelled",{params}}}]'


def test_a_cancellation_in_a_batch_reaches_the_server_that_has_the_request() -> None:
    playbook = open_two()
    playbook.play("""
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
    """)
    playbook.play(f"""
        >> host: {make_batch_with_cancellation(3)}
        << server: 4 ping
        << server-2: notifications/cancelled {{"requestId":3}}
    """)


def test_a_request_that_is_cancelled_in_its_own_batch_is_not_left_open() -> None:
    playbook = open_playbook()
    playbook.play(f"""
        >> host: {make_batch_with_cancellation(4)}
        << server: 4 ping
        << server: notifications/cancelled {{"requestId":4}}
    """)

    assert not playbook.broker.backends["server"].requests.open


def test_progress_for_a_server_that_is_gone_reaches_no_other() -> None:
    open_two().play("""
        >> server-2: 1 sampling/createMessage {"_meta":{"progressToken":1}}
        << host: "mcp-launch/L/2" sampling/createMessage {"_meta":{"progressToken":"mcp-launch/…
        >> host: notifications/progress {"progressToken":"mcp-launch/L/2"}
        << server-2: notifications/progress {"progressToken":1}
        >> exited server-2 1
        >> gone server-2
        << host: notifications/cancelled {"requestId":"mcp-launch/L/2",…
        >> host: notifications/progress {"progressToken":"mcp-launch/L/2"}
    """)


# Lines of two servers


def test_a_long_line_that_was_begun_is_not_interrupted_by_another_server() -> None:
    playbook = open_playbook(**ISOLATED)
    long = "x" * (1 << 15)
    playbook.play("""
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: 1 tools/call {"_meta":{"session":"a"}}
    """)
    playbook.broker.server_said("server", f'{{"jsonrpc":"2.0","id":1,"result":"{long}'.encode())
    assert len(playbook.take()) == 1
    playbook.play("""
        >> host: 2 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
        >> server-2: "mcp-launch/L/1" = {}
        << server-2: notifications/initialized
        << server-2: 2 tools/call {"_meta":{"session":"b"}}
        >> server-2: 2 = {"from":"b"}
        >> server: b'"}\\n'
        << host: b'"}\\n'
        << host: 2 = {"from":"b"}
    """)


def test_the_last_line_of_a_server_is_ended_before_another_server_speaks() -> None:
    open_two().play("""
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
        >> server-2: b'{"jsonrpc":"2.0","id":3,"result":{}}'
        >> output closed by server-2
        << host: 3 = {}
        << timer output server-2: 0.5
        >> server: notifications/message {"x":1}
        << host: notifications/message {"x":1}
    """)


# What concerns all servers


def test_a_log_level_and_new_roots_reach_other_servers_while_the_first_is_absent() -> None:
    playbook = open_playbook(**ISOLATED)
    connection = playbook.broker.connections["host"]
    playbook.play(TWO)
    connection.handshake.answer = {"result": {"capabilities": {"logging": {}}}}
    playbook.play("""
        >> exited server 1
        >> gone server
        >> host: 3 logging/setLevel {"level":"debug"}
        << server-2: "mcp-launch/L/2" logging/setLevel {"level":"debug"}
        << host: 3 = {}
        >> host: notifications/roots/list_changed
        << server-2: notifications/roots/list_changed
    """)


def test_the_lists_of_another_session_are_not_taken_for_those_that_the_host_has() -> None:
    playbook = open_playbook(**ISOLATED)
    playbook.play("""
        >> host: 1 tools/list
        << server: 1 tools/list
        >> server: 1 = {"tools":["x"]}
        << host: 1 = {"tools":["x"]}
        >> host: 2 tools/call {"_meta":{"session":"a"}}
        << server: 2 tools/call {"_meta":{"session":"a"}}
        >> server: 2 = {}
        << host: 2 = {}
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
        >> server-2: "mcp-launch/L/1" = {}
        << server-2: notifications/initialized
        << server-2: "mcp-launch/L/2" tools/list
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
        >> server-2: "mcp-launch/L/2" = {"tools":["y"]}
        >> exited server 1
        >> gone server
        >> host: 4 tools/call {"_meta":{"session":"a"}}
        << start server
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/3" initialize {"capabilities":{"roots":{}}}
        >> server: "mcp-launch/L/3" = {}
        << server: notifications/initialized
        << server: "mcp-launch/L/4" tools/list
        << server: 4 tools/call {"_meta":{"session":"a"}}
        >> server: "mcp-launch/L/4" = {"tools":["y"]}
        << host: notifications/tools/list_changed
    """)


def test_after_a_restart_a_session_gets_the_server_that_was_started_for_it() -> None:
    playbook = Holding(carries="many sessions")
    playbook.play("""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> server: 0 = {}
        << host: 0 = {}
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: 1 tools/call {"_meta":{"session":"a"}}
        >> server: 1 = {}
        << host: 1 = {}
    """)
    playbook.first.plan.held.add("session", "a", is_requested=True)
    playbook.play("""
        >> host: 2 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/1" initialize
        >> server-2: "mcp-launch/L/1" = {}
        << server-2: 2 tools/call {"_meta":{"session":"b"}}
        >> server-2: 2 = {}
        << host: 2 = {}
        >> restart now
        << timer drain server: 10
        << close input of server
        << end server: replaced
        << timer drain server-2: 10
        << close input of server-2
        << end server-2: replaced
        >> gone server
        << start server
        >> gone server-2
        << start server-2
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/2" initialize
        >> server: "mcp-launch/L/2" = {}
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/3" initialize
        >> server-2: "mcp-launch/L/3" = {}
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
        >> host: 4 tools/call {"_meta":{"session":"a"}}
        << server: 4 tools/call {"_meta":{"session":"a"}}
    """)


def test_roots_of_the_host_do_not_move_a_server_that_is_there_already() -> None:
    playbook = open_playbook(**ISOLATED)
    playbook.play("""
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: 1 tools/call {"_meta":{"session":"a"}}
        >> host: 2 tools/call {"_meta":{"session":"b","place":"/work/other"}}
        << start server-2 in /work/other
        >> started server-2
        << timer greeting server-2: 120
        << server-2: "mcp-launch/L/1" initialize {"capabilities":{"roots":{}}}
        >> server-2: "mcp-launch/L/1" = {}
        << server-2: notifications/initialized
        << server-2: 2 tools/call {"_meta":{"session":"b","place":"/work/other"}}
        >> server-2: 1 roots/list
        << host: "mcp-launch/L/2" roots/list
        >> host: "mcp-launch/L/2" = {"roots":[{"uri":"file:///work/other"}]}
        << server-2: 1 = {"roots":[{"uri":"file:///work/other"}]}
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << server-2: 3 tools/call {"_meta":{"session":"b"}}
    """)


def test_only_the_server_that_moves_is_started_again_in_the_hosts_directory() -> None:
    playbook = Holding(carries="many sessions", is_host_directory=True)
    playbook.first.context.is_host_directory = True
    playbook.play("""
        >> started server
        >> host: 0 initialize
        << server: 0 initialize
        >> server: 0 = {}
        << host: 0 = {}
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: 1 tools/call {"_meta":{"session":"a"}}
    """)
    playbook.first.plan.held.add("session", "a", is_requested=True)
    playbook.play("""
        >> host: 2 tools/call {"_meta":{"session":"b","place":"/work/other"}}
        << start server-2 in /work/other
        >> exited server 1
        >> gone server
        << host: 1 refused …ended with exit code 1…
        >> start failed server-2
        << start server-2
    """)


# The end


def test_a_server_that_was_being_replaced_does_not_end_the_launch_before_the_others() -> None:
    open_two(server_limit=2).play("""
        >> host: 3 tools/call {"_meta":{"session":"c"}}
        << timer drain server: 10
        << close input of server
        << end server: replaced
        >> signal 15
        << signal server: 15
        << signal server-2: 15
        << timer leave: 0.45
        >> gone server
        >> exited server-2 143
        >> gone server-2
        << finish 143
    """)


def test_servers_that_do_not_end_with_their_input_leave_no_request_unanswered() -> None:
    playbook = open_two()
    playbook.play("""
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: 3 tools/call {"_meta":{"session":"a"}}
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << server-2: 4 tools/call {"_meta":{"session":"b"}}
        >> host closed host
        << timer grace: 2
        << close input of server
        << close input of server-2
        >> after 40
        >> timer grace
        << cut input of server
        << end server: input ended
        << cut input of server-2
        << end server-2: input ended
        >> exited server 143
        >> gone server
        << host: 3 refused …was not answered…
        >> exited server-2 143
        >> gone server-2
        << host: 4 refused …was not answered…
        << finish 143
    """)


def test_no_time_is_given_to_a_server_that_is_not_there() -> None:
    open_two().play("""
        >> exited server-2 1
        >> gone server-2
        >> host closed host
        << timer grace: 2
        << close input of server
        >> timer grace
        << cut input of server
        << end server: input ended
    """)
