"""A broker with a server for each session keeps its promises in random schedules.

To run more: MCP_LAUNCH_TEST_EXAMPLES=4000.
"""

from __future__ import annotations

import os
from collections import Counter

import isolation_schedules
import pytest
from broker_schedules import small_limits

# Each example is ten seeds; a run of the suite takes seconds.
EXAMPLES = int(os.environ.get("MCP_LAUNCH_TEST_EXAMPLES", "40"))
PARTS = 2


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_session_is_answered_once_by_its_own_server_whatever_happens(part: int) -> None:
    count = EXAMPLES * 10
    with small_limits():
        for seed in range(part * count, (part + 1) * count):
            try:
                isolation_schedules.run(seed)
            except Exception as error:  # noqa: BLE001  # also an exception in the broker
                pytest.fail(f"{error!r}\n{isolation_schedules.explain(seed)}")


def test_the_schedules_reach_every_event_they_are_meant_to_test() -> None:
    counts: Counter[str] = Counter()
    with small_limits():
        for seed in range(1000):
            isolation_schedules.tally(isolation_schedules.run(seed), counts)

    assert all(counts.values()), counts
