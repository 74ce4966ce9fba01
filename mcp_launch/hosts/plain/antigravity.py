"""What makes Antigravity drop an entry: it does so without a word (reported of `agy` 1.1.26)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import REMOTE_KEYS
from mcp_launch.config_files.key_types import NAMED_STRINGS, STRING, STRINGS, SWITCH

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = {
    "command": STRING,
    "args": STRINGS,
    "env": NAMED_STRINGS,
    "cwd": STRING,
    "serverUrl": STRING,
    "disabled": SWITCH,
}


def list_faults(entry: object) -> Iterator[tuple[str, str, str]]:
    """Return the keys that make it drop an entry, each with the reason and the fix."""
    if not isinstance(entry, dict):
        yield "", "it is not a table", 'write {"command": "...", "args": [...]}'
        return
    if "command" not in entry and not any(key in entry for key in REMOTE_KEYS):
        yield "", "it has neither a command nor a serverUrl", "add one, or remove the entry"
    for key, value in entry.items():
        if key in _KINDS and not _KINDS[key].fits(value):
            is_one_list = key == "command" and isinstance(value, list)
            fix = "move all but the first word to args" if is_one_list else ""
            title = _KINDS[key].title
            yield key, f"{key} must be {title}", fix or f"make it {title}"
