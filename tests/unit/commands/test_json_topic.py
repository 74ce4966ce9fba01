"""The topic `json`: made from the schemas, and never stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import json_topic
from generated_docs import check, mark

if TYPE_CHECKING:
    import pytest

SCHEMA = {
    "title": "mcp-launch do",
    "description": "What was done.",
    "type": "object",
    "required": ["version", "level", "servers", "by_name", "any"],
    "properties": {
        "version": {"const": 1, "description": "The version."},
        "level": {"$ref": "#/$defs/level", "description": "How bad it is."},
        "servers": {
            "type": "array",
            "description": "The servers.",
            "items": {
                "type": "object",
                "required": [],
                "properties": {"pid": {"type": ["integer", "null"], "description": "Its process."}},
            },
        },
        "by_name": {
            "type": "object",
            "description": "Values.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
        "any": {
            "anyOf": [{"$ref": "#/$defs/fact"}, {"type": "null"}],
            "description": "A fact, or nothing.",
        },
    },
    "$defs": {
        "level": {"enum": ["error", None]},
        "fact": {
            "type": "object",
            "description": "A fact with its origin.",
            "required": ["value"],
            "properties": {
                "value": {"type": "string", "description": "The value."},
                "earlier": {"$ref": "#/$defs/fact"},
            },
        },
    },
}

DESCRIBED = """\
## `mcp-launch do --json`

What was done.

* `version` (`1`): The version.
* `level` (`error` or null): How bad it is.
* `servers` (array of objects): The servers.
  * `pid` (integer or null, may be missing): Its process.
* `by_name` (object of arrays of strings by name): Values.
* `any` (`fact` or null): A fact, or nothing.

`fact`: A fact with its origin.

* `value` (string): The value.
* `earlier` (`fact`, may be missing): A fact with its origin.
"""


def test_a_schema_is_described_key_by_key() -> None:
    assert json_topic.describe(SCHEMA) == DESCRIBED


def test_the_topic_describes_every_schema(pytestconfig: pytest.Config) -> None:
    begin = mark("tests/unit/commands/test_json_topic.py")

    check(pytestconfig, "mcp_launch/help/json.md", begin, json_topic.describe_all())
