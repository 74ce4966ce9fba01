"""Validate the JSON that commands print against the schemas in the package.

The schemas allow keys that they do not know, because programs must, too; here none is allowed,
so that every key a command prints is described.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

import mcp_launch

SCHEMAS = Path(mcp_launch.__file__).parent / "schemas"


def read_schema(name: str) -> dict[str, Any]:
    """Return the schema of a command's JSON."""
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return schema


def check_format(name: str, text: str) -> Any:
    """Return what a command printed; fail if its schema does not describe it all."""
    document = json.loads(text)
    schema = _forbid_others(read_schema(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema, jsonschema.Draft202012Validator)
    return document


def _forbid_others(schema: Any) -> Any:
    """Return a schema in which no object has keys beyond the described ones."""
    if isinstance(schema, list):
        return [_forbid_others(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _forbid_others(value) for key, value in schema.items()}
    if "properties" in strict and isinstance(strict["properties"], dict) and "type" in strict:
        strict.setdefault("additionalProperties", False)
    return strict
