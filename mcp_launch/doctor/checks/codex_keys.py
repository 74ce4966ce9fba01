"""What an entry of Codex may say, and what Codex makes of the rest.

Found out from Codex 0.166 key by key: what it does not know it ignores (with a warning that
few see), and for what it knows but does not like it refuses the whole file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch import masking
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
from mcp_launch.config_files.wrap import SOURCES_OF_CODEX
from mcp_launch.doctor.checks import not_wrapped
from mcp_launch.doctor.checks.unreadable_file import tell_loss
from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import FileRefused, suggest
from mcp_launch.machine.survey import point
from mcp_launch.machine.wrap_hint import tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.machine.survey import Item, Survey


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


def check_ignored_keys(survey: Survey) -> Iterator[Finding]:
    """Look for keys that Codex does not know (ML102)."""
    for item in _list_entries(survey):
        for key in item.entry:
            if key not in _KNOWN and key != _TOKEN:
                translated = _TRANSLATED.get(key)
                near = f"did you mean {translated}? " if translated else suggest(key, _KNOWN)
                message = f"Codex does not know the key {key} of {item.name}, and ignores it"
                yield Finding("ML102", item.point(key), message, f"{near}remove or rename it")


def check_sources(survey: Survey) -> Iterator[Finding]:
    """Look for sources of variables that only mcp-launch knows (ML103)."""
    for item in _list_entries(survey):
        for index, variable in enumerate(_list_variables(item)):
            source = variable.get("source", "local") if isinstance(variable, dict) else "local"
            if isinstance(source, str) and source not in SOURCES_OF_CODEX:
                can_help = not_wrapped.can_be_wrapped(survey, item)
                yield Finding(
                    "ML103",
                    item.point("env_vars", index),
                    f"Codex knows no source {_show(source)}, only local and remote: "
                    + tell_loss(item.host, item.file),
                    f"mcp-launch knows it; wrap the entry: {tell_how(item)}"
                    if can_help
                    else "take the variable out of env_vars",
                    not_wrapped.offer_wrapping(survey, item) if can_help else None,
                )


def check_refused(survey: Survey) -> Iterator[Finding]:
    """Look for what makes Codex refuse an entry, and with it the file (ML120)."""
    for item in _list_entries(survey):
        for key, problem, fix in _list_faults(item):
            subject = item.point(*([key] if key else []))
            loss = tell_loss(item.host, item.file)
            yield Finding("ML120", subject, f"Codex refuses {item.name}: {problem}; {loss}", fix)


def check_table(survey: Survey) -> Iterator[Finding]:
    """Look for servers that are no table at all, for which Codex refuses the file (ML120)."""
    for host, file in survey.files:
        if not _is_codexes(host, file):
            continue
        try:
            document = survey.read(file)
        except FileRefused:
            continue  # which is told of the file
        if not isinstance(document.get(("mcp_servers",)), dict | None):
            subject = point(host, file, document, ("mcp_servers", 0))
            message = f"Codex refuses mcp_servers: it is not a table; {tell_loss(host, file)}"
            yield Finding("ML120", subject, message, "write [mcp_servers.NAME] for each server")


def _is_codexes(host: HostConfig, file: File) -> bool:
    return "codex_keys" in host.quirks.checks and file.kind == "toml"


def _list_entries(survey: Survey) -> Iterator[Item]:
    """Return what is written in Codex's own way; its plugins have another."""
    for item in survey.items:
        if _is_codexes(item.host, item.file):
            yield item


def _list_variables(item: Item) -> list[Any]:
    variables = item.entry.get("env_vars")
    return variables if isinstance(variables, list) else []


def _list_faults(item: Item) -> Iterator[tuple[str, str, str]]:
    """Return the keys that are refused, why, and what to do."""
    entry = item.entry
    if not isinstance(item.document.get(item.path), dict):
        yield "", "it is not a table", f"write [mcp_servers.{item.name}] and its command below"
        return
    # A project's entry may complete the user's.
    if not {"command", "url"} & set(entry) and not item.is_of_project:
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
    for variable in _list_variables(item):
        if not _is_variable(variable):
            problem = "env_vars may hold names, and tables of a name and a source"
            yield "env_vars", problem, "take the rest out"


def _is_variable(variable: object) -> bool:
    if isinstance(variable, dict):
        has_name = isinstance(variable.get("name"), str)
        is_source = isinstance(variable.get("source", ""), str)
        return has_name and is_source and variable.keys() <= {"name", "source"}
    return isinstance(variable, str)


def _show(source: str) -> str:
    # Somebody may have put a secret there.
    return source if masking.is_common(source) else masking.MASK


OF_ALL = (check_ignored_keys, check_sources, check_refused, check_table)
