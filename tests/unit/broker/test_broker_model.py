"""A broker keeps its promises in random schedules, which a model checks.

To run more: MCP_LAUNCH_TEST_EXAMPLES=4000.
"""

from __future__ import annotations

import os
from collections import Counter

import broker_schedules
import pytest

# Each example is a seed; a run of the suite takes seconds.
EXAMPLES = int(os.environ.get("MCP_LAUNCH_TEST_EXAMPLES", "40"))
PARTS = 4


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_request_is_answered_once_by_the_right_server_whatever_happens(part: int) -> None:
    count = EXAMPLES * 10
    with broker_schedules.small_limits():
        for seed in range(part * count, (part + 1) * count):
            try:
                broker_schedules.run(seed)
            except Exception as error:  # noqa: BLE001  # also an exception in the broker
                pytest.fail(f"{error!r}\n{broker_schedules.explain(seed)}")


def test_the_schedules_reach_every_event_they_are_meant_to_test() -> None:
    counts: Counter[str] = Counter()
    with broker_schedules.small_limits():
        for seed in range(1500):
            broker_schedules.tally(broker_schedules.run(seed), counts)

    assert all(counts.values()), counts
