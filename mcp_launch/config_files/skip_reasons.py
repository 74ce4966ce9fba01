"""Why entries are skipped, in a few words: to count them, and to name those that need a person."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import (
    MANAGED,
    NOT_A_TABLE,
    OFF,
    ONE_TEXT,
    PERHAPS_TRACKED,
    PLUGIN,
    REMOTE,
    TRACKED,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

ALREADY_WRAPPED = "it is already wrapped"
NOT_WRAPPED = "it is not wrapped"
IN_PROFILE = "its command is in a profile"
MALFORMED = "its command is missing or malformed"
OTHERWISE = "it starts mcp-launch through another program"
UNSAFE = "it is written in a way that cannot be changed safely"
# These are followed by details.
NO_RUN = "mcp-launch does not start it without the word run"
NOT_UNDERSTOOD = "this version does not understand its options of run"

_INVALID = "invalid"
_UNSAFE = "not safe to change"
_OTHERWISE = "wrapped through another program"

# In the order in which they are counted.
_LABELS = {
    ALREADY_WRAPPED: "wrapped already",
    NOT_WRAPPED: "not wrapped",
    OTHERWISE: _OTHERWISE,
    IN_PROFILE: "with the command in a profile",
    REMOTE: "remote",
    OFF: "disabled",
    PLUGIN: "from plugins",
    MANAGED: "managed by your organisation",
    TRACKED: "in files that Git tracks",
    PERHAPS_TRACKED: "in files that Git may track",
    NO_RUN: "without the word run",
    NOT_UNDERSTOOD: "not understood",
    UNSAFE: _UNSAFE,
    ONE_TEXT: _UNSAFE,
    NOT_A_TABLE: _INVALID,
    MALFORMED: _INVALID,
}
_ATTENTION = (NO_RUN, NOT_UNDERSTOOD, UNSAFE, ONE_TEXT, NOT_A_TABLE, MALFORMED)


def name(reason: str) -> str:
    """Return a reason in two or three words."""
    for beginning, label in _LABELS.items():
        if reason.startswith(beginning):
            return label
    return reason.removeprefix("it is ")  # a host's own: part of Goose


def count(reasons: Iterable[str]) -> list[str]:
    """Return how many entries are skipped for which reason: `5 remote`."""
    counted = Counter(map(name, reasons))
    return [f"{counted[label]} {label}" for label in sort(counted)]


def sort(labels: Iterable[str]) -> list[str]:
    """Return labels in the order in which they are shown."""
    order = list(dict.fromkeys(_LABELS.values()))
    return sorted(labels, key=lambda one: order.index(one) if one in order else len(order))


def needs_attention(reason: str, *, is_wrapping: bool) -> bool:
    """Return whether a person has to do something about an entry."""
    return reason.startswith(_ATTENTION) or (reason == OTHERWISE and not is_wrapping)
