"""Recorded launches of an earlier core: the broker does the same, event by event."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import launch_outcomes
import playbooks
import pytest
import replays

import mcp_launch.broker
from mcp_launch.broker import backend

if TYPE_CHECKING:
    from playbooks import Playbook

RECORDED = Path(__file__).parents[2] / "playbooks" / "recorded"
RECORDINGS = sorted(RECORDED.glob("*/*.playbook"))

LAST = "an answer says how to get a server back that is not started again"

# Intended differences: the recording, what differs in it, and why.
INTENDED = {
    "test_a_server_that_is_started_for_nobody_is_ended": (
        {"host"},
        "a request that is open when we end its server gets an error, not just the end",
    ),
    "test_the_host_is_asked_where_it_works": (
        {"progress", "server-1"},
        "the project of a session that works elsewhere is not that of its server",
    ),
    "test_a_server_that_no_longer_reads_ends_the_launch_when_it_ends": ({"host"}, LAST),
    "test_a_dead_server_stays_dead_if_asked": ({"host"}, LAST),
    "test_a_host_that_hung_up_is_told_how_the_server_died": ({"host"}, LAST),
    "test_a_server_that_dies_again_and_again_ends_the_launch": ({"host"}, LAST),
}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_broker_behaves_as_recorded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    playbook = playbooks.read(path)
    limits = playbook.head["constants"]
    monkeypatch.setattr(backend, "DRAIN_LIMIT", limits["broker.replacement.DRAIN_LIMIT"])
    monkeypatch.setattr(backend, "LINE_LIMIT", limits["broker.replacement._LINE_LIMIT"])
    monkeypatch.setattr(mcp_launch.broker, "_DYING", limits["runtime.relay._DYING"])

    intended, _ = INTENDED.get(path.stem, (set(), ""))
    differences = find_differences(playbook)

    assert differences.keys() == intended, differences


@pytest.mark.parametrize(
    ("party", "verb", "value", "name"),
    [
        ("host", "data", b"something else", "host"),
        ("server-2", "data", b"something else", "server-2"),
        ("server-1", "replaced", None, "ends"),
        ("plan", "wanted", {"session": ["another"], "thread": {}, "place": ["/"]}, "wanted"),
        ("launch", "exit", 7, "exit_code"),
    ],
)
def test_a_difference_is_found(party: str, verb: str, value: object, name: str) -> None:
    recording = "test_another_thread_gets_a_server_of_its_own_if_asked"
    playbook = playbooks.read(RECORDED / "test_replacement" / f"{recording}.playbook")
    steps = playbook.steps
    said = [at for at, step in enumerate(steps) if (step.party, step.verb) == (party, verb)]
    at = next(at for at in reversed(said) if not steps[at].is_input)
    changed = "input-ended" if verb == "replaced" else verb
    expected = [*steps[:at], replace(steps[at], verb=changed, value=value), *steps[at + 1 :]]
    came_out = replays.Replay(playbook).run()

    recorded = launch_outcomes.describe_recording(replace(playbook, steps=expected))

    assert name in recorded.list_differences(came_out)


def find_differences(playbook: Playbook) -> dict[str, tuple[object, object]]:
    """Return the differences by name: the recorded value, and the current one."""
    recorded = launch_outcomes.describe_recording(playbook)
    return recorded.list_differences(replays.Replay(playbook).run())
