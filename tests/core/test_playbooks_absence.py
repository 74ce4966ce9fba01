"""While no server runs, memory answers its host; the first call starts one, and none rests it."""

# ruff: noqa: E501  # what hosts are told is compared word for word

from __future__ import annotations

from typing import Any

import pytest
from core_playbooks import HELLO, META, OFFERED, TOOLS, Playbook, Store, open_playbook, remember

# The host is answered from memory, and has read the list of tools.
GREETED = f"""
    >> host: 0 initialize {HELLO}
    << host: 0 = {OFFERED}
    >> host: notifications/initialized
    >> host: 1 tools/list
    << host: 1 = {TOOLS}
"""

# The first call starts a server, which is asked for its tools.
WOKEN = """
    >> host: 2 tools/call {"name":"x"}
    << start server
    >> started server
    << server: #l tools/list
    << server: #a tools/call {"name":"x"}
"""
CHANGED = '{"tools":[{"name":"y"}]}'


def open_absent(script: str = GREETED, **settings: Any) -> Playbook:
    """Return a playbook whose server was not started; the host is answered from memory."""
    values: dict[str, Any] = {
        "handshakes": remember(),
        "is_started": False,
        "answers_from_memory": True,
        "starts_when_called": True,
    }
    playbook = Playbook(**(values | settings))
    playbook.play(script)
    return playbook


# What memory answers


def test_chatter_is_answered_without_a_server_and_the_first_call_starts_one() -> None:
    open_absent(f"""
        {GREETED}
        >> host: 3 ping
        << host: 3 = {{}}
        >> host: 4 logging/setLevel {{"level":"debug"}}
        << host: 4 = {{}}
        >> host: notifications/roots/list_changed
        >> host: notifications/cancelled {{"requestId":1}}
        >> host: notifications/progress
        >> host: 2 tools/call {{"name":"x"}}
        << start server
        >> host: 5 tools/call {{"name":"y"}}
        >> host: 6 tools/list
        << host: 6 = {TOOLS}
        >> started server
        << server: #v logging/setLevel {{"level":"debug"}}
        << server: #l tools/list
        << server: #a tools/call {{"name":"x"}}
        << server: #b tools/call {{"name":"y"}}
        >> server: #l = {TOOLS}
    """)


@pytest.mark.parametrize(
    "text",
    ["prompts/get", "resources/read", 'resources/subscribe {"uri":"u"}', "x/unknown"],
)
def test_any_other_request_starts_a_server(text: str) -> None:
    open_absent(f"{GREETED}\n>> host: 2 {text}\n<< start server")


def test_a_client_of_another_kind_is_not_answered_from_memory() -> None:
    open_absent("""
        >> host: 0 initialize {"protocolVersion":"2","capabilities":{}}
        << start server
    """)


def test_a_server_that_is_starting_is_not_waited_for() -> None:
    open_absent(
        f"""
        {GREETED}
        >> host: 2 tools/call {{"name":"x"}}
        >> started server
        << server: #l tools/list
        << server: #a tools/call {{"name":"x"}}
        """,
        is_started=True,
    )


def test_a_modern_host_gets_what_is_left_of_the_time_to_live() -> None:
    params = f'{{"_meta":{META}}}'
    open_absent(
        f"""
        >> host: 0 server/discover {params}
        << host: 0 = {OFFERED}
        >> host: 1 tools/list {params}
        << host: 1 = {{"tools":[{{"name":"x"}}],"ttlMs":2000,"cacheScope":"private"}}
        >> after 9
        >> host: 2 tools/list {params}
        << host: 2 = {{"tools":[{{"name":"x"}}],"ttlMs":0,"cacheScope":"private"}}
        >> host: 3 server/discover {params}
        << host: 3 = {OFFERED}
        >> host: 4 tools/call {{"_meta":{META},"name":"x"}}
        << start server
        >> host: 5 server/discover {params}
        << host: 5 = {OFFERED}
        """,
        handshakes=remember(age=3.0),
    )


def test_a_stream_of_list_changes_is_held_and_any_other_starts_a_server() -> None:
    open_absent(f"""
        >> host: 0 server/discover {{"_meta":{META}}}
        << host: 0 = {OFFERED}
        >> host: 1 subscriptions/listen {{"notifications":{{"toolsListChanged":true,"promptsListChanged":true}}}}
        << host: notifications/subscriptions/acknowledged {{"_meta":{{"io.modelcontextprotocol/subscriptionId":1}},"notifications":{{"toolsListChanged":true}}}}
        >> host: 2 subscriptions/listen {{"notifications":{{"resourceSubscriptions":["u"]}}}}
        << start server
        >> started server
        << server: #s subscriptions/listen {{"notifications":{{"toolsListChanged":true,"promptsListChanged":true}}}}
        << server: #t subscriptions/listen {{"notifications":{{"resourceSubscriptions":["u"]}}}}
        >> server: notifications/subscriptions/acknowledged {{"_meta":{{"io.modelcontextprotocol/subscriptionId":#s}}}}
    """)


# A start that fails

REASON = "[mcp-launch] it cannot be started — fix: install it; after that, call again"


def test_the_next_attempts_come_later_and_later() -> None:
    playbook = open_absent()
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        playbook.play(f"""
            >> host: 2 tools/call {{"name":"x"}}
            << start server
            >> failed server
            << forget
            << host: 2 refused {REASON} (a call in {wait} s or later starts it again)
            >> after {wait - 0.5}
            >> host: 3 tools/call {{"name":"x"}}
            << host: 3 refused {REASON} (a call in 1 s or later starts it again)
            >> host: 4 ping
            << host: 4 = {{}}
            >> after 0.5
        """)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (
            ">> server: #i error -1 no\n<< end server: input ended\n>> died server 143",
            "was killed by signal 15 after it had refused the handshake",
        ),
        (
            ">> after 120\n<< end server: input ended\n>> died server 143",
            "was killed by signal 15 after it had not answered the handshake for 120 s",
        ),
        (">> died server 1", "ended with exit code 1 before it answered"),
    ],
    ids=["greeting refused", "greeting not answered", "died"],
)
def test_a_server_that_does_not_get_ready_fails_the_call_and_the_launch_goes_on(
    how: str, why: str
) -> None:
    open_absent(
        f"""
        {GREETED}
        >> host: 2 tools/call {{"name":"x"}}
        << start server
        >> started server
        << server: #i initialize {HELLO}
        {how}
        << forget
        << host: 2 refused [mcp-launch] srv {why} — fix: see its output; after that, call again (a call in 1 s or later starts it again)
        >> host: 3 ping
        << host: 3 = {{}}
        >> after 1
        >> host: 4 tools/call {{"name":"x"}}
        << start server
        """,
        greeting="",
    )


def test_a_modern_server_that_dies_before_it_has_listed_its_tools_fails_the_call() -> None:
    listed = f'tools/list {{"_meta":{META}}}'
    called = f'tools/call {{"_meta":{META},"name":"x"}}'
    refused = """{"jsonrpc":"2.0","id":2,"result":{…[mcp-launch] srv ended with exit code 1 before it answered … (a call in 1 s or later…}}"""
    open_absent(f"""
        >> host: 0 server/discover {{"_meta":{META}}}
        << host: 0 = {OFFERED}
        >> host: 1 {listed}
        << host: 1 = {{"tools":[{{"name":"x"}}],…}}
        >> host: 2 {called}
        << start server
        >> started server
        << server: #l {listed}
        << server: #a {called}
        >> died server 1 | #l {listed} | #a {called}
        << forget
        << host: {refused}
        >> after 1
        >> host: 3 {called}
        << start server
    """)


def test_a_call_fails_if_no_server_can_be_planned() -> None:
    playbook = open_absent()
    playbook.plan_problem = "no such variable"
    playbook.play("""
        >> host: 2 tools/call {"name":"x"}
        << forget
        << host: 2 refused [mcp-launch] no such variable — fix: plan again; after that, call again …
    """)


# The end


@pytest.mark.parametrize(
    ("event", "code"),
    [("input ended host", 0), ("host lost now", 0), ("reader lost host", 0), ("signal 15", 143)],
)
def test_without_a_server_the_launch_ends_at_once(event: str, code: int) -> None:
    playbook = open_absent()
    playbook.happen(event)

    assert playbook.take()[-1] == f"leave host: {code}"


def test_a_call_that_waits_for_a_server_is_answered_before_the_end_of_the_input() -> None:
    open_absent(f"""
        {GREETED}
        >> host: 2 tools/call {{"name":"x"}}
        << start server
        >> input ended host
        >> started server
        << server: #l tools/list
        << server: #a tools/call {{"name":"x"}}
        << close server
        >> server: #a = {{}}
        << host: 2 = {{}}
        >> died server 0
        << keep 2 answers
        << leave host: 0
    """)


# Lists that have changed


def test_a_changed_list_is_announced_and_the_server_says_what_is_gone() -> None:
    open_absent(f"""
        {GREETED + WOKEN}
        >> server: #l = {CHANGED}
        << host: notifications/tools/list_changed
        >> server: #a error -32602 no tool x
        << host: 2 error -32602 no tool x
        >> host: 3 tools/list
        << server: #b tools/list
        >> server: #b = {CHANGED}
        << host: 3 = {CHANGED}
        >> died server 0
        >> host: 4 tools/list
        << host: 4 = {CHANGED}
    """)


def test_an_old_memory_is_compared_in_the_background_for_a_host_that_ignores_changes() -> None:
    store = remember(is_due=True)
    open_absent(
        f"""
        >> host: 0 initialize {HELLO}
        << host: 0 = {OFFERED}
        << start server
        >> host: notifications/initialized
        >> host: 1 tools/list
        << host: 1 = {TOOLS}
        >> started server
        << server: #l tools/list
        >> server: #l = {CHANGED}
        << host: notifications/tools/list_changed
        >> after 1
        << keep 2 answers
        >> after 9
        << close server
        << end server: rest
        >> gone server
        >> host: 2 tools/call {{"name":"y"}}
        << start server
        """,
        handshakes=store,
        ignores_changes=True,
    )

    assert len(store.checked) == 1


# What is learnt

LISTED = f"""
    >> started server
    >> host: 0 initialize {HELLO}
    << host: 0 = {OFFERED}
    >> host: 1 tools/list
    << server: #a tools/list
    >> server: #a = {TOOLS}
    << host: 1 = {TOOLS}
"""


@pytest.mark.parametrize(
    ("event", "then"),
    [
        ("input ended host", "<< close server"),
        ("signal 15", "<< signal server: 15"),
    ],
    ids=["end of input", "signal"],
)
def test_what_was_learned_is_kept_before_the_server_is_ended(event: str, then: str) -> None:
    Playbook(handshakes=Store()).play(f"{LISTED}\n>> {event}\n<< keep 2 answers\n{then}")


def test_what_was_never_kept_is_kept_at_once_and_more_of_it_later() -> None:
    # Codex 0.125 kills its servers at the end of a session, which may be a short one.
    Playbook(handshakes=Store()).play(f"""
        {LISTED}
        >> after 0
        << keep 2 answers
        >> host: 2 prompts/list
        << server: #b prompts/list
        >> server: #b = {{"prompts":[]}}
        << host: 2 = {{"prompts":[]}}
        >> after 0.9
        >> after 0.1
        << keep 3 answers
    """)


@pytest.mark.parametrize(
    "call", ['tools/call {"name":"x"}', "resources/read"], ids=["call", "other request"]
)
def test_what_a_server_answers_after_a_call_is_not_kept(call: str) -> None:
    Playbook(handshakes=Store()).play(f"""
        {LISTED}
        >> after 0
        << keep 2 answers
        >> host: 2 {call}
        << server: #b {call}
        >> server: #b = {{}}
        << host: 2 = {{}}
        >> host: 3 tools/list
        << server: #c tools/list
        >> server: #c = {CHANGED}
        << host: 3 = {CHANGED}
        >> after 10
    """)


def test_what_a_server_answers_that_others_have_called_is_not_kept() -> None:
    Playbook(handshakes=Store(), is_used_by_others=lambda _: True).play(f"{LISTED}\n>> after 10")


def test_a_list_that_is_asked_for_after_a_stream_was_opened_is_kept() -> None:
    # Claude Code 2.1.327 opens the stream first, and greets the server a second time.
    Playbook(handshakes=Store()).play(f"""
        >> started server
        >> host: 0 server/discover {{"_meta":{META}}}
        << server: #a server/discover …
        >> server: #a = {{"ttlMs":0}}
        << host: 0 = {{"ttlMs":0}}
        >> host: 1 subscriptions/listen {{"_meta":{META},"notifications":{{}}}}
        << server: #b subscriptions/listen …
        >> host: 2 tools/list {{"_meta":{META}}}
        << server: #c tools/list …
        >> server: #c = {{"tools":[{{"name":"x"}}],"ttlMs":0}}
        << host: 2 = {{"tools":[{{"name":"x"}}],"ttlMs":0}}
        >> after 0
        << keep 2 answers
    """)


# Rest

# The call was answered, and a minute has passed without another.
IDLE = f"""
    {GREETED + WOKEN}
    >> server: #l = {TOOLS}
    >> server: #a = {{}}
    << host: 2 = {{}}
    >> after 59
    << keep 2 answers
"""
ENDED = """
    >> after 1
    << close server
    << end server: rest
"""


def open_idle(script: str = "", **settings: Any) -> Playbook:
    """Return a playbook whose server was called once, 59 seconds ago."""
    return open_absent(
        IDLE + script, **({"rests_after": 60.0, "starts_when_called": False} | settings)
    )


def test_the_next_call_starts_it_again_and_the_host_does_not_notice() -> None:
    playbook = open_idle(f"""
        {ENDED}
        >> died server 143
        >> host: 3 tools/list
        << host: 3 = {TOOLS}
        >> host: 4 tools/call {{"name":"x"}}
        << start server
        >> started server
        << server: #m tools/list
        << server: #b tools/call {{"name":"x"}}
        >> server: #m = {TOOLS}
    """)

    history = playbook.server.history
    assert (history.starts, history.wakes, history.deaths) == (2, 1, [])


def test_what_comes_while_it_is_ended_is_served_by_the_next() -> None:
    open_idle(f"""
        {ENDED}
        >> host: 3 tools/call {{"name":"x"}}
        >> host: 4 ping
        << host: 4 = {{}}
        >> died server 143
        << start server
    """)


def test_a_call_that_came_in_the_meantime_puts_it_off() -> None:
    open_idle("""
        >> host: 3 tools/call {"name":"x"}
        << server: #b tools/call {"name":"x"}
        >> server: #b = {}
        << host: 3 = {}
        >> after 59
        >> after 1
        << close server
        << end server: rest
    """)


@pytest.mark.parametrize("text", ["3 ping", "3 tools/list", "notifications/roots/list_changed"])
def test_chatter_does_not_keep_it_awake(text: str) -> None:
    playbook = open_idle()
    playbook.happen(f"host: {text}")
    playbook.core.out.clear()
    playbook.happen(f"server: {playbook.core.counts.numbers} = {TOOLS}")
    playbook.take()

    playbook.play(ENDED)


OPEN = {
    "a call": ">> host: 3 tools/call {}\n<< server: #b tools/call {}",
    "a question": ">> server: 3 roots/list\n<< host: #q roots/list",
    "a subscription": """
        >> host: 3 resources/subscribe {"uri":"u"}
        << server: #b resources/subscribe {"uri":"u"}
        >> server: #b = {}
        << host: 3 = {}
    """,
    "a task": """
        >> host: 3 tools/call {}
        << server: #b tools/call {}
        >> server: #b = {"task":{"taskId":"t","status":"working"}}
        << host: 3 = {"task":{"taskId":"t","status":"working"}}
    """,
    "another stream": """
        >> host: 3 subscriptions/listen {"notifications":{"resourceSubscriptions":["u"]}}
        << server: #b subscriptions/listen {"notifications":{"resourceSubscriptions":["u"]}}
    """,
}


@pytest.mark.parametrize("script", list(OPEN.values()), ids=list(OPEN))
@pytest.mark.parametrize("rest_anyway", [True, False])
def test_a_server_never_rests_while_anything_is_open(script: str, *, rest_anyway: bool) -> None:
    open_idle(f"{script}\n>> after 600", rest_anyway=rest_anyway)


def test_a_task_that_is_finished_lets_it_rest() -> None:
    open_idle(
        f"""
        {OPEN["a task"]}
        >> server: notifications/tasks/status {{"taskId":"t","status":"working"}}
        << host: notifications/tasks/status {{"taskId":"t","status":"working"}}
        >> host: 4 tasks/get {{"taskId":"t"}}
        << server: #c tasks/get {{"taskId":"t"}}
        >> server: #c = {{"taskId":"t","status":"completed"}}
        << host: 4 = {{"taskId":"t","status":"completed"}}
        >> after 100
        << close server
        << end server: rest
    """,
        rest_anyway=True,
    )


def test_a_sign_of_state_keeps_it_awake_and_is_logged_once() -> None:
    playbook = open_idle(
        ">> after 600", find_state=lambda _: "it has a child process, chrome (pid 7)"
    )

    assert [note for note in playbook.notes if "chrome" in note] == [
        "the server does not rest: it has a child process, chrome (pid 7), so it may keep state"
    ]


@pytest.mark.parametrize(
    "text", ['notifications/message {"data":"tick"}', "notifications/tools/list_changed"]
)
def test_a_notification_that_nothing_has_led_to_keeps_it_awake(text: str) -> None:
    open_idle(f">> server: {text}\n<< host: {text}\n>> after 600")


def test_signs_are_ignored_on_request() -> None:
    open_idle(ENDED, rest_anyway=True, find_state=lambda _: "it listens on a socket")


def test_a_server_that_was_never_called_rests_whatever_it_shows() -> None:
    open_playbook(
        ">> after 60\n<< close server\n<< end server: rest",
        rests_after=60.0,
        find_state=lambda _: "it listens on a socket",
    )


def test_a_stream_of_list_changes_lets_it_rest_and_stays_open() -> None:
    stream = 'subscriptions/listen {"notifications":{"toolsListChanged":true}}'
    confirmed = (
        "notifications/subscriptions/acknowledged "
        '{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}'
    )
    Playbook(rests_after=60.0).play(f"""
        >> started server
        >> host: 0 server/discover {{"_meta":{META}}}
        << server: #a server/discover {{"_meta":{META}}}
        >> server: #a = {OFFERED}
        << host: 0 = {OFFERED}
        >> host: 1 {stream}
        << server: #s {stream}
        >> server: {confirmed % "#s"}
        << host: {confirmed % 1}
        >> after 60
        << close server
        << end server: rest
        >> server: #s = {{}}
        >> gone server
        >> host: 2 tools/call {{"name":"x"}}
        << start server
        >> started server
        << server: #s {stream}
        << server: #b tools/call {{"name":"x"}}
        >> server: {confirmed % "#s"}
    """)


@pytest.mark.parametrize(("event", "code"), [("input ended host", 0), ("signal 15", 143)])
def test_the_end_of_the_host_ends_a_launch_whose_server_rests(event: str, code: int) -> None:
    playbook = open_idle(f"{ENDED}\n>> died server 143")
    playbook.happen(event)

    assert playbook.take()[-1] == f"leave host: {code}"
