"""Ages, moments and memory sizes: measured, formatted, and parsed from user input."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from mcp_launch.errors import UsageError, printable
from mcp_launch.launch.options import read_time
from mcp_launch.system import linux

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SIZES = {"GB": 10**9, "MB": 10**6, "kB": 10**3}


class Memory(NamedTuple):
    """How much memory some processes use.

    PSS divides shared pages among their users, so that sums are correct. Where it cannot be
    read we use RSS, which counts shared pages once for every process.
    """

    amount: int = 0  # bytes
    kind: Literal["PSS", "RSS"] = "PSS"

    def __str__(self) -> str:
        """Return the size and its kind, as in `12 MB PSS`."""
        return f"{tell_size(self.amount)} {self.kind}"


def add_up(parts: Iterable[Memory]) -> Memory:
    """Return the sum; a single RSS part makes it RSS."""
    listed = list(parts)
    is_shared_out = all(part.kind == "PSS" for part in listed)
    return Memory(sum(part.amount for part in listed), "PSS" if is_shared_out else "RSS")


def measure(pid: int) -> Memory:
    """Return the memory of a process; zero if it has exited."""
    share = linux.measure_share(pid)
    if share is not None:
        return Memory(share)
    import psutil

    try:
        amount = psutil.Process(pid).memory_info().rss
    except psutil.Error:
        amount = 0
    return Memory(amount, "RSS") if amount else Memory()  # exited, perhaps a zombie


def tell_size(amount: int) -> str:
    """Return a size in its largest unit, as in `1.2 GB`."""
    for unit, size in _SIZES.items():
        if amount >= size:
            count = amount / size
            return f"{count:.0f} {unit}" if count >= 10 else f"{count:.1f} {unit}"  # noqa: PLR2004
    return f"{amount} bytes"


def count(number: int, what: str) -> str:
    """Return a number of things, as in `2 servers`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def tell_age(seconds: float | None) -> str:
    """Return an age in its two largest units, as in `2h 5m`."""
    if seconds is None:
        return "unknown"
    rest = max(0, int(seconds))
    words: list[str] = []
    for unit, size in _SECONDS.items():
        count, rest = divmod(rest, size)
        if count or words:
            words.append(f"{count}{unit}" if count else "")
    return " ".join(word for word in words[:2] if word) or "0s"


def read_moment(text: str, now: float) -> float:
    """Return the time that `10m`, `2026-11-17T10:00` or `10:00` stands for, since 1970.

    Raises:
        UsageError: It is none of these.

    """
    if age := read_time(text):
        return now - age
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
