"""Thousands of random schedules of a pool, in which everyone may leave or die at any moment."""

from __future__ import annotations

import os

import pytest
from pool_model import run_schedule

from mcp_launch.broker.pool import client_lines

# How many schedules a run of the suite plays; set the variable to play more, from another seed.
SCHEDULES = int(os.environ.get("POOL_SCHEDULES", "1200"))
FIRST = int(os.environ.get("POOL_FIRST_SEED", "0"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_each_session_gets_its_own_and_all_of_it(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Limits that a schedule reaches.
    monkeypatch.setattr(client_lines, "IN_FLIGHT_LIMIT", 5)
    monkeypatch.setattr(client_lines, "WAITING_LIMIT", 600)
    for seed in range(FIRST + part, FIRST + SCHEDULES, PARTS):
        run_schedule(seed)
