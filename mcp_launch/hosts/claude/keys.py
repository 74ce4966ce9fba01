"""What Claude Code requires of an entry and of a project's file; it skips invalid ones.

Tested with Claude Code 2.1.325 key by key; only `claude mcp list` mentions skipped entries.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.key_types import NAMED_STRINGS, STRING, STRINGS, SWITCH, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REFERENCE = re.compile(r"\$\{(\w+)\}")

# The types of remote servers; a server that it starts needs no type.
_REMOTE = ("http", "sse", "ws", "streamable-http")
_TYPES = ("stdio", *_REMOTE)

_OF_BOTH = {
    "timeout": Kind(
        "a whole number above 0",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0,
    ),
    "alwaysLoad": SWITCH,
}
_OF_STDIO = {"command": STRING, "args": STRINGS, "env": NAMED_STRINGS, **_OF_BOTH}
_OF_REMOTE = {"url": STRING, "headers": NAMED_STRINGS, **_OF_BOTH}


def list_faults(entry: object) -> Iterator[tuple[str, str, str]]:
    """Return the keys that make Claude Code skip an entry, each with the reason and the fix."""
    if not isinstance(entry, dict):
        yield "", "it is not a table", 'write {"command": "...", "args": [...]}'
        return
    kind = entry.get("type", "stdio")
    if kind not in _TYPES:
        shown = f"there is no type {kind}" if isinstance(kind, str) else "type must be a string"
        yield "type", shown, f"use one of {', '.join(_TYPES)}, or remove type if it has a command"
        return
    if "type" not in entry and "url" in entry and "command" not in entry:
        yield "url", "it has a url, but no type", 'add "type": "http" (or "sse", or "ws")'
        return
    needed, known = ("url", _OF_REMOTE) if kind in _REMOTE else ("command", _OF_STDIO)
    if needed not in entry:
        yield "", f"it has no {needed}", f"add its {needed}, or remove the entry"
    elif entry[needed] == "" and needed == "command":
        yield needed, "its command is empty", "name the program that starts the server"
    for key, value in entry.items():
        if key in known and not known[key].fits(value):
            yield key, f"{key} must be {known[key].title}", f"make it {known[key].title}"


def list_remote_variables(entry: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Return the keys with a reference that Claude Code leaves as it is if the variable is unset.

    A reference with a default is not among them.
    """
    headers = entry.get("headers")
    texts: dict[tuple[str, ...], object] = {("url",): entry.get("url")}
    if isinstance(headers, dict):
        texts |= {("headers", name): text for name, text in headers.items()}
    for key, text in texts.items():
        for variable in _REFERENCE.findall(text) if isinstance(text, str) else ():
            yield key, variable


def is_skipped(scope: str, content: object) -> bool:
    """Return whether a project's file lacks the table that Claude Code requires, even if empty."""
    table = content.get("mcpServers") if isinstance(content, dict) else None
    return scope == "project" and not isinstance(table, dict)
