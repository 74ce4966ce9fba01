"""Programs for terminals whose servers are a table in JSON or TOML."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import File, HostConfig
from mcp_launch.config_files.host_quirks import LIBRARY_PASSES, Environment, HostProgram, HostQuirks
from mcp_launch.config_files.knowledge import Fact, Knowledge, measure
from mcp_launch.hosts.plain.places import Place, in_both, list_at, wait

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

_CRUSH_SERVERS = (("mcp",),)
_CODEX_SERVERS = (("mcp_servers",),)
_AMP_SERVERS = (("amp.mcpServers",),)


def _list_crush_files(site: Site) -> list[File]:
    usual = os.path.join(site.find_home("XDG_CONFIG_HOME", ".config"), "crush")
    own = site.environ.get("CRUSH_GLOBAL_CONFIG") or usual
    users = File(os.path.join(own, "crush.json"), "user", servers=_CRUSH_SERVERS)
    of_project = [os.path.join(site.project, name) for name in ("crush.json", ".crush.json")]
    return [users, *(File(path, "project", servers=_CRUSH_SERVERS) for path in of_project)]


TERMINALS = (
    HostConfig(
        "droid",
        "Factory Droid",
        list_at(*in_both(".factory", "mcp.json")),
        knowledge=Knowledge(files="source", calls=Fact("yes", "source")),
        quirks=HostQuirks(program=HostProgram("droid")),
    ),
    HostConfig(
        "amp",
        "Amp",
        # A project's servers are started only after `amp mcp approve`.
        list_at(
            Place(
                *(".config", ("settings.json",)),
                variable="XDG_CONFIG_HOME",
                below="amp",
                servers=_AMP_SERVERS,
            ),
            Place(".amp", ("settings.json",), "project", servers=_AMP_SERVERS),
        ),
        quirks=HostQuirks(
            program=HostProgram("amp"),
            home_variable="XDG_CONFIG_HOME",
        ),
    ),
    HostConfig(
        "crush",
        "Crush",
        _list_crush_files,
        knowledge=Knowledge(files="source"),
        quirks=HostQuirks(
            program=HostProgram("crush"),
            home_variable="CRUSH_GLOBAL_CONFIG",
        ),
    ),
    HostConfig(
        "openhands",
        "OpenHands",
        list_at(Place(".openhands", ("mcp.json",), variable="OPENHANDS_PERSISTENCE_DIR")),
        knowledge=measure("1.16.0", "the process's", "no", "no"),
        quirks=HostQuirks(
            program=HostProgram("openhands"),
            home_variable="OPENHANDS_PERSISTENCE_DIR",
            environment=Environment(list_passed=lambda _: LIBRARY_PASSES),
            list_waits=wait("OpenHands", 30),
        ),
    ),
    HostConfig(
        "grok",
        "Grok Build",
        list_at(
            *in_both(
                ".grok", "config.toml", variable="GROK_HOME", kind="toml", servers=_CODEX_SERVERS
            )
        ),
        quirks=HostQuirks(
            program=HostProgram("grok"),
            home_variable="GROK_HOME",
        ),
    ),
)
