"""Claude Code's files: the user's, with each project's private servers, and the project's."""

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
    FASTER,
    GIVEN_UP_AFTER,
    LIBRARY_PASSES,
    TILDE,
    Environment,
    Greeting,
    HostProgram,
    HostQuirks,
    Texts,
    Wait,
)
from mcp_launch.config_files.knowledge import measure
from mcp_launch.hosts.claude import settings
from mcp_launch.hosts.claude.sessions import SESSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.config_files.site import Site

# Variables that it does not pass on.
_STRIPS = re.compile(
    "^(CLAUDE_CODE_(OAUTH_TOKEN|SUBSCRIPTION_TYPE|RATE_LIMIT_TIER|SESSION_KIND|SESSION_NAME)$"
    "|CLAUDE_BG_|OTEL_)"
)

# How long, in seconds, a prompt of `claude -p` waits for tools (measured with 2.1.325).
GRACE = 2.0


def _list_files(site: Site) -> list[File]:
    managed = os.path.join(settings.find_managed(site), "managed-mcp.json")
    return [
        settings.find_own(site),
        # Of several servers with one name, it uses the nearest.
        *[
            File(path, "project", is_outside=above >= count_inside(site))
            for above, path in enumerate(list_upward(site, ".mcp.json"))
        ],
        File(managed, "managed", why_not=MANAGED),
        *[
            File(path, "plugin", servers=(("mcpServers",), ()), why_not=PLUGIN)
            for path in find_plugin_files(_find_plugins(site), ".mcp.json")
        ],
    ]


def _find_plugins(site: Site) -> str:
    """Return the directory in which plugins are installed."""
    return os.path.join(site.find_home("CLAUDE_CONFIG_DIR", ".claude"), "plugins")


def _list_passed(environ: Mapping[str, str]) -> frozenset[str] | None:
    """Return the variables that it passes on if restricted, by a setting or by its app."""
    is_restricted = (
        environ.get("CLAUDE_CODE_MCP_ALLOWLIST_ENV") == "1"
        or environ.get("CLAUDE_CODE_ENTRYPOINT") == "local-agent"
    )
    return LIBRARY_PASSES if is_restricted else None


def _list_waits(entry: Mapping[str, Any], environ: Mapping[str, str]) -> list[Wait]:
    del entry  # it has no such setting
    patience = _read_milliseconds(environ, "MCP_TIMEOUT", GIVEN_UP_AFTER)
    grace = _read_milliseconds(environ, "CLAUDE_CODE_MCP_STARTUP_WAIT_MS", GRACE)
    return [
        Wait(
            patience,
            f"Claude Code gives up after {patience:g} s",
            "start Claude Code with a larger MCP_TIMEOUT (in milliseconds)",
        ),
        Wait(
            grace,
            f"`claude -p` waits {grace:g} s, then sends its prompt without them",
            "start Claude Code with a larger CLAUDE_CODE_MCP_STARTUP_WAIT_MS (in milliseconds), "
            f"or {FASTER}",
        ),
    ]


def _read_milliseconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    return int(text) / 1000 if text.isdecimal() else default


CONFIG = HostConfig(
    "claude",
    "Claude Code",
    _list_files,
    sessions=SESSIONS,
    approval=settings.ServerApproval(),
    knowledge=measure("2.1.328", "the session's", "yes", "yes"),
    quirks=HostQuirks(
        program=HostProgram("claude"),
        home_variable="CLAUDE_CONFIG_DIR",
        environment=Environment(
            hands_all_on=True,
            list_passed=_list_passed,
            strips=_STRIPS,
            strips_secrets_if="CLAUDE_CODE_SUBPROCESS_ENV_SCRUB",
            added=(("CLAUDECODE", "1"),),
            project_variable="CLAUDE_PROJECT_DIR",
            list_settings=settings.list_settings,
            list_project_settings=settings.list_project_settings,
        ),
        texts=Texts(
            borrowing=re.compile(r"\$\{(\w+)(?::-([^}]*))?\}"),
            borrow="${{{}}}",
            unexpanded=re.compile(f"{BARE_VARIABLE}|{TILDE}"),
            leaves_unset=True,
        ),
        list_waits=_list_waits,
        greeting=Greeting(
            "server/discover",
            capabilities=("roots", "elicitation"),  # seen with 2.1.325
            refuses_incomplete=True,
            versions=frozenset(
                {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"}
            ),
        ),
        cwd="ignored",
        same_name="nearest",
        processes="one",
        starts_without_shell=True,
        json_extras="nothing",
        list_allowlists=settings.list_allowlists,
        losses=(
            ("user", "Claude Code does not start"),
            ("project", "Claude Code starts without its servers"),
        ),
    ),
)
