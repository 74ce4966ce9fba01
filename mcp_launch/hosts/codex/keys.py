"""What an entry of Codex may say, and what Codex makes of the rest.

Found out from Codex 0.166 key by key: what it does not know it ignores (with a warning that
few see), and for what it knows but does not like it refuses the whole file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.key_types import (
    LIST,
    NAMED_STRINGS,
    NUMBER,
    STRING,
    STRINGS,
    SWITCH,
    WHOLE,
    Kind,
    choose,
    choose_several,
    tabulate,
)
from mcp_launch.errors import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Longer than any duration that Codex can hold.
_ENDLESS = 2.0**64

_SECONDS = Kind(
    "a number, and not below 0 nor without end",
    lambda value: NUMBER.fits(value) and value < _ENDLESS,
)
_APPROVAL = choose("auto", "prompt", "writes", "approve")
_TOOL = tabulate("a table", approval_mode=_APPROVAL)
_TOOLS = Kind(
    f"a table of tables, in which approval_mode is {_APPROVAL.title}",
    lambda value: isinstance(value, dict) and all(map(_TOOL.fits, value.values())),
)

_OAUTH = tabulate(
    "a table of strings client_id and client_secret and a port callback_port",
    client_id=STRING,
    client_secret=STRING,
    callback_port=Kind("a port", lambda value: WHOLE.fits(value) and value < 1 << 16),
)

_OF_STDIO = {
    "command": STRING,
    "args": STRINGS,
    "env": NAMED_STRINGS,
    "env_vars": LIST,
    "cwd": STRING,
}
_OF_HTTP = {
    "url": STRING,
    "bearer_token_env_var": STRING,
    "http_headers": NAMED_STRINGS,
    "env_http_headers": NAMED_STRINGS,
    "http_headers_helper": STRING,
    "oauth": _OAUTH,
    "oauth_resource": STRING,
    "auth": choose("oauth", "chatgpt", "ema_auth"),
}
_OF_BOTH = {
    **dict.fromkeys(("name", "environment_id"), STRING),
    **dict.fromkeys(("enabled_tools", "disabled_tools", "scopes"), STRINGS),
    **dict.fromkeys(("enabled", "required", "supports_parallel_tool_calls"), SWITCH),
    **dict.fromkeys(("startup_timeout_sec", "tool_timeout_sec"), _SECONDS),
    **dict.fromkeys(("startup_timeout_ms", "tool_input_schema_max_bytes"), WHOLE),
    "omit_tools_from": choose_several("code_mode", "deferred", "direct"),
    "tools": _TOOLS,
    "default_tools_approval_mode": _APPROVAL,
    "startup_readiness": choose("connection", "catalog"),
}
_KNOWN = {**_OF_STDIO, **_OF_HTTP, **_OF_BOTH}

# In no entry, but known: it must not be in a file.
_TOKEN = "bearer_token"  # noqa: S105  # the name of one

# What other hosts call it.
_TRANSLATED = {
    "headers": "http_headers",
    "timeout": "tool_timeout_sec",
    "disabled": "enabled",
    "environment": "env",
}


def list_ignored(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the keys that it does not know, and what may be meant."""
    for key in entry:
        if key not in _KNOWN and key != _TOKEN:
            translated = _TRANSLATED.get(key)
            yield key, f"did you mean {translated}? " if translated else suggest(key, _KNOWN)


def list_refusing(
    entry: object,
    name: str,
    may_complete: bool,  # noqa: FBT001  # as `EntryKeys` has it
) -> Iterator[tuple[str, str, str]]:
    """Return the keys that it refuses, why, and what to do; a project's may complete a user's."""
    if not isinstance(entry, dict):
        yield "", "it is not a table", f"write [mcp_servers.{name}] and its command below"
        return
    if not {"command", "url"} & set(entry) and not may_complete:
        yield "", "it has neither a command nor a url", "add one, or remove the entry"
    misplaced = _OF_HTTP if "command" in entry else _OF_STDIO if "url" in entry else {}
    for key, value in entry.items():
        if key == _TOKEN:
            fix = "put it in a variable, and the variable's name in bearer_token_env_var"
            yield key, "a token may not stand in the file", fix
        elif key in misplaced:
            kind = "a server that is started" if "command" in entry else "one behind a url"
            yield key, f"{key} is not for {kind}", f"remove {key}"
        elif key in _KNOWN and not _KNOWN[key].fits(value):
            yield key, f"{key} has to be {_KNOWN[key].title}", f"write {_KNOWN[key].title}"
    variables = entry.get("env_vars")
    for variable in variables if isinstance(variables, list) else ():
        if not _is_variable(variable):
            problem = "env_vars may hold names, and tables of a name and a source"
            yield "env_vars", problem, "take the rest out"


def list_remote_variables(entry: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Return the keys that take a value from Codex's own environment, and the variables."""
    token, headers = entry.get(f"{_TOKEN}_env_var"), entry.get("env_http_headers")
    if isinstance(token, str):
        yield (f"{_TOKEN}_env_var",), token
    for header, variable in headers.items() if isinstance(headers, dict) else ():
        if isinstance(variable, str):
            yield ("env_http_headers", header), variable


def _is_variable(variable: object) -> bool:
    if isinstance(variable, dict):
        has_name = isinstance(variable.get("name"), str)
        is_source = isinstance(variable.get("source", ""), str)
        return has_name and is_source and variable.keys() <= {"name", "source"}
    return isinstance(variable, str)
