"""How old and how large something is: said, and understood."""

from __future__ import annotations

from datetime import datetime

import pytest

from mcp_launch.errors import UsageError
from mcp_launch.machine import units
from mcp_launch.machine.units import Memory


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "unknown"),
        (-1, "0s"),
        (0.9, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3600, "1h"),
        (3605, "1h"),
        (3660, "1h 1m"),
        (90061, "1d 1h"),
        (86400 + 60, "1d"),
    ],
)
def test_an_age_is_said_in_its_two_largest_units(seconds: float | None, told: str) -> None:
    assert units.tell_age(seconds) == told


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (9_949_000, "9.9 MB"),
        (10_000_000, "10 MB"),
        (2_500_000_000, "2.5 GB"),
    ],
)
def test_a_size_has_two_digits_or_more(amount: int, told: str) -> None:
    assert units.tell_size(amount) == told


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([], "0 bytes PSS"),
        ([Memory(1000), Memory(500)], "1.5 kB PSS"),
        ([Memory(1000), Memory(500, "RSS")], "1.5 kB RSS"),
    ],
    ids=["nothing", "shared out", "one is only known as RSS"],
)
def test_a_sum_is_no_better_known_than_its_parts(parts: list[Memory], whole: str) -> None:
    assert str(units.add_up(parts)) == whole


def test_a_process_that_does_not_exist_holds_nothing() -> None:
    assert units.measure((1 << 22) + 1) == Memory(0)


# Moments, as users write them.

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
