"""Each session behind one host gets its own server, and keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from broker_playbooks import Playbook, open_playbook

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


# The end
