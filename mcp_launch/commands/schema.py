"""`mcp-launch schema`: print the JSON Schema of the user's file, or of what a command prints."""

from __future__ import annotations

import json
import os
from typing import Any

import mcp_launch
from mcp_launch.commands.output import print_json
from mcp_launch.commands.screen import say
from mcp_launch.errors import UsageError, suggest
from mcp_launch.launch import profile_schema

# The schemas of what commands print; that of the user's file is made from the parser's tables.
_DIRECTORY = os.path.join(os.path.dirname(mcp_launch.__file__), "schemas")

_CONFIG = "config"


def run(name: str) -> int:
    """Print one schema; without a name, list them all."""
    if name:
        print_json(find(name))
        return 0
    names = list_names()
    width = max(map(len, names))
    for one in names:
        say(f"{one:{width}}  {find(one)['title']}")
    return 0


def list_names() -> list[str]:
    """Return the names of all schemas, that of the user's file first."""
    found = sorted(name for name in os.listdir(_DIRECTORY) if name.endswith(".json"))
    return [_CONFIG, *(name.removesuffix(".json") for name in found)]


def find(name: str) -> dict[str, Any]:
    """Return a schema.

    Raises:
        UsageError: There is none of this name.

    """
    if name == _CONFIG:
        return profile_schema.describe()
    names = list_names()
    if name not in names:
        raise UsageError(
            f"there is no schema of {name}",
            fix=f"{suggest(name, names)}the schemas are {', '.join(names)}",
        )
    with open(os.path.join(_DIRECTORY, f"{name}.json"), encoding="utf-8") as file:
        schema: dict[str, Any] = json.load(file)
    return schema
