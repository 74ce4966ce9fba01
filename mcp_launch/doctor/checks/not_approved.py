"""Projects that a host does not trust, and servers that it needs approval for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import OFF
from mcp_launch.doctor.finding import Finding
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_trust(survey: Survey) -> Iterator[Finding]:
    """Find servers of a project that a host does not trust (ML109)."""
    found: dict[tuple[str, str], list[Item]] = {}
    for item in survey.items:
        is_asked = item.host.approval.asks == "of the project" and item.is_of_project
        if is_asked and item.entry.get("enabled", True):
            found.setdefault((item.host.name, item.file.path), []).append(item)
    for items in found.values():
        host, file = items[0].host, items[0].file
        names = tuple(item.name for item in items)
        explained = host.approval.explain(survey, file, [*names])
        if explained:
            subject = Subject(host.name, "", "project", file.path)
            yield Finding("ML109", subject, *explained, servers=names)


def check_approval(survey: Survey) -> Iterator[Finding]:
    """Find servers of a project that a host needs approval for (ML110)."""
    for item in survey.items:
        approval = item.host.approval
        is_asked = approval.asks == "of each server" and item.is_of_project
        if not is_asked or item.why_not in {item.hidden, item.skipped}:
            continue
        is_waiting = approval.find_state(survey, item.file, item.name) == "pending"
        explained = approval.explain(survey, item.file, [item.name])
        if explained and not (is_waiting and item.why_not == OFF):
            yield Finding("ML110", item.point(), *explained)


def explain_not_started(survey: Survey, item: Item) -> str:
    """Return why a host would not start a project's server; "" if it would."""
    if not item.is_of_project:
        return ""
    if item.host.approval.asks == "unknown":
        title = item.host.title
        return f"it came with the project, and only {title} knows whether you trust the project"
    return item.host.approval.tell_why_not(survey, item.file, item.name)


OF_ALL = (check_trust, check_approval)
