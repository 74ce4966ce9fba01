"""The hosts besides Codex and Claude Code, and what each shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts import cline, copilot, gemini, goose, kimi, opencode, qwen, vibe

if TYPE_CHECKING:
    from hosts.workspace import Observation

HOSTS = {
    "goose": goose,
    "copilot": copilot,
    "opencode": opencode,
    "qwen": qwen,
    "kimi": kimi,
    "cline": cline,
    "gemini": gemini,
    "vibe": vibe,
}

# Their sessions are known when a server starts, or only once it is called.
KNOWN_AT_THE_START = {"goose", "copilot", "qwen", "vibe"}
KNOWN_WHEN_CALLED = KNOWN_AT_THE_START | {"kimi", "cline"}

# They also speak the protocol of 2026.
MODERN = {"goose", "copilot"}

# They show nobody why a server did not start, so the model gets a tool that says it. Vibe would
# keep the tool for a day: see test_vibe.py.
SILENT = {"gemini", "qwen", "cline"}

# What some of them tell every server about its session: in its environment, and with a call.
VARIABLES = {
    "goose": "AGENT_SESSION_ID",
    "copilot": "COPILOT_AGENT_SESSION_ID",
    "qwen": "QWEN_CODE_SESSION_ID",
}
META = "agent-session-id"


def is_agents(sight: Observation) -> bool:
    """Return whether a call says that its place is the agent's."""
    return sight.context.get("placeOf") == "agent"
