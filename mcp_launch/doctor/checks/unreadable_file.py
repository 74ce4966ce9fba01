"""Files that a host cannot read, and what it does in that case.

Seen with Codex 0.166, Claude Code 2.1.325, Gemini CLI 0.61, Qwen Code 0.24, Cline 3.0 and Kimi
Code 2.1.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from mcp_launch.config_files import planned_changes
from mcp_launch.doctor.finding import Finding
from mcp_launch.documents import jsonc
from mcp_launch.errors import FileRefused
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.machine.survey import Survey


def check_files(survey: Survey) -> Iterator[Finding]:
    """Find files that cannot be read (ML101)."""
    for host, file in survey.files:
        try:
            document = survey.read(file)
        except FileRefused as refused:
            yield _report(host, file, refused)
        else:
            if file.kind == "json":
                yield from _read_strictly(host, file, document.text)


def tell_loss(host: HostConfig, file: File) -> str:
    """Return what a host does when it cannot read a file."""
    losses = dict(host.quirks.losses)
    return losses.get(file.scope, f"{host.title} does not get its servers")


def _report(host: HostConfig, file: File, refused: FileRefused) -> Finding:
    subject = Subject(host.name, "", file.scope, file.path, refused.line, refused.column)
    if os.path.islink(file.path) and not os.path.exists(file.path):
        message = f"{file.path} is a link to {os.readlink(file.path)}, where there is no file"
        fix = "remove the link, or put the file where it points"
        return Finding("ML101", subject, f"{message}: {host.title} does not get its servers", fix)
    problem = refused.without_place
    if not refused.line:
        return Finding("ML101", subject, f"{problem}: {tell_loss(host, file)}", refused.fix)
    if file.kind == "json" and not _find_fault(planned_changes.read_file(file.path)):
        # A name that appears twice: hosts accept that, we do not.
        message = f"{problem}: {host.title} uses only the last one"
        return Finding("ML101", subject, message, "merge them into one")
    return Finding("ML101", subject, f"{problem}: {tell_loss(host, file)}", "correct this line")


def _read_strictly(host: HostConfig, file: File, text: str) -> Iterator[Finding]:
    """Find syntax that other hosts allow, but this one does not."""
    extras = host.quirks.json_extras
    if extras == "comments and trailing commas":
        return
    allows_comments = extras == "comments"
    fault = _find_fault(jsonc.blank_comments(text) if allows_comments else text)
    if fault:
        subject = Subject(host.name, "", file.scope, file.path, fault.lineno, fault.colno)
        refused = "trailing commas" if allows_comments else "comments or trailing commas"
        message = f"{host.title} does not allow {refused}: {tell_loss(host, file)}"
        yield Finding("ML101", subject, message, "remove them")


def _find_fault(text: str) -> json.JSONDecodeError | None:
    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return error
    return None


OF_ALL = (check_files,)
