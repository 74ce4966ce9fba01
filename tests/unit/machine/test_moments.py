"""Moments, as users write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from mcp_launch.errors import UsageError
from mcp_launch.machine import units

NOW = datetime(2026, 11, 17, 12, 0).astimezone().timestamp()


@pytest.mark.parametrize(
    ("text", "seconds_ago"),
    [
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("10:00", 7200),
        ("10:00:30", 7170),
        ("13:00", 23 * 3600),  # yesterday's
        ("2026-11-17T10:00", 7200),
        ("2026-11-17 10:00", 7200),
        ("2026-11-16", 36 * 3600),
    ],
)
def test_a_time_is_an_age_a_clock_or_a_date(text: str, seconds_ago: float) -> None:
    assert units.read_moment(text, NOW) == NOW - seconds_ago


@pytest.mark.parametrize("text", ["yesterday", "10", "25:00", "m", "-10m"])
def test_what_is_not_a_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        units.read_moment(text, NOW)

    assert "is not a time" in caught.value.problem
    assert "10m, 2h or 1d" in caught.value.fix
