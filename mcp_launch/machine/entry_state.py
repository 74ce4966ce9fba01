"""The state of an entry in a host's file, in a word: wrapped, remote, disabled, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from mcp_launch.config_files.host_config import (
    MANAGED,
    NOT_A_TABLE,
    OFF,
    ONE_TEXT,
    PLUGIN,
    REMOTE,
    REMOTE_KEYS,
)
from mcp_launch.config_files.wrap import find_missing_run

if TYPE_CHECKING:
    from typing import Literal

    from mcp_launch.machine.survey import Item

    Kind = Literal[
        "wrapped",
        "not wrapped",
        "remote",
        "disabled",
        "managed",
        "plugin",
        "invalid",
        "not used",
    ]

# The kinds, by the reason why a host does not start an entry, or we do not change it.
_BY_REASON: dict[str, Kind] = {
    REMOTE: "remote",
    OFF: "disabled",
    MANAGED: "managed",
    PLUGIN: "plugin",
    NOT_A_TABLE: "invalid",
    ONE_TEXT: "not wrapped",
}

_NO_COMMAND = "its command is missing or malformed"
_NO_RUN = "the word run is missing after mcp-launch"


class EntryState(NamedTuple):
    """The state of one entry."""

    kind: Kind
    why_not: str = ""  # why its host does not start it; empty: it does
    address: str = ""  # the host and port of a remote server's URL


def classify(item: Item) -> EntryState:
    """Return the state of an entry; every entry has exactly one kind."""
    kind = _find_kind(item)
    why_invalid = _NO_RUN if item.words else _NO_COMMAND
    why_not = item.why_not or (why_invalid if kind == "invalid" else "")
    return EntryState(kind, why_not, _find_address(item) if kind == "remote" else "")


def _find_kind(item: Item) -> Kind:
    if item.why_not in _BY_REASON:
        return _BY_REASON[item.why_not]
    if not item.words:
        return "invalid"
    if item.why_not:
        return "not used"
    if find_missing_run(item.words) is not None:
        return "invalid"
    return "wrapped" if item.is_wrapped else "not wrapped"


def _find_address(item: Item) -> str:
    """Return where a remote server is: no path or query, which may hold secrets."""
    urls = (item.entry.get(key) for key in REMOTE_KEYS)
    for url in urls:
        try:
            parts = urlsplit(url) if isinstance(url, str) else None
            if parts is not None and parts.hostname:
                return parts.hostname + (f":{parts.port}" if parts.port else "")
        except ValueError:
            continue  # not a URL
    return ""
