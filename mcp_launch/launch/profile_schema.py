"""Describe the user's file as JSON Schema, so that editors complete and check it.

Made from the tables by which `profile_file` parses, so that both accept the same. Draft 7, which
is what editors understand for TOML (taplo, and Even Better TOML in VS Code). What a schema cannot
say, only the parser checks: that no variable is in both `env` and `env_vars`, or twice.
"""

from __future__ import annotations

import re
from typing import Any

from mcp_launch.launch import environment
from mcp_launch.launch.options import (
    CHOICES,
    SOURCES,
    SWITCHES,
    USAGE,
)
from mcp_launch.launch.profile_file import (
    DEMANDS,
    GLOBS,
    HAVE_NAMES,
    KEYS,
    KEYS_OF_A_VARIABLE,
    KEYS_OF_ONE_SERVER,
    NAME,
    NUMBERS,
    OF_DOCTOR,
    PATTERN,
    PLACES,
)

_DRAFT = "http://json-schema.org/draft-07/schema#"

# The keys that are not options of `run`, and those that say more than their options.
_DESCRIPTIONS = {
    "command": "The server's program. A command in the host's entry takes precedence.",
    "args": "The arguments of the server's program.",
    "cwd": "The server's directory: session (default), project_root, keep, or a path, relative "
    "to the session's directory.",
    "env": "Variables with fixed values; ${NAME} and ${NAME:-default} are replaced from the "
    "launcher's environment, and $${ is a plain ${.",
    "env_vars": "Variables to set for the server. A name alone passes on the variable of that "
    'name, if it exists; { name = "…", source = "…" } takes it from somewhere else.',
    "pass_env": 'What the server inherits: "all" (default), "safe" (all but the secrets of the '
    "hosts themselves), or a list of names, in which * stands for any text.",
    "tools": "Which tools the host may see and call: allow and deny are lists of patterns, in "
    "which * stands for any text. Any other key is a tool, or a pattern, with its own arguments.",
    "arguments": "What is demanded of the arguments of every tool, by their names.",
    "dotenv": "A dotenv file, or a list of them. If env_vars takes a variable from the source "
    "dotenv, only such variables are taken; else all of them.",
}

# The keys of a variable in `env_vars`.
_OF_A_VARIABLE = {
    "name": "The variable's name in the server.",
    "source": "Where its value comes from (default: local, the launcher's environment).",
    "from": f"Its name in the source, if that differs; only for {' and '.join(HAVE_NAMES)}.",
    "default": "The value if the source has none.",
    "required": "Whether the launch fails without a value (default: true, but false for local).",
}

# Whatever a program is given cannot contain a NUL.
_NO_NUL = r"^[^\x00]*$"
_TEXT = {"type": "string", "minLength": 1, "pattern": _NO_NUL}
_ANY_TEXT = {"type": "string", "pattern": _NO_NUL}
_TIME = {"type": "string", "pattern": "^(off|0*[1-9][0-9]*[smhd])$"}

# MCP_LAUNCH_* are for the launcher.
_VARIABLE = {
    "type": "string",
    "pattern": f"^{NAME.pattern}$",
    "not": {"pattern": "^MCP_LAUNCH_"},
}


# Only `doctor` reads this table, and reports what is invalid in it.
_DOCTOR = {
    "description": "Settings for mcp-launch doctor.",
    "type": "object",
    "properties": {
        "ignore": {
            "description": "Findings that are not shown: a code (ML117), the beginning of some "
            "(ML2), or a code with the server that it is about (ML206:docs).",
            "type": "array",
            "items": {"type": "string", "pattern": "^ML[0-9]{0,3}(:.+)?$"},
        }
    },
    "additionalProperties": False,
}


def describe() -> dict[str, Any]:
    """Return the schema of the user's file."""
    common = tuple(key for key in KEYS if key not in KEYS_OF_ONE_SERVER)
    defaults = _describe_server(common) | {
        "description": "Settings for every server. A server's own table takes precedence."
    }
    servers = {
        "description": "A table for each server: [servers.NAME]. NAME is what the host's entry "
        "calls it, or what follows --server.",
        "type": "object",
        "additionalProperties": _describe_server(KEYS),
    }
    return {
        "$schema": _DRAFT,
        "title": "mcp-launch: config.toml",
        "description": "What mcp-launch does for the MCP servers of a user: "
        "~/.config/mcp-launch/config.toml.",
        "type": "object",
        "properties": {"defaults": defaults, "servers": servers, OF_DOCTOR: _DOCTOR},
        "additionalProperties": False,
    }


def _describe_server(keys: tuple[str, ...]) -> dict[str, Any]:
    of_options = list_descriptions()
    server = {
        "description": "Settings for one server.",
        "type": "object",
        "properties": {
            key: {"description": _DESCRIPTIONS.get(key) or of_options[key], **_describe_value(key)}
            for key in keys
        },
        "additionalProperties": False,
    }
    if "args" in keys:
        server["dependencies"] = {"args": ["command"]}
    return server


def list_descriptions() -> dict[str, str]:
    """Return what the help text of `run` says of each option, by the option's key in a profile."""
    found: dict[str, str] = {}
    key = ""
    for line in USAGE.splitlines():
        if begin := re.match(r"  --([\w-]+)(?: [A-Z=]+)? +(.*)", line):
            key = begin[1].replace("-", "_")
            found[key] = begin[2]
        elif key and line.startswith(" " * 20):
            found[key] += f" {line.strip()}"
        else:
            key = ""
    return {key: f"{text[0].upper()}{text[1:]}." for key, text in found.items()}


def _describe_value(key: str) -> dict[str, Any]:
    option = "--" + key.replace("_", "-")
    if option in SWITCHES:
        return {"type": "boolean"}
    if option in CHOICES:
        words: list[str | bool] = [word for word in CHOICES[option] if word]
        return {"enum": [*words, True, False] if "on" in words else words}
    return _VALUES[key]


_VALUES_OF_A_VARIABLE: dict[str, dict[str, Any]] = {
    "name": _VARIABLE,
    "source": {"enum": [*SOURCES]},
    "from": _VARIABLE,
    "default": _ANY_TEXT,
    "required": {"type": "boolean"},
}

_LIMIT = {"anyOf": [{**_TIME, "examples": ["90s", "10m", "2h", "off"]}, {"enum": [False]}]}

_PLACE = {"anyOf": [{"enum": [*PLACES]}, {"type": "string", "pattern": r"^(/|~/|~$)[^\x00]*$"}]}
_PIN = {
    "description": "What is demanded of an argument.",
    "type": "object",
    "properties": {
        "inside": {
            "description": "The argument is a path, or a list of paths, in this directory; a call "
            "with another is refused.",
            **_PLACE,
        },
        "value": {
            "description": "The argument always has this value.",
            "type": ["string", "number", "boolean", "array", "object"],
        },
    },
    "oneOf": [{"required": [key]} for key in DEMANDS],
    "additionalProperties": False,
}
_ARGUMENTS: dict[str, Any] = {"type": "object", "additionalProperties": _PIN}
_OF_TOOLS = (
    "The tools that the host sees (default: all).",
    "Of these, the tools that it does not see.",
)
_PATTERNS: dict[str, Any] = {"type": "array", "items": _TEXT}
_TOOL: dict[str, Any] = {
    "description": "Settings for one tool, or for those that match a pattern.",
    "type": "object",
    "properties": {
        "arguments": {"description": "What is demanded of its arguments.", **_ARGUMENTS}
    },
    "additionalProperties": False,
}

_VALUES: dict[str, dict[str, Any]] = {
    "command": _TEXT,
    "args": {"type": "array", "items": _ANY_TEXT},
    "cwd": {**_TEXT, "examples": list(environment.PLACES)},
    "rest": _LIMIT,
    "call_timeout": _LIMIT,
    **{
        key: {"type": "integer", "minimum": allowed[0], "maximum": allowed[-1]}
        for key, allowed in NUMBERS.items()
    },
    "arguments": _ARGUMENTS,
    "tools": {
        "type": "object",
        "properties": {
            key: {"description": text, "anyOf": [_PATTERNS, _TOOL]}
            for key, text in zip(GLOBS, _OF_TOOLS, strict=True)
        },
        "additionalProperties": _TOOL,
    },
    "dotenv": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    "pass_env": {
        "anyOf": [
            {"enum": [environment.ALL, environment.SAFE]},
            {
                "type": "array",
                "items": {
                    "type": "string",
                    "pattern": f"^{PATTERN.pattern}$",
                    "not": {"enum": [environment.ALL, environment.SAFE]},
                },
            },
        ]
    },
    "env": {"type": "object", "propertyNames": _VARIABLE, "additionalProperties": _ANY_TEXT},
    "env_vars": {
        "type": "array",
        "items": {
            "anyOf": [
                _VARIABLE,
                {
                    "type": "object",
                    "properties": {
                        key: {"description": _OF_A_VARIABLE[key], **_VALUES_OF_A_VARIABLE[key]}
                        for key in KEYS_OF_A_VARIABLE
                    },
                    "required": ["name"],
                    "additionalProperties": False,
                    "dependencies": {"from": {"properties": {"source": {"enum": [*HAVE_NAMES]}}}},
                },
            ]
        },
    },
}
