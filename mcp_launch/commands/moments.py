"""Moments, as users write them and as tables show them."""

from __future__ import annotations

from datetime import datetime, timedelta

from mcp_launch.errors import UsageError, printable
from mcp_launch.machine import units


def read_moment(text: str, now: float) -> float:
    """Return the time that `10m`, `2026-11-17T10:00` or `10:00` stands for, since 1970.

    Raises:
        UsageError: It is none of these.

    """
    if text[-1:] in "smhd" and text[:-1].isdigit():
        return now - units.read_age(text)
    try:
        if text[:2].isdigit() and text[2:3] == ":":
            today = datetime.fromtimestamp(now).astimezone()
            clock = datetime.fromisoformat(f"{today:%Y-%m-%d}T{text}").astimezone()
            # Later than now: yesterday's.
            return (clock - timedelta(days=clock > today)).timestamp()
        return datetime.fromisoformat(text).timestamp()  # local, unless it names a zone
    except ValueError:
        raise UsageError(
            f"{printable(text)!r} is not a time",
            fix="write an age, as in 10m, 2h or 1d, or a time, as in 10:00 or 2026-11-17T10:00",
        ) from None


def tell_clock(moment: float, *, is_short: bool, is_exact: bool = False) -> str:
    """Return a moment as local time, without its date if that is today and it is to be short."""
    local = datetime.fromtimestamp(moment).astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    clock = f"{local:%H:%M:%S}" if is_short and is_today else f"{local:%m-%d %H:%M:%S}"
    return f"{clock}.{local.microsecond // 1000:03}" if is_exact else clock
