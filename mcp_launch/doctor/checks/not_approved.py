"""Whether a host may start a project's servers: some trust projects, others each server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import OFF
from mcp_launch.doctor.finding import Finding
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_trust(survey: Survey) -> Iterator[Finding]:
    """Look for servers of a project that a host does not trust (ML109)."""
    found: dict[tuple[str, str], list[Item]] = {}
    for item in survey.items:
        is_asked = item.host.approval.asks == "of the project" and item.is_of_project
        if is_asked and item.entry.get("enabled", True):
            found.setdefault((item.host.name, item.file.path), []).append(item)
    for items in found.values():
        host, file = items[0].host, items[0].file
        told = host.approval.explain(survey, file, [item.name for item in items])
        if told:
            yield Finding("ML109", Subject(host.name, "", "project", file.path), *told)


def check_approval(survey: Survey) -> Iterator[Finding]:
    """Look for servers of a project that a host asks about (ML110)."""
    for item in survey.items:
        approval = item.host.approval
        is_asked = approval.asks == "of each server" and item.is_of_project
        if not is_asked or item.why_not in {item.hidden, item.skipped}:
            continue
        is_waiting = approval.find_state(survey, item.file, item.name) == "pending"
        told = approval.explain(survey, item.file, [item.name])
        if told and not (is_waiting and item.why_not == OFF):
            yield Finding("ML110", item.point(), *told)


def tell_why_not_started(survey: Survey, item: Item) -> str:
    """Return why a host would not start a project's server; nothing if it would."""
    if not item.is_of_project:
        return ""
    if item.host.approval.asks == "unknown":
        title = item.host.title
        return f"it came with the project, and only {title} knows whether you trust that"
    return item.host.approval.tell_why_not(survey, item.file, item.name)


OF_ALL = (check_trust, check_approval)
