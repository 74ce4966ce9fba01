"""Entries and files that Claude Code skips without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import FileRefused
from mcp_launch.hosts.claude.keys import is_skipped
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.machine.survey import Survey


def check_skipped(survey: Survey) -> Iterator[Finding]:
    """Look for entries and files that Claude Code skips (ML122)."""
    for item in survey.items:
        if not item.file.why_not:
            for key, problem, fix in item.host.quirks.list_faults(item.document.get(item.path)):
                subject = item.point(*([key] if key else []))
                message = f"{item.host.title} skips {item.name}: {problem}"
                yield Finding("ML122", subject, message, fix)
    for host, file in survey.files:
        yield from _look_at_file(survey, host, file)


def _look_at_file(survey: Survey, host: HostConfig, file: File) -> Iterator[Finding]:
    try:
        document = survey.read(file)
    except FileRefused:
        return  # which is told of the file
    if is_skipped(host, file, document):
        found = document.get(())
        instead = " in place of servers" if isinstance(found, dict) and "servers" in found else ""
        yield Finding(
            "ML122",
            Subject(host.name, "", file.scope, file.path),
            f"{host.title} skips the whole file: it has no table mcpServers",
            f'write "mcpServers"{instead}, and the servers below it',
        )


OF_ALL = (check_skipped,)
