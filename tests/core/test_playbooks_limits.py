"""What a profile limits: how many calls at once, how long they take, and which tools there are."""

# ruff: noqa: E501  # what hosts are told is compared word for word

from __future__ import annotations

from typing import Any

import pytest
from core_playbooks import Playbook, open_playbook

from mcp_launch.broker.policies import PinnedArguments, ToolPolicy

# How many calls at once


def test_a_call_waits_for_its_turn() -> None:
    playbook = open_playbook(
        """
        >> host: 1 tools/call {"name":"a"}
        << server: #a tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> host: 3 ping
        << server: #c ping
        >> server: #a = {}
        << host: 1 = {}
        << server: #b tools/call {"name":"b"}
        >> server: #b = {}
        << host: 2 = {}
        """,
        max_concurrent=1,
    )

    assert playbook.outcomes == [(b"1", "ok"), (b"2", "ok")]


def test_sessions_take_turns() -> None:
    playbook = open_playbook(max_concurrent=1)
    for number, session in enumerate("aaabb", 1):
        playbook.happen(f'host: {number} tools/call {{"_meta":{{"session":"{session}"}}}}')
    playbook.take()

    order = []
    for _ in range(5):
        [request] = playbook.server.owes.values()
        order.append(int(request.id))
        playbook.happen(f"server: {request.number.decode()} = {{}}")

    assert order == [1, 2, 4, 3, 5]


def test_the_time_that_a_call_was_held_back_is_known() -> None:
    playbook = open_playbook(
        """
        >> host: 1 tools/call {"name":"a"}
        << server: #a tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> host: 3 tools/call {"name":"b"}
        >> host: 4 tools/call {"name":"b"}
        >> after 4
        >> server: #a = {}
        << host: 1 = {}
        << server: #b tools/call {"name":"b"}
        >> after 2
        >> host: notifications/cancelled {"requestId":3}
        >> server: #b = {}
        << host: 2 = {}
        << server: #d tools/call {"name":"b"}
        >> server: #d = {}
        << host: 4 = {}
        """,
        max_concurrent=1,
    )

    held = {one.id: one.held for one in playbook.core.finished}
    assert held == {b"1": 0.0, b"2": 4.0, b"3": 6.0, b"4": 6.0}
    assert (b"3", "cancelled") in playbook.outcomes


def test_a_call_that_is_given_up_makes_room_for_the_next() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"name":"a"}
        << server: #a tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> host: notifications/cancelled {"requestId":1}
        << server: notifications/cancelled {"requestId":#a}
        << server: #b tools/call {"name":"b"}
        """,
        max_concurrent=1,
    )


def test_too_many_waiting_calls_are_refused() -> None:
    playbook = open_playbook(max_concurrent=1)
    for number in range(1001):
        playbook.happen(f"host: {number} tools/call")
    playbook.take()

    playbook.play("""
        >> host: 1001 tools/call
        << host: 1001 refused [mcp-launch] 1,000 calls already wait for srv, which works on 1 at a time (max_concurrent) — fix: call again when some of them are finished
    """)


def test_a_server_for_which_calls_wait_is_not_taken_away_from_its_session() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: #a tools/call {"_meta":{"session":"a"}}
        >> host: 2 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> started server-2
        << server-2: #b tools/call {"_meta":{"session":"b"}}
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        >> server-2: #b = {}
        << host: 2 = {}
        << server-2: #c tools/call {"_meta":{"session":"b"}}
        >> host: 4 tools/call {"_meta":{"session":"c"}}
        << host: 4 refused …already has 2 servers…
        """,
        max_concurrent=1,
        carries="many sessions",
        on_change="isolate",
        server_limit=2,
    )


def test_what_waits_goes_to_the_next_server_if_this_one_dies() -> None:
    playbook = open_playbook(
        """
        >> host: 1 tools/call {"name":"a"}
        << server: #a tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> host: 3 tools/call {"name":"c"}
        >> died server 1
        << host: 1 refused …
        << start server
        >> started server
        << server: #b tools/call {"name":"b"}
        >> server: #b = {}
        << host: 2 = {}
        << server: #c tools/call {"name":"c"}
        """,
        max_concurrent=1,
    )

    assert playbook.outcomes == [(b"1", "died"), (b"2", "ok")]


def test_what_waits_is_delivered_before_the_input_ends() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"name":"a"}
        << server: #a tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> host: 3 tools/call {"name":"c"}
        >> input ended host
        << server: #b tools/call {"name":"b"}
        << server: #c tools/call {"name":"c"}
        << close server
        """,
        max_concurrent=1,
    )


def test_held_calls_of_a_server_that_is_replaced_go_to_the_next() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"name":"a"}
        << server: #a tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> restart now
        >> server: #a = {}
        << host: 1 = {}
        << end server: restarted
        << close server
        >> gone server
        << start server
        >> started server
        << server: #b tools/call {"name":"b"}
        """,
        max_concurrent=1,
    )


# How long


def test_a_call_without_an_answer_is_ended() -> None:
    playbook = open_playbook(
        """
        >> host: 1 tools/call {"name":"a"}
        << server: #a tools/call {"name":"a"}
        >> after 60
        << server: notifications/cancelled {"requestId":#a,"reason":"no answer and no progress within 1 min (call_timeout)"}
        << host: 1 refused [mcp-launch] srv neither answered this call nor reported progress within 1 min; it may have taken effect — fix: check before you repeat it; then ask for less at once, or allow more time with call_timeout in the profile
        >> server: #a = {}
        >> after 5
        >> host: 2 tools/call {"name":"a"}
        << server: #b tools/call {"name":"a"}
        >> after 59
        >> after 1
        << server: notifications/cancelled …
        << host: 2 refused …within 1 min…
        """,
        call_timeout=60.0,
    )

    assert playbook.outcomes == [(b"1", "timed out"), (b"2", "timed out")]


def test_a_long_call_that_goes_to_the_next_server_has_its_time_there() -> None:
    call = f'tools/call {{"t":"{"x" * 70_000}"}}'
    playbook = open_playbook(
        f"""
        >> host: 1 {call}
        << server: #a {call}
        >> died server 3 | #a {call}
        << start server
        >> started server
        << server: #a {call}
        >> after 60
        << server: notifications/cancelled …
        << host: 1 refused …within 1 min…
        """,
        call_timeout=60.0,
    )

    assert playbook.server.history.calls == 2


def test_progress_gives_a_call_its_whole_time_again() -> None:
    playbook = open_playbook(
        """
        >> host: 1 tools/call {"_meta":{"progressToken":"p"},"name":"a"}
        << server: #a tools/call {"_meta":{"progressToken":#a},"name":"a"}
        >> after 50
        >> server: notifications/progress {"progressToken":#a}
        << host: notifications/progress {"progressToken":"p"}
        >> after 59
        >> server: #a = {}
        << host: 1 = {}
        """,
        call_timeout=60.0,
    )

    assert playbook.outcomes == [(b"1", "ok")]


def test_a_call_that_took_too_long_makes_room_for_the_next() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"name":"a"}
        << server: #a tools/call {"name":"a"}
        >> host: 2 tools/call {"name":"b"}
        >> after 10
        << server: notifications/cancelled …
        << host: 1 refused …within 10 s…
        << server: #b tools/call {"name":"b"}
        >> after 9
        >> after 1
        << server: notifications/cancelled …
        << host: 2 refused …within 10 s…
        """,
        call_timeout=10.0,
        max_concurrent=1,
    )


# Which tools


def open_with_tools(**globs: list[str]) -> Playbook:
    return open_playbook(tools=ToolPolicy(globs))


def test_a_hidden_tool_is_neither_listed_nor_called() -> None:
    playbook = open_with_tools(deny=["delete_*"])
    playbook.play("""
        >> host: 1 tools/list
        << server: #a tools/list
        >> server: #a = {"tools":[{"name":"read_a"},{"name":"delete_a"}]}
        << host: 1 = {"tools":[{"name":"read_a"}]}
        >> host: 2 tools/call {"name":"delete_a"}
        << host: 2 refused [mcp-launch] the tool delete_a of srv is hidden by the user's profile — fix: use another tool; only the user can allow this one, with `tools` in the profile
        >> host: 3 tools/call {"name":"read_a"}
        << server: #c tools/call {"name":"read_a"}
    """)

    assert playbook.outcomes == [(b"2", "refused")]
    assert playbook.find_call(b"2").reason == "the profile hides this tool"


@pytest.mark.parametrize(
    "params",
    [
        '{"name":"read_a","Name":"delete_a"}',
        '{"Name":"delete_a"}',
        '{"name":1}',
        "[]",
        r'{"n\u0061me":"delete\u005fa"}',
    ],
)
def test_a_call_that_only_some_servers_understand_is_refused(params: str) -> None:
    open_with_tools(deny=["delete_*"]).play(f">> host: 2 tools/call {params}\n<< host: 2 refused …")


# Which of two members with one name counts, is up to each server's parser.
@pytest.mark.parametrize(
    "line",
    [
        '{"id":2,"method":"tools/call","params":{"name":"delete_a","name":"read_a"}}',
        r'{"id":2,"method":"tools/call","params":{"n\u0061me":"delete_a","name":"read_a"}}',
        '{"id":2,"method":"tools/call","params":{"name":"delete_a"},"params":{"name":"read_a"}}',
        '{"id":2,"method":"tools/call","params":{"name":"delete_a"},"method":"ping"}',
        '{"method":"ping","id":2,"params":{"name":"delete_a"},"method":"tools/call"}',
        '{"id":2,"method":"ping","m\\u0065thod":"tools/call","params":{"name":"delete_a"}}',
        '{"method":"tools/call","params":{"name":"delete_a"},"method":"notifications/x"}',
        '{"method":"tools/call","params":{"name":"delete_a"}}',
        '{"result":{},"method":"tools/call","params":{"name":"delete_a"},"id":2}',
        '{"id":2,"id":null,"method":"tools/call","params":{"name":"delete_a"}}',
        '{"id":2,"method":"tools/call","params":{"name":"delete_a"},"result":{}}',
        '{"result":{},"id":2,"method":"tools/call","params":{"name":"delete_a"},"id":3}',
        '[{"id":2,"method":"tools/call","params":{"name":"delete_a"},"method":"ping"}]',
        '{"id":2,"method":"tools/call","params":{"name":"delete_a"},"method":"ping"} {"a":1}',
    ],
)
def test_a_message_with_two_members_of_one_name_reaches_no_server(line: str) -> None:
    playbook = open_with_tools(deny=["delete_*"])

    playbook.core.client_said("host", line.encode() + b"\n")

    assert not any("delete_a" in one and "server:" in one for one in playbook.take())


def test_repeated_members_pass_where_no_policy_needs_to_know_them() -> None:
    playbook = open_playbook()
    line = b'{"id":2,"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","name":"b"}}\n'

    playbook.core.client_said("host", line)

    assert playbook.core.out[-1] == ("send", "server", line.replace(b":2,", b":3,"))


def test_a_hidden_tool_does_not_start_a_server() -> None:
    Playbook(is_started=False, starts_when_called=True, tools=ToolPolicy({"allow": []})).play("""
        >> host: 1 tools/call {"name":"a"}
        << host: 1 refused …
    """)


# Arguments


def open_pinned(**pins: Any) -> Playbook:
    pinned = PinnedArguments("srv", pins, {}, "/home/me", lambda path, at: f"{at}/{path}")
    return open_playbook(arguments=pinned, no_meta=False)


def test_an_argument_is_set_in_the_call_and_all_else_stays_as_it_was_written() -> None:
    playbook = open_pinned(mode={"value": "safe"})
    playbook.core.client_said(
        "host", b'{"id":"i", "method":"tools/call","params":{"name":"t","arguments":{"n":1.10}}}\n'
    )

    context = b'"_meta":{"mcp-launch/context":{"for":"an unknown session","in":"/work/app"}},'
    number = b"%d" % playbook.core.counts.numbers
    sent = b'{"id":%b, "method":"tools/call","params":{%b"name":"t","arguments":%b}}\n'
    arguments = b'{"n":1.10,"mode":"safe"}'
    assert playbook.core.out[-1] == ("send", "server", sent % (number, context, arguments))
    assert playbook.server.owes[number].changed == ("mode",)


def test_a_call_with_a_path_outside_is_refused() -> None:
    playbook = open_playbook(
        arguments=PinnedArguments(
            "srv", {"cwd": {"inside": "cwd"}}, {}, "/home/me", lambda path, _: path
        )
    )
    playbook.play("""
        >> host: 1 tools/call {"name":"t","arguments":{"cwd":"/etc"}}
        << host: 1 refused [mcp-launch] t of srv was called with cwd = /etc, which is outside /work/app — fix: choose a path inside /work/app; only the user can allow others, with `arguments` in the profile
        >> host: 2 tools/call {"name":"t","arguments":{"cwd":"/work/app"}}
        << server: #b tools/call {"name":"t","arguments":{"cwd":"/work/app"}}
    """)

    assert playbook.outcomes == [(b"1", "refused")]
    assert playbook.find_call(b"1").reason == "the argument `cwd` is outside /work/app"
