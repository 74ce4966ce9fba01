"""What hosts do not put up with: too slow a start, too many tools, too long a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.machine.survey import Item

# Measured with Codex 0.166: without `required`, its model is asked without the tools of a
# server that is not ready so soon.
CODEX_GRACE = 1.0

# Measured with Claude Code 2.1.325: so long does the prompt of `claude -p` wait for tools.
CLAUDE_GRACE = 2.0

# When either gives a server up, if nothing else is set.
GIVEN_UP_AFTER = 30.0

_FASTER = "install the server instead of downloading it at each start"


class Wait(NamedTuple):
    """How long a host waits for a server's tools."""

    seconds: float
    consequence: str
    fix: str


class Count(NamedTuple):
    """How many tools a host takes, of all its servers together."""

    limit: int
    consequence: str


COUNTS = {
    # It was 40 until 2025 (Snowflake-Labs/mcp#77, DaxianLee/cocos-mcp-server#11).
    "cursor": Count(80, "Cursor warns of more than 80, and may leave some out"),
    # microsoft/vscode#337428
    "vscode": Count(128, "VS Code refuses a request with more than 128, its own included"),
    # docs.windsurf.com/windsurf/cascade/mcp
    "windsurf": Count(100, "Windsurf takes no more than 100"),
}


class Length(NamedTuple):
    """How long a tool's name may be, together with what a host puts before it."""

    limit: int
    before: str  # {} is the server's name


LENGTHS = {
    # "Combined server and tool name length (60) exceeds 60 characters" (ComposioHQ/composio#2788).
    "cursor": Length(59, "{}"),
    # Measured with Claude Code 2.1.325. Codex shortens names instead.
    "claude": Length(128, "mcp__{}__"),
}


def list_waits(item: Item, environ: Mapping[str, str]) -> list[Wait]:
    """Return how long a host waits for an entry's tools, and what it does then; longest first."""
    if item.host.name == "codex":
        return _list_codex_waits(item)
    if item.host.name == "claude":
        return _list_claude_waits(environ)
    return []


def _list_codex_waits(item: Item) -> list[Wait]:
    patience = _read_patience(item)
    last = Wait(
        patience,
        f"Codex gives up after {patience:g} s",
        "set startup_timeout_sec in the entry to more than that",
    )
    if item.entry.get("required") is True:
        return [last]
    first = Wait(
        CODEX_GRACE,
        f"Codex waits {CODEX_GRACE:g} s before it goes on without them",
        f"set required = true in the entry to have Codex wait for it, or {_FASTER}",
    )
    return [last, first]


def _list_claude_waits(environ: Mapping[str, str]) -> list[Wait]:
    patience = _read_milliseconds(environ, "MCP_TIMEOUT", GIVEN_UP_AFTER)
    grace = _read_milliseconds(environ, "CLAUDE_CODE_MCP_STARTUP_WAIT_MS", CLAUDE_GRACE)
    return [
        Wait(
            patience,
            f"Claude Code gives up after {patience:g} s",
            "start Claude Code with a larger MCP_TIMEOUT (in milliseconds)",
        ),
        Wait(
            grace,
            f"a prompt of `claude -p` waits {grace:g} s before it goes without them",
            "start Claude Code with a larger CLAUDE_CODE_MCP_STARTUP_WAIT_MS (in milliseconds), "
            f"or {_FASTER}",
        ),
    ]


def _read_patience(item: Item) -> float:
    for key, second in (("startup_timeout_sec", 1), ("startup_timeout_ms", 1000)):
        value = item.entry.get(key)
        if isinstance(value, (int, float)) and value > 0:
            return value / second
    return GIVEN_UP_AFTER


def _read_milliseconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    return int(text) / 1000 if text.isdecimal() else default
