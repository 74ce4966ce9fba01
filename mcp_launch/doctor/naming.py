"""Names of servers: those that a host refuses, and those that several servers have."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from mcp_launch.doctor import approval
from mcp_launch.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.doctor.survey import Item, Survey

# What Codex 0.166 says of a name when it starts a server; before, it was less.
_OF_CODEX = re.compile(r"[a-zA-Z0-9_:@/.-]+")

# What Claude Code 2.1.325 does not load; any other name in a file is all right with it.
_RESERVED_BY_CLAUDE = {
    *("Claude_Browser", "Claude_Preview", "Claude_in_Chrome", "ccr-email", "claude-code-remote"),
    *("claude-device", "claude-in-chrome", "claude_ai", "computer-use", "hearthbot"),
    *("remote-devices", "webagent", "workspace"),
}


def check_names(survey: Survey) -> Iterator[Finding]:
    """Look for names that a host refuses (ML108)."""
    for item in survey.items:
        if item.file.why_not:
            continue
        if item.host.name == "codex" and not _OF_CODEX.fullmatch(item.name):
            message = f"Codex does not start a server whose name is {item.name!r}"
            fix = "use letters, digits and - _ . : @ / only"
            yield Finding("ML108", item.point(), message, fix)
        elif item.host.name == "claude" and item.name in _RESERVED_BY_CLAUDE:
            message = f"Claude Code keeps the name {item.name} for itself, and leaves the entry out"
            yield Finding("ML108", item.point(), message, "give it another name")


def check_scopes(survey: Survey) -> Iterator[Finding]:
    """Look for servers that are in several scopes of one host (ML107)."""
    of_codex: dict[str, list[Item]] = {}
    of_claude: dict[str, list[Item]] = {}
    for item in survey.items:
        if item.file.why_not:
            continue
        if item.host.name == "codex":
            of_codex.setdefault(item.name, []).append(item)
        elif item.host.name == "claude" and _is_for_project(survey, item):
            of_claude.setdefault(item.name, []).append(item)
    for items in of_codex.values():
        if len(items) > 1 and approval.read_trust(survey) == "trusted":
            yield from _tell_of_codex(*items)
    for items in of_claude.values():
        if len(items) > 1:
            yield from _tell_of_claude(survey, items)


def _is_for_project(survey: Survey, item: Item) -> bool:
    """Tell whether an entry counts in this project; others have private ones of their own."""
    if not item.scope.startswith("local: "):
        return True
    return os.path.realpath(str(item.path[1])) == os.path.realpath(survey.site.project)


def _tell_of_codex(user: Item, project: Item) -> Iterator[Finding]:
    """Say what Codex makes of two entries: one, key by key."""
    if not {"command", "url"} & set(project.entry):
        return  # it is there to change the user's
    taken = [key for key in user.entry if key not in project.entry]
    name = user.name
    if user.entry == project.entry:
        made = "they are the same"
    elif {"command", "url"} <= {*user.entry, *project.entry}:
        made = "the result has a command and a url, and Codex does not start"
    elif taken:
        made = f"with the project's command goes the user's {', '.join(taken)}"
    else:
        made = "the project's counts, and from the user's env what it lacks"
    yield Finding(
        "ML107",
        project.point(),
        f"{name} is in {user.file.path} too, and Codex merges both by key: {made}",
        f"give one another name, or remove the user's: codex mcp remove {shlex.quote(name)}",
    )


def _tell_of_claude(survey: Survey, items: list[Item]) -> Iterator[Finding]:
    """Say which entry Claude Code takes: it merges nothing."""
    name = items[0].name
    state = approval.find_state(survey, name)
    waiting = {"approved": 1, "pending": 3, "rejected": 4}[state]
    order = {"project": waiting, "user": 2}
    used, *rest = sorted(items, key=lambda item: order.get(item.scope, 0))
    hidden = rest[0]
    if state == "rejected" and hidden.scope == "project":
        return
    scopes = [item.scope.partition(":")[0] for item in (used, *rest)]
    is_same = ", and is the same there" if used.entry == hidden.entry else ""
    is_waiting = scopes[:2] == ["user", "project"]
    until = " until you approve the project's" if is_waiting else ""
    yield Finding(
        "ML107",
        hidden.point(),
        f"{name} is in the scopes {' and '.join(scopes)}{is_same}: Claude Code takes the one of "
        f"{scopes[0]} alone{until}",
        f"remove what you do not want: claude mcp remove {shlex.quote(name)} -s {scopes[1]}",
    )


OF_ALL = (check_names, check_scopes)
