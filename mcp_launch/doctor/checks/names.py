"""Names of servers that a host refuses, or that several servers have."""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.values import is_same_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_names(survey: Survey) -> Iterator[Finding]:
    """Find names that a host refuses (ML108)."""
    for item in survey.items:
        if item.file.why_not:
            continue
        title, limits = item.host.title, item.host.quirks.limits
        if limits.server_name and not limits.server_name.fullmatch(item.name):
            message = f"{title} does not start a server named {item.name!r}"
            yield Finding("ML108", item.point(), message, f"use only {limits.name_rule}")
        elif item.name in limits.reserved_names:
            message = f"{title} reserves the name '{item.name}', and skips the entry"
            yield Finding("ML108", item.point(), message, "give it another name")


def check_scopes(survey: Survey) -> Iterator[Finding]:
    """Find servers that are in several scopes of one host (ML107)."""
    merged: dict[tuple[str, str], list[Item]] = {}
    chosen: dict[tuple[str, str], list[Item]] = {}
    for item in survey.items:
        if item.file.why_not or item.why_not == item.hidden or item.file.is_of_profile:
            continue
        key, rule = (item.host.name, item.name), item.host.quirks.same_name
        if rule == "merged" and _is_read(survey, item):
            merged.setdefault(key, []).append(item)
        elif rule == "nearest" and _is_for_project(survey, item):
            chosen.setdefault(key, []).append(item)
    for items in merged.values():
        for below, above in pairwise(_order(items)):
            yield from _report_merged(below, above)
    for items in chosen.values():
        if len(items) > 1:
            yield from _report_hidden(survey, items)


def _is_read(survey: Survey, item: Item) -> bool:
    """Return whether a host reads an entry's file."""
    if not item.is_of_project:
        return True
    return item.host.approval.find_state(survey, item.file, item.name) == "approved"


def _order(items: list[Item]) -> list[Item]:
    """Return entries in the order in which a host merges them: the nearest project's last."""
    users = [item for item in items if not item.is_of_project]
    projects = [item for item in items if item.is_of_project]
    return users + projects[::-1]


def _is_for_project(survey: Survey, item: Item) -> bool:
    """Return whether an entry is used in this project, not a private one of another."""
    if not item.scope.startswith("local: "):
        return True
    return is_same_directory(str(item.path[1]), survey.site.project)


def _report_merged(below: Item, above: Item) -> Iterator[Finding]:
    """Report the result of two entries that a host merges key by key."""
    if not {"command", "url"} & set(above.entry):
        return  # it is meant to change the other
    taken = [key for key in below.entry if key not in above.entry]
    name, title = below.name, below.host.title
    owner = "the outer project's" if below.is_of_project else "the user's"
    if below.entry == above.entry:
        result = "they are the same"
    elif {"command", "url"} <= {*below.entry, *above.entry}:
        result = f"the result has a command and a url, and {title} does not start"
    elif taken:
        result = f"the result has the project's command and {owner} {', '.join(taken)}"
    else:
        result = f"the project's is used, with further variables from {owner} env"
    how = "" if below.is_of_project else f": {_name_command(below)} {shlex.quote(name)}"
    yield Finding(
        "ML107",
        above.point(),
        f"'{name}' is also in {below.file.path}, and {title} merges both by key: {result}",
        f"rename one of them, or remove {owner}{how}",
    )


def _report_hidden(survey: Survey, items: list[Item]) -> Iterator[Finding]:
    """Report which entry is used by a host that does not merge them."""
    name = items[0].name
    state = items[0].host.approval.find_state(survey, items[0].file, name)
    waiting = {"pending": 3, "rejected": 4}.get(state, 1)
    order = {"project": waiting, "user": 2}
    used, *rest = sorted(items, key=lambda item: order.get(item.scope, 0))
    hidden = rest[0]
    if state == "rejected" and hidden.scope == "project":
        return
    scopes = [item.scope.partition(":")[0] for item in (used, *rest)]
    is_same = ", with the same content" if used.entry == hidden.entry else ""
    is_waiting = scopes[:2] == ["user", "project"]
    until = " until you approve the project's" if is_waiting else ""
    yield Finding(
        "ML107",
        hidden.point(),
        f"'{name}' is in the scopes {' and '.join(scopes)}{is_same}: {used.host.title} uses only "
        f"the one in {scopes[0]}{until}",
        f"remove the one you do not want: {_name_command(used)} {shlex.quote(name)} -s {scopes[1]}",
    )


def _name_command(item: Item) -> str:
    """Return the command of a host that removes a server."""
    return f"{item.host.quirks.program.command} mcp remove"


OF_ALL = (check_names, check_scopes)
