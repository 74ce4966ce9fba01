"""Codex's files: TOML, for the user and for a project."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.host_config import (
    MANAGED,
    PLUGIN,
    File,
    HostConfig,
    count_inside,
    find_plugin_files,
    list_upward,
)
from mcp_launch.config_files.host_quirks import (
    BARE_VARIABLE,
    BRACED_VARIABLE,
    FASTER,
    GIVEN_UP_AFTER,
    TILDE,
    Environment,
    Greeting,
    HostProgram,
    HostQuirks,
    Texts,
    Wait,
)
from mcp_launch.config_files.knowledge import measure
from mcp_launch.hosts.codex.sessions import SESSIONS
from mcp_launch.hosts.codex.settings import SERVERS, ProjectTrust, find_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.config_files.site import Site

# The variables that it passes on, besides those that an entry's `env_vars` names.
_PASSES = frozenset(
    {
        *("HOME", "LOGNAME", "PATH", "SHELL", "USER", "__CF_USER_TEXT_ENCODING"),
        *("LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"),
        *("CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "PIP_CERT"),
        *("BUNDLE_SSL_CA_CERT", "npm_config_cafile", "NPM_CONFIG_CAFILE"),
    }
)

# How long, in seconds, Codex waits for a server without `required` before it prompts the model
# without its tools (measured with 0.166).
GRACE = 1.0


def _list_files(site: Site) -> list[File]:
    home = site.find_home("CODEX_HOME", ".codex")
    return [
        find_own(site),
        *[File(path, "project", "toml", SERVERS) for path in _list_of_project(site)],
        File("/etc/codex/managed_config.toml", "managed", "toml", SERVERS, MANAGED),
        *[
            File(path, "plugin", servers=(("mcpServers",), ()), why_not=PLUGIN)
            for path in find_plugin_files(os.path.join(home, "plugins"), ".mcp.json")
        ],
    ]


def _list_of_project(site: Site) -> list[str]:
    """Return the files of a project: up to its repository's root, or only its own."""
    return list_upward(site, ".codex", "config.toml")[: count_inside(site)]


def _list_waits(entry: Mapping[str, Any], environ: Mapping[str, str]) -> list[Wait]:
    del environ  # it has no such setting
    patience = _read_patience(entry)
    last = Wait(
        patience,
        f"Codex gives up after {patience:g} s",
        "set startup_timeout_sec in the entry to more than that",
    )
    if entry.get("required") is True:
        return [last]
    first = Wait(
        GRACE,
        f"Codex waits {GRACE:g} s, then continues without them",
        "set required = true in the entry to make Codex wait for it (then Codex does not start "
        f"at all if the server fails), or {FASTER}",
    )
    return [last, first]


def _read_patience(entry: Mapping[str, Any]) -> float:
    for key, second in (("startup_timeout_sec", 1), ("startup_timeout_ms", 1000)):
        value = entry.get(key)
        if isinstance(value, (int, float)) and value > 0:
            return value / second
    return GIVEN_UP_AFTER


CONFIG = HostConfig(
    "codex",
    "Codex",
    _list_files,
    sessions=SESSIONS,
    approval=ProjectTrust(),
    knowledge=measure("0.169.0", "the thread's", "yes", "yes"),
    quirks=HostQuirks(
        program=HostProgram("codex"),
        home_variable="CODEX_HOME",
        environment=Environment(
            list_passed=lambda _: _PASSES,
            has_env_vars=True,
        ),
        texts=Texts(
            replaces_nothing=True,
            unexpanded=re.compile(f"{BRACED_VARIABLE}|{BARE_VARIABLE}|{TILDE}"),
        ),
        list_waits=_list_waits,
        greeting=Greeting(
            "initialize",
            capabilities=("elicitation",),  # seen with 0.166; it answers `roots/list` all the same
            newer_variable="CODEX_MCP_PROTOCOL_VERSION",
            refuses_incomplete=True,
        ),
        cwd="absolute",
        same_name="merged",
        processes="one for each thread",
        starts_without_shell=True,
        losses=(
            ("user", "Codex does not start, in a terminal or in an editor"),
            ("project", "Codex does not start in this project if the project is trusted"),
        ),
    ),
)
