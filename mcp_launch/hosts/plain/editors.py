"""Editors and desktop programs."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import File, HostConfig, in_home
from mcp_launch.config_files.host_quirks import (
    BORROWING_OF_EDITORS,
    LIBRARY_PASSES,
    Environment,
    HostProgram,
    HostQuirks,
    Texts,
)
from mcp_launch.config_files.knowledge import report
from mcp_launch.config_files.wrap import Shape
from mcp_launch.hosts.plain.places import MCP_SERVERS, Place, in_both, list_at

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

_ZED_SERVERS = (("context_servers",),)

# The names by which Warp finds the servers.
_WARP_SERVERS = (*MCP_SERVERS, ("mcp_servers",), ("servers",))

# Where Claude Desktop looks for programs on macOS, besides nvm's Nodes.
_DESKTOP_PATH = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def _find_desktop_path(site: Site) -> str:
    """Return the PATH of Claude Desktop on macOS: first every Node from nvm, oldest first.

    Elsewhere it has the desktop's PATH, which we assume to be the shell's.
    """
    if site.platform != "darwin":
        return ""
    versions = in_home(site, ".nvm/versions/node")
    try:
        names = os.listdir(versions)
    except OSError:
        names = []  # nvm is not installed
    names.sort(key=lambda name: [int(part) for part in re.findall(r"\d+", name)])
    return ":".join([*(f"{versions}/{name}/bin" for name in names), _DESKTOP_PATH])


EDITORS = (
    HostConfig(
        "claude-desktop",
        "Claude Desktop",
        lambda site: [
            File(os.path.join(site.applications, "Claude", "claude_desktop_config.json"), "user")
        ],
        starts_anywhere=True,
        knowledge=report("`/` or the home"),
        quirks=HostQuirks(
            program=HostProgram("claude-desktop", bundle="Claude"),
            environment=Environment(
                list_passed=lambda _: LIBRARY_PASSES, find_path=_find_desktop_path
            ),
            cwd="ignored",
        ),
    ),
    HostConfig(
        "cursor",
        "Cursor",
        list_at(*in_both(".cursor", "mcp.json")),
        starts_anywhere=True,
        knowledge=report("`/` or the home"),
        quirks=HostQuirks(
            program=HostProgram("cursor", bundle="Cursor"),
            environment=Environment(asks_the_shell=True),
            texts=Texts(borrowing=BORROWING_OF_EDITORS, borrow="${{env:{}}}"),
        ),
    ),
    HostConfig(
        "zed",
        "Zed",
        list_at(
            Place(
                *(".config", ("settings.json",)),
                variable="XDG_CONFIG_HOME",
                below="zed",
                servers=_ZED_SERVERS,
            ),
            Place(".zed", ("settings.json",), "project", servers=_ZED_SERVERS),
        ),
        # Before 2025 the command was a separate table.
        (Shape(), Shape(("command", "path"), ("command", "args"))),
        knowledge=report("the project"),
        quirks=HostQuirks(
            program=HostProgram("zed", bundle="Zed"),
            home_variable="XDG_CONFIG_HOME",
            environment=Environment(hands_all_on=True, asks_the_shell=True),
        ),
    ),
    HostConfig(
        "windsurf",
        "Windsurf",
        list_at(Place(".codeium/windsurf", ("mcp_config.json",))),
        starts_anywhere=True,
        knowledge=report("`/` or the home"),
        quirks=HostQuirks(
            program=HostProgram("windsurf", bundle="Windsurf"),
            environment=Environment(asks_the_shell=True),
            texts=Texts(borrowing=BORROWING_OF_EDITORS, borrow="${{env:{}}}"),
        ),
    ),
    HostConfig(
        "antigravity",
        "Antigravity",
        list_at(
            Place(".gemini/config", ("mcp_config.json",)),
            # Of older releases: the editor's, and the program's for terminals.
            Place(".gemini/antigravity", ("mcp_config.json",)),
            Place(".gemini/antigravity-cli", ("mcp_config.json",)),
            *(
                Place(directory, ("mcp_config.json",), "project")
                for directory in (".agents", ".agent", "_agents")
            ),
        ),
        quirks=HostQuirks(
            program=HostProgram("agy", bundle="Antigravity"),
            cwd="honoured",
            losses=(("user", "`agy` does not start"),),
        ),
    ),
    HostConfig(
        "kiro",
        "Kiro",
        list_at(
            *in_both(".kiro/settings", "mcp.json"),
            *in_both(".kiro/agents", "*.json"),
        ),
        quirks=HostQuirks(program=HostProgram("kiro", bundle="Kiro")),
    ),
    HostConfig(
        "junie",
        "JetBrains Junie",
        list_at(*in_both(".junie/mcp", "mcp.json")),
        quirks=HostQuirks(program=HostProgram("junie")),
    ),
    HostConfig(
        "warp",
        "Warp",
        list_at(*in_both(".warp", ".mcp.json", servers=_WARP_SERVERS)),
        quirks=HostQuirks(
            program=HostProgram("warp-terminal", bundle="Warp"),
            cwd="honoured",
            cwd_key="working_directory",
        ),
    ),
    HostConfig(
        "lmstudio",
        "LM Studio",
        list_at(Place(".lmstudio", ("mcp.json",))),
        starts_anywhere=True,
        quirks=HostQuirks(program=HostProgram("lm-studio", bundle="LM Studio")),
    ),
)
