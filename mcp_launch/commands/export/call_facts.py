"""What a record of a call says, checked: its times, its text, and whether it failed.

Records are read from files, and hold names that servers and hosts have chosen. Nothing here may
make an export fail, or a collector refuse it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.state.calls import LATEST

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json

# The classes of errors by outcome, in the words of the semantic conventions where they have one.
# A call that its host has cancelled did not fail.
ERROR_TYPES = {
    "tool error": "tool_error",
    "protocol error": "protocol_error",
    "refused": "refused",
    "timed out": "timeout",
    "died": "server_died",
}
OUTCOMES = {"ok", "cancelled", *ERROR_TYPES}

# Collectors and their stores limit the length of a value, too.
_LONGEST = 1024

# Longer than any call, in milliseconds.
_LONGEST_CALL = 1e11


def read_moment(record: dict[str, Json]) -> float | None:
    """Return when a call arrived; None if that is not a time."""
    return _read_number(record.get("time"), LATEST)


def read_duration(record: dict[str, Json]) -> float:
    """Return how long a call took, in milliseconds; 0 if that is not known."""
    return _read_number(record.get("ms"), _LONGEST_CALL) or 0.0


def _read_number(value: Json, limit: float) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # This is also how NaN fails.
    return float(value) if is_number and 0 <= value < limit else None  # type: ignore[arg-type, operator]


def read_text(record: dict[str, Json], name: str) -> str:
    """Return a text that can be encoded; empty if there is none."""
    value = record.get(name)
    return make_text(value) if isinstance(value, str) else ""


def make_text(value: str) -> str:
    """Return a text of bounded length, without the halves of characters that JSON can have."""
    return value[:_LONGEST].encode(errors="backslashreplace").decode()


def read_outcome(record: dict[str, Json]) -> str:
    """Return the outcome of a call; "unknown" if a later version has others."""
    outcome = record.get("outcome")
    return outcome if isinstance(outcome, str) and outcome in OUTCOMES else "unknown"


def find_error_type(record: dict[str, Json]) -> str:
    """Return the class of error of a failed call; empty if it did not fail."""
    outcome = read_outcome(record)
    return ("_OTHER" if outcome == "unknown" else "") or ERROR_TYPES.get(outcome, "")
