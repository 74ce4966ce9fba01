"""The tools of servers, as launches remember them (see `state.handshakes`).

A server may be remembered several times: in several directories and versions, and for several
kinds of clients. What is known of its tools is all of that together.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mcp_launch import protocol
from mcp_launch.protocol.memory import find_page
from mcp_launch.state.handshakes import read_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.protocol.json_text import Json
    from mcp_launch.protocol.memory import Remembered

_METHOD = "tools/list"

# Parts of a schema that may name further arguments: elsewhere, by a pattern, or under a condition.
_UNCLEAR = {"$ref", "$dynamicRef", "patternProperties", "allOf", "anyOf", "oneOf"}
_UNCLEAR |= {"if", "then", "else"}


class RememberedTools:
    """The tools of a server, or of several."""

    def __init__(self) -> None:
        self.schemas: dict[str, list[Json]] = {}  # of the arguments, by the tool's name
        self.is_whole = True  # every page of every list is known

    @property
    def names(self) -> list[str]:
        """The names of all tools."""
        return list(self.schemas)

    def add(self, memory: Remembered) -> None:
        """Add the tools that one memory has; the list may go on where it ends."""
        pages = [protocol.look_message(page) for page in memory.list_pages(_METHOD)]
        for page in pages:
            listed = protocol.get_member(page, "result", "tools")
            self.is_whole &= isinstance(listed, list)
            for tool in listed if isinstance(listed, list) else []:
                self._add(protocol.get_member(tool, "name"), tool)
        self.is_whole &= not pages or not find_page(pages[-1])

    def _add(self, name: Json, tool: Json) -> None:
        if isinstance(name, str):
            schema = protocol.get_member(tool, "inputSchema")
            self.schemas.setdefault(name, []).append(schema)

    def find(self, pattern: str) -> list[str]:
        """Return the names that match a pattern."""
        return [name for name in self.schemas if fnmatchcase(name, pattern)]

    def list_arguments(self, names: Iterable[str]) -> list[str] | None:
        """Return the arguments that any of these tools has; None if they are not all listed."""
        found: dict[str, None] = {}
        for schema in (one for name in names for one in self.schemas[name]):
            properties = protocol.get_member(schema, "properties")
            is_clear = isinstance(schema, dict) and _UNCLEAR.isdisjoint(schema)
            if not is_clear or not isinstance(properties, dict):
                return None
            found |= dict.fromkeys(properties)
        return list(found)


def read(homes: Iterable[str]) -> dict[str, RememberedTools]:
    """Return the tools in some state directories, by the servers' names in profiles.

    Those of all servers that have no name there are together under the empty name.
    """
    found: dict[str, RememberedTools] = {}
    for path in (path for home in homes for path in _list_files(f"{home}/handshakes")):
        kept = read_file(path, 0.0)
        if kept is not None and kept[1].list_pages(_METHOD):
            found.setdefault(kept[0], RememberedTools()).add(kept[1])
    return {name: tools for name, tools in found.items() if tools.names}


def _list_files(directory: str) -> list[str]:
    try:
        return [f"{directory}/{name}" for name in sorted(os.listdir(directory))]
    except OSError:
        return []  # nothing was kept yet
