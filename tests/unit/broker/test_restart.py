"""A restart on request replaces a server below a living connection."""

from __future__ import annotations

import pytest
from broker_playbooks import Playbook, open_playbook

from mcp_launch.broker.replacement import WAIT_LIMIT

RESTART = """
    >> restart requested
    << timer drain server: 10
    << close input of server
    << end server: replaced
"""
NEXT = """
    >> gone server
    << start server
    >> started server
    << timer greeting server: 120
    << server: "mcp-launch/L/{0}" initialize …
"""
READY = """
    >> server: "mcp-launch/L/{0}" = {{}}
    << server: notifications/initialized
"""


def count_requests(playbook: Playbook) -> int:
    return playbook.broker.backends["server"].restart_requests


def test_open_requests_are_answered_first_and_new_ones_wait_for_the_next_server() -> None:
    playbook = open_playbook()
    playbook.play("""
        >> host: 1 tools/call {}
        << server: 1 tools/call {}
        >> restart requested
        << timer drain server: 10
        >> host: 2 tools/call {}
        >> server: 1 = {}
        << host: 1 = {}
        << close input of server
        << end server: replaced
    """)
    playbook.play(NEXT.format(1))
    playbook.play("""
        >> server: "mcp-launch/L/1" = {}
        << server: notifications/initialized
        << server: 2 tools/call {}
    """)


def test_a_request_that_takes_too_long_is_answered_with_the_reason() -> None:
    playbook = open_playbook()
    playbook.play("""
        >> host: 1 tools/call {}
        << server: 1 tools/call {}
        >> restart requested
        << timer drain server: 10
        >> timer drain server
        << host: 1 refused … was replaced, because a restart was requested; tools/call was not …
        << close input of server
        << end server: replaced
    """)


@pytest.mark.parametrize("events", ["", ">> gone server\n<< start server"], ids=["ending", "gone"])
def test_another_request_meanwhile_is_the_same_one(events: str) -> None:
    playbook = open_playbook()
    playbook.play(f"{RESTART}\n{events}\n>> restart requested\n")

    playbook.play(
        NEXT.format(1).replace(">> gone server\n    << start server", "")
        if events
        else NEXT.format(1)
    )
    playbook.play(">> restart requested\n" + READY.format(1))

    assert count_requests(playbook) == 1


def test_a_server_that_has_not_answered_its_host_is_replaced_as_soon_as_it_has() -> None:
    playbook = Playbook()
    playbook.play("""
        >> started server
        >> host: 0 initialize {}
        << server: 0 initialize {}
        >> restart requested
        << timer restart server: 0.1
        >> timer restart server
        << timer restart server: 0.1
        >> server: 0 = {}
        << host: 0 = {}
        >> timer restart server
        << timer drain server: 10
        << close input of server
        << end server: replaced
    """)


def test_a_server_that_never_answers_its_host_is_not_waited_for_for_ever() -> None:
    playbook = Playbook()
    playbook.play(f"""
        >> started server
        >> host: 0 initialize {{}}
        << server: 0 initialize {{}}
        >> restart requested
        << timer restart server: 0.1
        >> after {WAIT_LIMIT:g}
        >> timer restart server
    """)

    assert "not restarted: it has not answered its host yet" in playbook.notes
    assert count_requests(playbook) == 1


def test_if_the_next_server_fails_the_launch_goes_on_and_the_next_request_tries_again() -> None:
    playbook = open_playbook()
    playbook.play(RESTART)
    playbook.play("""
        >> gone server
        << start server
        >> host: 1 tools/call {}
        >> start failed server
        << host: 1 refused … after that, call again …
    """)
    backend = playbook.broker.backends["server"]
    assert (backend.state, count_requests(playbook)) == ("absent", 1)
    playbook.play("""
        >> host: 2 tools/call {}
        << host: 2 refused … after that, call again …
        >> restart requested
        << start server
    """)
    playbook.play(NEXT.format(1).replace(">> gone server\n    << start server", ""))
    playbook.play(READY.format(1))

    assert count_requests(playbook) == 2


@pytest.mark.parametrize("event", ["host closed host", "host lost now", "reader lost host"])
def test_no_server_is_replaced_for_a_host_that_is_leaving(event: str) -> None:
    playbook = open_playbook()
    playbook.play_event(event)
    playbook.take()

    playbook.play(">> restart requested")
