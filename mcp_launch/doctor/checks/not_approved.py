"""Projects that Codex does not trust, and servers that Claude Code needs approval for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.hosts.codex import config as codex_config
from mcp_launch.machine import permission
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_trust(survey: Survey) -> Iterator[Finding]:
    """Find servers of a project that Codex does not trust (ML109)."""
    user = codex_config.find_own(survey.site).path
    found: dict[str, list[Item]] = {}
    for item in survey.items:
        is_trusted_as_project = item.host.quirks.approval == "of the project"
        if is_trusted_as_project and item.is_of_project and item.entry.get("enabled", True):
            found.setdefault(item.file.path, []).append(item)
    if any(refusal.file.path == user for refusal in survey.refusals):
        return  # unknown
    for path, items in found.items():
        level = permission.read_trust(survey, items[0].file)
        if level == "trusted":
            continue
        root = _find_root(items[0])
        names = ", ".join(item.name for item in items)
        why = f"{user} marks {root} as untrusted" if level else f"Codex does not trust {root}"
        yield Finding(
            "ML109",
            Subject(items[0].host.name, "", "project", path),
            f"{why}: it does not read this file, and does not start {names}",
            f"if you trust it, run codex in {root} and confirm; that writes "
            f'[projects."{root}"] trust_level = "trusted" into {user}',
        )


def _find_root(item: Item) -> str:
    """Return the directory that Codex must trust to read an entry of a project."""
    return permission.list_roots(os.path.dirname(os.path.dirname(item.file.path)))[-1]


def check_approval(survey: Survey) -> Iterator[Finding]:
    """Find servers of a project that Claude Code needs approval for (ML110)."""
    for item in survey.items:
        is_asked = item.host.quirks.approval == "of each server" and item.is_of_project
        if is_asked and item.why_not not in {permission.HIDDEN, permission.SKIPPED}:
            yield from _report(survey, item)


def explain_not_started(survey: Survey, item: Item) -> str:
    """Return why a host would not start a project's server; "" if it would."""
    if not item.is_of_project:
        return ""
    title, approval = item.host.title, item.host.quirks.approval
    if approval == "of each server":
        state = permission.find_state(survey, item.name)
        reasons = {"pending": f"you have not approved it in {title}", "rejected": permission.OFF}
        return reasons.get(state, "")
    if approval == "of the project":
        is_trusted = permission.read_trust(survey, item.file) == "trusted"
        return "" if is_trusted else f"{title} does not trust {_find_root(item)}"
    return f"it came with the project, and only {title} knows whether you trust the project"


def _report(survey: Survey, item: Item) -> Iterator[Finding]:
    sources = survey.approvals
    approving = [
        path for path, settings in sources.items() if permission.approves(settings, item.name)
    ]
    project = survey.site.project
    state = permission.find_state(survey, item.name)
    if state == "rejected" and approving:
        [rejecting, *_] = [
            path
            for path, settings in sources.items()
            if permission.has(settings, "disabledMcpjsonServers", item.name)
        ]
        message = f"{approving[0]} approves {item.name}, but {rejecting} disables it, and that wins"
        fix = f"if you want it, remove it from disabledMcpjsonServers in {rejecting}"
        yield Finding("ML110", item.point(), message, fix)
    elif state == "pending" and item.why_not != permission.OFF:
        message = f"Claude Code does not start {item.name} in a terminal until you approve it"
        if approving:
            message += f"; {approving[0]} approves it, but only once you trust {project}"
        fix = f"review it, then run claude in {project} and answer its question"
        yield Finding("ML110", item.point(), message, fix)


OF_ALL = (check_trust, check_approval)
