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
        if "properties" in definition:
            lines += ["", *_wrap(f"`{name}`: {definition.get('description', '')}".rstrip()), ""]
            lines += _list_keys(definition, definitions)
    return "\n".join(lines) + "\n"


def _list_keys(
    schema: dict[str, Any], definitions: dict[str, Any], indent: str = ""
) -> Iterator[str]:
    """Yield the lines of a list of an object's keys, and of those of the objects in them."""
    needed = schema.get("required", ())
    for name, given in schema.get("properties", {}).items():
        value = _resolve(given, definitions)
        may_miss = "" if name in needed else ", may be missing"
        assert "description" in value, f"{name} in {schema} has no description"
        yield from _wrap(
            f"`{name}` ({_name_type(value)}{may_miss}): {value['description']}", indent
        )
        for inner in _list_inner(value):
            yield from _list_keys(inner, definitions, f"{indent}  ")


def _resolve(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema with what it refers to, except objects, which have lists of their own."""
    if isinstance(schema, list):
        return [_resolve(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {key: _resolve(value, definitions) for key, value in schema.items()}
    if "$ref" not in whole:
        return whole
    target = definitions[whole["$ref"].rpartition("/")[2]]
    if "properties" in target:
        return {"description": target.get("description", ""), **whole}
    del whole["$ref"]
    return {**_resolve(target, definitions), **whole}


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
