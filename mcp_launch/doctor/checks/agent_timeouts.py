"""Servers that are agents themselves, so that their answers take minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.doctor.checks import packages
from mcp_launch.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey

# How long an agent may take for one answer, in seconds.
_ENOUGH = 600

# Packages that give a task to an agent and wait for the result.
_AGENTS = {
    *("@steipete/claude-code-mcp", "claude-mcp", "codex-mcp-server", "gemini-mcp-tool"),
}


def check_time(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find agents whose host does not wait long enough (ML112)."""
    del survey
    if not is_agent(item.command):
        return
    timeout = item.host.quirks.limits.answer
    if timeout is not None:
        given = item.entry.get(timeout.key, timeout.default)
        yield from _report(item, timeout.key, given, timeout.in_second)


def is_agent(command: list[str]) -> bool:
    """Return whether a command starts an agent."""
    package = packages.find_package(command)
    return (
        packages.is_codex_server(command)
        or packages.is_claude_server(command)
        or (package is not None and package.name in _AGENTS)
    )


def _report(item: Item, key: str, given: object, unit: int) -> Iterator[Finding]:
    if not isinstance(given, int | float) or given >= _ENOUGH * unit:
        return
    by_default = "" if key in item.entry else " by default"
    yield Finding(
        "ML112",
        item.point(key),
        f"{item.host.title} waits only {given / unit:g} s for an answer{by_default}, but "
        f"'{item.name}' is an agent, whose answers take minutes",
        f"set {key} to {_ENOUGH * unit} or more",
    )


OF_ITEMS = (check_time,)
