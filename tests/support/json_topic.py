"""Describe the formats of JSON in Markdown, from the schemas in the package.

A schema is described key by key, nested as its objects are. A definition that several keys share
(`$defs`) has a list of its own.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from json_formats import SCHEMAS, read_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 120

# What types are called, one and several of them.
_TYPES = {
    "array": ("array", "arrays"),
    "boolean": ("boolean", "booleans"),
    "integer": ("integer", "integers"),
    "null": ("null", "nulls"),
    "number": ("number", "numbers"),
    "object": ("object", "objects"),
    "string": ("string", "strings"),
}


def describe_all() -> str:
    """Return a section for each format; a schema without a version is that of a user's file."""
    schemas = [read_schema(path.stem) for path in sorted(SCHEMAS.glob("*.json"))]
    return "\n".join(describe(one) for one in schemas if "version" in one.get("properties", ()))


def describe(schema: dict[str, Any]) -> str:
    """Return the section of one schema."""
    title = schema["title"].removesuffix(" --json")
    definitions = schema.get("$defs", {})
    lines = [f"## `{title} --json`", "", *_wrap(schema["description"]), ""]
    lines += _list_keys(schema, definitions)
    for name, definition in definitions.items():
        lines += ["", *_wrap(f"`{name}`: {_tell(definition, definitions)}"), ""]
        lines += _list_keys(definition, definitions)
    return "\n".join(lines) + "\n"


def _list_keys(
    schema: dict[str, Any], definitions: dict[str, Any], indent: str = ""
) -> Iterator[str]:
    """Yield the lines of a list of an object's keys, and of those of the objects in them."""
    needed = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        may_miss = "" if name in needed else ", may be missing"
        told = f"`{name}` ({_name_type(value)}{may_miss}): {_tell(value, definitions)}"
        yield from _wrap(told, indent)
        for inner in _list_inner(value):
            yield from _list_keys(inner, definitions, f"{indent}  ")


def _tell(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return the description of a key: its own, or that of what it refers to."""
    if "description" in schema:
        return str(schema["description"])
    return str(definitions[schema["$ref"].rpartition("/")[2]]["description"])


def _list_inner(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects whose keys are described below a key."""
    if "properties" in schema:
        yield schema
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _list_inner(choice)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _list_inner(schema[name])


def _name_type(schema: dict[str, Any], *, are_several: bool = False) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "const" in schema:
        return _spell(schema["const"])
    if "enum" in schema:
        return " or ".join(_spell(value) for value in schema["enum"])
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(_name_type(one, are_several=are_several) for one in choices)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(_name_kind(kind, schema, are_several=are_several) for kind in kinds)


def _name_kind(kind: str, schema: dict[str, Any], *, are_several: bool) -> str:
    words = _TYPES[kind][are_several]
    if kind == "array" and "items" in schema:
        return f"{words} of {_name_type(schema['items'], are_several=True)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"{words} of {_name_type(schema['additionalProperties'], are_several=True)} by name"
    return words


def _spell(value: object) -> str:
    return "null" if value is None else f"`{value}`"


def _wrap(text: str, indent: str | None = None) -> list[str]:
    """Return the lines of a paragraph, or of an item of a list."""
    first, others = ("", "") if indent is None else (f"{indent}* ", f"{indent}  ")
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
