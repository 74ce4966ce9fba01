"""Side effects of wrapping, where a host compares commands: allowlists, duplicates in plugins."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.machine import wrap_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_allowed(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find wrapped entries that an organisation's allowlist does not have (ML118)."""
    list_allowed = item.host.quirks.list_allowed_commands
    if list_allowed is None or not item.is_wrapped:
        return
    for path, commands in list_allowed(survey.site).items():
        if item.words not in commands:
            yield Finding(
                "ML118",
                item.point(),
                f"{path} allows servers by their exact command, and does not have the "
                f"wrapped command of '{item.name}': {item.host.title} does not start it",
                f"have the wrapped command allowed, or unwrap it: {_format_unwrap(item)}",
            )


def check_plugins(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find plugins that define a server that was wrapped (ML119)."""
    compares = item.host.quirks.list_allowed_commands is not None
    if not compares or not item.is_wrapped or not item.command:
        return
    path = wrap_warnings.list_plugin_commands(survey.site, item.host).get(tuple(item.command))
    if path:
        yield Finding(
            "ML119",
            item.point(),
            f"a plugin ({path}) has the same command as '{item.name}': since only one of them is "
            f"wrapped, {item.host.title} sees two servers, and starts both",
            f"disable the plugin's (/mcp in {item.host.title}), remove yours, "
            f"or unwrap it: {_format_unwrap(item)}",
        )


def _format_unwrap(item: Item) -> str:
    return f"mcp-launch unwrap --host {item.host.name} {shlex.quote(item.name)}"


OF_ITEMS = (check_allowed, check_plugins)
