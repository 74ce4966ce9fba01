"""A broker's phases: serving, ending, failed, finished; each is left forward only."""

from __future__ import annotations

import itertools

import pytest
from broker_playbooks import Playbook, open_playbook

PHASES = ["serving", "ending", "failed", "finished"]

# Each event is followed by the phase that it leads to.
STORIES = {
    "the host closes its end, and the server ends": [
        ("host closed host", "serving"),
        ("exited server 0", "serving"),
        ("gone server", "finished"),
    ],
    "a server that dies is replaced": [
        ("exited server 1", "serving"),
        ("gone server", "serving"),
        ("started server", "serving"),
    ],
    "the next server cannot be started": [
        ("gone server", "serving"),
        ("start failed server", "failed"),
        ("host: 1 ping", "failed"),
        ("timer linger", "finished"),
    ],
    "a failed launch ends when the host closes its end": [
        ("gone server", "serving"),
        ("start failed server", "failed"),
        ("host closed host", "finished"),
    ],
    "the next server refuses the greeting": [
        ("gone server", "serving"),
        ("started server", "serving"),
        ('server: "mcp-launch/L/1" error -1 no', "ending"),
        ("gone server", "failed"),
        ("timer linger", "finished"),
    ],
    "the next server does not answer the greeting": [
        ("gone server", "serving"),
        ("started server", "serving"),
        ("timer greeting server", "ending"),
        ("host: 1 ping", "ending"),
        ("gone server", "failed"),
    ],
    "a signal": [
        ("signal 15", "ending"),
        ("host: 1 ping", "ending"),
        ("gone server", "finished"),
    ],
    "a signal, and a server that does not end in time": [
        ("signal 15", "ending"),
        ("timer leave", "finished"),
        ("gone server", "finished"),
    ],
    "the host is lost": [
        ("host lost host", "ending"),
        ("host closed host", "ending"),
        ("gone server", "finished"),
    ],
    "the host does not read any more": [
        ("reader lost host", "ending"),
        ("gone server", "finished"),
    ],
    "a server that goes on after the end of its input": [
        ("host closed host", "serving"),
        ("after 40", "serving"),
        ("timer grace", "ending"),
        ("gone server", "finished"),
    ],
    "a server that closes its stdout and lives on": [
        ("output closed by server", "serving"),
        ("timer output server", "ending"),
        ("gone server", "finished"),
    ],
    "a server that closes its stdin and lives on": [
        ("input closed by server", "serving"),
        ("timer input server", "serving"),
        ("gone server", "finished"),
    ],
    "a call in flight does not keep an ending broker": [
        ("host: 1 tools/call", "serving"),
        ("signal 15", "ending"),
        ("gone server", "finished"),
        ("host: 2 tools/call", "finished"),
    ],
}


def play(playbook: Playbook, story: list[tuple[str, str]]) -> list[str]:
    """Return the phase after each event."""
    phases: list[str] = []
    for event, _ in story:
        playbook.play_event(event)
        playbook.take()
        phases.append(playbook.broker.phase)
    return phases


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
def test_each_event_leads_to_its_phase(story: list[tuple[str, str]]) -> None:
    assert play(open_playbook(), story) == [phase for _, phase in story]


def test_a_dead_server_ends_a_launch_that_may_not_restart_it() -> None:
    story = [("exited server 3", "serving"), ("gone server", "finished")]

    assert play(open_playbook(restart="off"), story) == [phase for _, phase in story]


def test_a_waiting_request_makes_the_end_of_such_a_launch_a_failure() -> None:
    playbook = open_playbook(restart="off")
    story = [
        ("host: 1 ping", "serving"),
        ("gone server | 1 ping", "failed"),
        ("timer linger", "finished"),
    ]

    assert play(playbook, story) == [phase for _, phase in story]


def test_a_server_that_never_starts_fails_the_launch() -> None:
    story = [("start failed server", "failed"), ("host closed host", "finished")]

    assert play(Playbook(), story) == [phase for _, phase in story]


def test_a_server_that_ends_before_it_has_answered_fails_the_launch() -> None:
    story = [
        ("started server", "serving"),
        ("host: 0 initialize", "serving"),
        ("exited server 1", "serving"),
        ("gone server", "failed"),
    ]

    assert play(Playbook(), story) == [phase for _, phase in story]


@pytest.mark.parametrize(("before", "after"), [*itertools.product(PHASES, PHASES)])
def test_no_phase_is_entered_again(before: str, after: str) -> None:
    broker = open_playbook().broker
    broker.enter(before)  # type: ignore[arg-type]
    broker.enter(after)  # type: ignore[arg-type]

    assert PHASES.index(broker.phase) == max(PHASES.index(before), PHASES.index(after))


def test_a_finished_broker_finishes_once_whatever_happens() -> None:
    for events in itertools.permutations(
        ["gone server", "timer leave", "host closed host", "host lost host"]
    ):
        playbook = open_playbook()
        playbook.play_event("signal 15")
        done = playbook.take()
        for event in events:
            playbook.play_event(event)
            done += playbook.take()

        assert playbook.broker.phase == "finished"
        assert sum(one.startswith("finish") for one in done) == 1, (events, done)
