"""What else wrapping an entry has brought about, where a host compares commands."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.machine import wrap_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_allowed(survey: Survey, item: Item) -> Iterator[Finding]:
    """Look for an organisation that allows other commands only (ML118)."""
    list_allowed = item.host.quirks.list_allowed_commands
    if list_allowed is None or not item.is_wrapped:
        return
    for path, commands in list_allowed(survey.site).items():
        if item.words not in commands:
            yield Finding(
                "ML118",
                item.point(),
                f"{path} allows servers by their exact command, and that of {item.name} with "
                f"mcp-launch before it is not in it: {item.host.title} does not start it",
                f"have it allowed, or take the launcher out: {_tell_how(item)}",
            )


def check_plugins(survey: Survey, item: Item) -> Iterator[Finding]:
    """Look for a plugin that brings the server that was wrapped (ML119)."""
    compares = item.host.quirks.list_allowed_commands is not None
    if not compares or not item.is_wrapped or not item.command:
        return
    path = wrap_warnings.list_plugin_commands(survey.site, item.host).get(tuple(item.command))
    if path:
        yield Finding(
            "ML119",
            item.point(),
            f"a plugin ({path}) brings the command of {item.name}: since one of them is wrapped "
            f"{item.host.title} takes them for two, and starts both",
            f"disable the plugin's (/mcp in {item.host.title}), or remove yours, "
            f"or {_tell_how(item)}",
        )


def _tell_how(item: Item) -> str:
    return f"mcp-launch unwrap --host {item.host.name} {shlex.quote(item.name)}"


OF_ITEMS = (check_allowed, check_plugins)
