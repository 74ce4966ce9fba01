"""A server that nobody calls is ended, and started again by the next call."""

from __future__ import annotations

import pytest
from broker_playbooks import Playbook
from remembered_servers import CALLED, CLIENT, GREETED, META, OFFERED, TOOLS, open_absent

# The call was answered, and a minute has passed without another.
IDLE = f"""
    {GREETED}
    {CALLED.rstrip()}
    << timer rest server: 60
    >> server: 2 = {{}}
    << host: 2 = {{}}
    >> after 60
"""
ENDED = """
    >> timer rest server
    << close input of server
    << end server: rest
"""
AWAKE = """
    >> timer rest server
    << timer rest server: 60
"""


def open_idle(script: str = "", **settings: object) -> Playbook:
    """Return a playbook whose server was called once, a minute ago."""
    return open_absent(IDLE + script, rests_after=60.0, **settings)


def test_the_next_call_starts_it_again_and_the_host_does_not_notice() -> None:
    open_idle(ENDED).play(f"""
        >> gone server
        >> host: 3 tools/list
        << host: 3 = {TOOLS}
        >> host: 4 tools/call {{"name":"x"}}
        << start server
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/3" initialize {CLIENT}
        >> server: "mcp-launch/L/3" = {OFFERED}
        << timer remember host: 1
        << server: notifications/initialized
        << server: "mcp-launch/L/4" tools/list
        << timer compare server: 2
        >> server: "mcp-launch/L/4" = {TOOLS}
        << timer remember host: 1
        << server: 4 tools/call {{"name":"x"}}
        << timer rest server: 60
    """)


def test_what_comes_while_it_is_ended_is_served_by_the_next() -> None:
    open_idle(ENDED).play("""
        >> host: 3 tools/call {"name":"x"}
        >> host: 4 ping
        << host: 4 = {}
        >> exited server 143
        >> gone server
        << start server
    """)


def test_a_call_that_came_in_the_meantime_puts_it_off() -> None:
    open_idle("""
        >> host: 3 tools/call {"name":"x"}
        << server: 3 tools/call {"name":"x"}
        >> server: 3 = {}
        << host: 3 = {}
        >> after 20
        >> timer rest server
        << timer rest server: 40
    """)


@pytest.mark.parametrize(
    "text", ["3 ping", "3 tools/list", "notifications/roots/list_changed"], ids=str
)
def test_chatter_does_not_keep_it_awake(text: str) -> None:
    playbook = open_idle()
    playbook.play_event(f"host: {text}")
    playbook.play_event("server: 3 = {}")
    playbook.take()

    playbook.play(ENDED)


@pytest.mark.parametrize(
    "script",
    [
        '>> host: 3 tools/call {"name":"x"}\n<< server: 3 tools/call {"name":"x"}\n>> after 60',
        '>> server: 3 roots/list\n<< host: "mcp-launch/L/3" roots/list',
        """
            >> host: 3 resources/subscribe {"uri":"u"}
            << server: 3 resources/subscribe {"uri":"u"}
            >> server: 3 = {}
            << host: 3 = {}
            >> after 60
        """,
        """
            >> host: 3 tools/call {"name":"x"}
            << server: 3 tools/call {"name":"x"}
            >> server: 3 = {"task":{"taskId":"t","status":"working"}}
            << host: 3 = {"task":{"taskId":"t","status":"working"}}
            >> after 60
        """,
        ">> server: b'{\"id\":'",
    ],
    ids=["a call", "a request of the server", "a subscription", "a task", "half a line"],
)
@pytest.mark.parametrize("rest_anyway", [True, False])
def test_a_server_never_rests_while_anything_is_open(script: str, *, rest_anyway: bool) -> None:
    open_idle(script, rest_anyway=rest_anyway).play(AWAKE)


def test_a_sign_of_state_keeps_it_awake_and_is_logged_once() -> None:
    playbook = open_idle(AWAKE, find_state=lambda _: "it has a child process, chrome (pid 7)")
    playbook.play(f">> after 60\n{AWAKE}")

    assert [note for note in playbook.notes if "chrome" in note] == [
        "the server does not rest: it has a child process, chrome (pid 7), so it may keep state"
    ]


def test_a_notification_that_nothing_has_led_to_keeps_it_awake() -> None:
    open_idle(f"""
        >> server: notifications/message {{"data":"tick"}}
        << host: notifications/message {{"data":"tick"}}
        {AWAKE}
    """)


def test_signs_are_ignored_on_request() -> None:
    open_idle(ENDED, rest_anyway=True, find_state=lambda _: "it listens on a socket")


def test_a_server_that_was_never_called_rests_whatever_it_shows() -> None:
    playbook = Playbook(rests_after=60.0, find_state=lambda _: "it listens on a socket")
    playbook.play(f"""
        >> started server
        << timer rest server: 60
        >> host: 0 initialize {CLIENT}
        << server: 0 initialize {CLIENT}
        >> server: 0 = {OFFERED}
        << host: 0 = {OFFERED}
        >> host: notifications/initialized
        << server: notifications/initialized
        >> after 60
        {ENDED}
    """)


def test_a_stream_of_list_changes_lets_it_rest_and_stays_open() -> None:
    stream = '{"notifications":{"toolsListChanged":true}}'
    confirmed = (
        'notifications/subscriptions/acknowledged {"_meta":'
        '{"io.modelcontextprotocol/subscriptionId":1}}'
    )
    Playbook(rests_after=60.0).play(f"""
        >> started server
        << timer rest server: 60
        >> host: 0 server/discover {{"_meta":{META}}}
        << server: 0 server/discover {{"_meta":{META}}}
        >> server: 0 = {OFFERED}
        << host: 0 = {OFFERED}
        >> host: 1 subscriptions/listen {stream}
        << server: 1 subscriptions/listen {stream}
        >> server: {confirmed}
        << host: {confirmed}
        >> after 60
        {ENDED}
        >> server: 1 = {{}}
        >> gone server
        >> host: 2 tools/call {{"name":"x"}}
        << start server
        >> started server
        << server: 1 subscriptions/listen {stream}
        << server: 2 tools/call {{"name":"x"}}
        << timer rest server: 60
        >> server: {confirmed}
    """)


@pytest.mark.parametrize(
    ("event", "code"), [("host closed host", 0), ("signal 15", 143)], ids=["closed", "signal"]
)
def test_the_end_of_the_host_ends_a_launch_whose_server_rests(event: str, code: int) -> None:
    playbook = open_idle(ENDED)
    for each in ("exited server 143", "gone server", event):
        playbook.play_event(each)

    assert playbook.take()[-1] == f"finish {code}"
