"""Entries that make a host ignore a key, or refuse the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch import masking
from mcp_launch.config_files.wrap import SOURCES_OF_CODEX
from mcp_launch.doctor.checks import not_wrapped
from mcp_launch.doctor.checks.unreadable_file import tell_loss
from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import FileRefused
from mcp_launch.machine.survey import point
from mcp_launch.machine.wrap_hint import tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.machine.survey import Item, Survey


def check_ignored_keys(survey: Survey) -> Iterator[Finding]:
    """Find keys that a host does not know (ML102)."""
    for item in _list_entries(survey):
        title = item.host.title
        for key, near in item.host.quirks.keys.list_ignored(item.entry):
            message = f"{title} does not know the key {key} of '{item.name}', and ignores it"
            yield Finding("ML102", item.point(key), message, f"{near}remove or rename it")


def check_sources(survey: Survey) -> Iterator[Finding]:
    """Find sources of variables that only mcp-launch knows (ML103)."""
    for item in _list_entries(survey):
        for index, variable in enumerate(_list_variables(item)):
            source = variable.get("source", "local") if isinstance(variable, dict) else "local"
            if isinstance(source, str) and source not in SOURCES_OF_CODEX:
                can_help = not_wrapped.can_be_wrapped(survey, item)
                yield Finding(
                    "ML103",
                    item.point("env_vars", index),
                    f"{item.host.title} does not know the source '{_show(source)}', "
                    f"only {' and '.join(SOURCES_OF_CODEX)}: {tell_loss(item.host, item.file)}",
                    f"mcp-launch knows it; wrap the entry: {tell_how(item)}"
                    if can_help
                    else "take the variable out of env_vars",
                    not_wrapped.offer_wrapping(survey, item) if can_help else None,
                )


def check_refused(survey: Survey) -> Iterator[Finding]:
    """Find what makes a host refuse an entry, and with it the file (ML120)."""
    for item in _list_entries(survey):
        entry, keys = item.document.get(item.path), item.host.quirks.keys
        for key, problem, fix in keys.list_refusing(entry, item.name, item.is_of_project):
            subject = item.point(*([key] if key else []))
            message = f"{item.host.title} refuses '{item.name}': {problem}"
            yield Finding("ML120", subject, f"{message}; {tell_loss(item.host, item.file)}", fix)


def check_table(survey: Survey) -> Iterator[Finding]:
    """Find servers that are not in a table, for which a host refuses the file (ML120)."""
    for host, file in survey.files:
        if not _is_judged(host, file):
            continue
        try:
            document = survey.read(file)
        except FileRefused:
            continue  # ML101 reports it
        for table in file.servers:
            if not isinstance(document.get(table), dict | None):
                key = ".".join(map(str, table))
                message = f"{host.title} refuses {key}: it is not a table; {tell_loss(host, file)}"
                subject = point(host, file, document, (*table, 0))
                yield Finding("ML120", subject, message, f"write [{key}.NAME] for each server")


def _is_judged(host: HostConfig, file: File) -> bool:
    """Return whether a host refuses such files; those of plugins are not in its own format."""
    return host.quirks.keys.refuses_files and file.scope != "plugin"


def _list_entries(survey: Survey) -> Iterator[Item]:
    for item in survey.items:
        if _is_judged(item.host, item.file):
            yield item


def _list_variables(item: Item) -> list[Any]:
    variables = item.entry.get("env_vars")
    return variables if isinstance(variables, list) else []


def _show(source: str) -> str:
    # Somebody may have put a secret there.
    return source if masking.is_common(source) else masking.MASK


OF_ALL = (check_ignored_keys, check_sources, check_refused, check_table)
