"""Entries and files that a host skips without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import FileRefused
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.machine.survey import Survey


def check_skipped(survey: Survey) -> Iterator[Finding]:
    """Find entries and files that a host skips (ML122)."""
    for item in survey.items:
        if not item.file.why_not:
            entry = item.document.get(item.path)
            for key, problem, fix in item.host.quirks.keys.list_skipping(entry):
                subject = item.point(*([key] if key else []))
                message = f"{item.host.title} skips {item.name}: {problem}"
                yield Finding("ML122", subject, message, fix)
    for host, file in survey.files:
        yield from _look_at_file(survey, host, file)


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


OF_ALL = (check_skipped,)
