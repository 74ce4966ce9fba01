"""Entries and files that a host skips without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import OFF, REMOTE
from mcp_launch.config_files.host_quirks import EntryKeys
from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import FileRefused
from mcp_launch.machine.subject import Subject
from mcp_launch.machine.survey import point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.machine.survey import Item, Survey


def check_skipped(survey: Survey) -> Iterator[Finding]:
    """Find entries and files that a host skips (ML122)."""
    for item in survey.items:
        if not item.file.why_not:
            entry = item.document.get(item.path)
            for key, problem, fix in item.host.quirks.keys.list_skipping(entry):
                subject = item.point(*([key] if key else []))
                message = f"{item.host.title} skips '{item.name}': {problem}"
                yield Finding("ML122", subject, message, fix)
    for host, file in survey.files:
        yield from _look_at_file(survey, host, file)


def check_malformed(survey: Survey) -> Iterator[Finding]:
    """Find entries without a usable command, of hosts whose own judgement is unknown (ML124)."""
    for item in survey.items:
        if _is_judged_otherwise(item.host) or item.words or item.file.why_not:
            continue
        if item.why_not in {REMOTE, OFF, item.hidden} or item.host.why_not(item.entry):
            continue
        fault = _find_fault(item)
        if fault is not None:
            key, problem, fix = fault
            message = f"{item.host.title} cannot start '{item.name}': {problem}"
            yield Finding("ML124", item.point(*([key] if key else [])), message, fix)
    for host, file in survey.files:
        if not _is_judged_otherwise(host) and not file.why_not:
            yield from _look_at_table(survey, host, file)


def _is_judged_otherwise(host: HostConfig) -> bool:
    """Return whether it is known what a host does about a bad entry: ML120, ML122."""
    keys = host.quirks.keys
    return keys.refuses_files or keys.list_skipping is not EntryKeys().list_skipping


def _find_fault(item: Item) -> tuple[str, str, str] | None:
    """Return the key at fault, what is wrong, and the fix; None if it may be well."""
    shape = item.host.shapes[0]
    key, whole = str(shape.command[0]), item.document.get(item.path)
    if not isinstance(whole, dict):
        # Settings may stand beside the servers where a host has several places for them.
        is_setting = len(item.file.servers) > 1
        return None if is_setting else ("", "it is not a table", f'write {{"{key}": ...}}')
    if key not in whole:
        # A server of an extension has settings in place of a command.
        is_elsewhere = "settings" in whole or "source" in whole
        problem = f"it has no {key}"
        return None if is_elsewhere else ("", problem, f"add its {key}, or remove the entry")
    if shape.is_one_list:
        return (
            key,
            f"its {key} must be a list of strings",
            f'write "{key}": ["npx", "-y", "some-server"]',
        )
    if not isinstance(whole[key], str):
        fix = f'write the program as "{key}", and the rest as "args"'
        return key, f"its {key} must be a string", fix
    return "args", "its args must be a list of strings", 'write "args": ["-y", "some-server"]'


def _look_at_table(survey: Survey, host: HostConfig, file: File) -> Iterator[Finding]:
    """Find tables of servers that are something else: a list, a string."""
    try:
        document = survey.read(file)
    except FileRefused:
        return  # ML101 reports it
    for table in file.servers[:1]:
        found = document.get(table)
        is_right = isinstance(found, list if file.has_lists else dict)
        if found is None or is_right or not table:
            continue
        key = ".".join(map(str, table))
        kind = "a list" if isinstance(found, list) else "a table"
        kind = kind if isinstance(found, list | dict) else "neither a table nor a list"
        yield Finding(
            "ML124",
            point(host, file, document, table),
            f"{host.title} finds no servers: {key} is {kind}",
            _describe_form(file, key),
        )


def _describe_form(file: File, key: str) -> str:
    if not file.has_lists:
        return f'make it a table with the servers\' names: "{key}": {{"NAME": {{...}}}}'
    form = f"[[{key}]]" if file.kind == "toml" else f"{key}: [{{...}}]"
    return f"make it a list of servers, each with its name in it: {form}"


def _look_at_file(survey: Survey, host: HostConfig, file: File) -> Iterator[Finding]:
    try:
        found = survey.read(file).get(())
    except FileRefused:
        return  # ML101 reports it
    if host.quirks.keys.is_file_skipped(file.scope, found):
        table = file.servers[0][0]
        instead = " in place of servers" if isinstance(found, dict) and "servers" in found else ""
        yield Finding(
            "ML122",
            Subject(host.name, "", file.scope, file.path),
            f"{host.title} skips the whole file: it has no table {table}",
            f'write "{table}"{instead}, and the servers below it',
        )


OF_ALL = (check_skipped, check_malformed)
