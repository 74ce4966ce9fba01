"""What wrapping brings about in Claude Code besides a wrapped server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch import changing, jsonctext
from mcp_launch.changing import Wish
from mcp_launch.errors import LaunchError
from mcp_launch.settings import HOSTS, claude
from mcp_launch.spots import Unreadable

if TYPE_CHECKING:
    from mcp_launch.settings.host import Site


def find_allowlists(site: Site) -> dict[str, list[Any]]:
    """Return the managed settings that allow servers by their exact command, with the commands."""
    found = {}
    for path in claude.list_managed_settings(site):
        allowed = read_json(path).get("allowedMcpServers")
        rules = allowed if isinstance(allowed, list) else []
        commands = [
            rule["serverCommand"]
            for rule in rules
            if isinstance(rule, dict) and "serverCommand" in rule
        ]
        if commands:
            found[path] = commands
    return found


def list_plugin_commands(site: Site) -> dict[tuple[str, ...], str]:
    """Return the commands that plugins bring, and the file of each."""
    host = HOSTS["claude"]
    plugins = [(host, file) for file in host.list_files(site) if file.scope == "plugin"]
    return {
        tuple(entry.words): change.file.path
        for change in changing.look_at_all(plugins, Wish("", ()), lambda _: None)
        for entry in change.entries
        if entry.words
    }


def read_json(path: str) -> dict[str, Any]:
    """Return what a file of settings says; nothing if it cannot be read."""
    try:
        value, _ = jsonctext.read(changing.read_file(path))
    except (LaunchError, Unreadable):
        return {}
    return value if isinstance(value, dict) else {}
