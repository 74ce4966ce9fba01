"""What is known of a launch, as leases hold it and as servers are told it."""

from __future__ import annotations

from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.launch.context import Context
    from mcp_launch.protocol.json_text import Json

# The names that a server sees in `_meta`.
_NAMES = {
    "host": "host",
    "session": "sessionId",
    "thread": "threadId",
    "project_root": "projectRoot",
    "cwd": "cwd",
}


def describe_facts(found: Context, cwd: Found) -> dict[str, Json]:
    """Return what is known of a launch, each with its origin."""
    facts = {
        "host": found.host,
        "session": found.session,
        "thread": found.thread,
        "project_root": found.project_root,
        "cwd": cwd,
    }
    return {
        name: {"value": fact.value, "origin": fact.origin}
        for name, fact in facts.items()
        if isinstance(fact, Found)
    }


def name_context(facts: Json, launch: Json, state: Json, evidence: Json) -> dict[str, Json]:
    """Return facts, as leases hold them, under the names that a server sees."""
    told: dict[str, Json] = {}
    origin: dict[str, Json] = {}
    for name, seen in _NAMES.items():
        fact = facts.get(name) if isinstance(facts, dict) else None
        if isinstance(fact, dict):
            told[seen] = fact.get("value")
            origin[seen] = fact.get("origin")
    if evidence:
        origin["binding"] = evidence
    return {**told, "launchId": launch, "binding": state, "origin": origin}
