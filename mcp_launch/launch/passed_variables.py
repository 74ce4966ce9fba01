"""Which inherited variables a server gets: all, all but the hosts' own secrets, or those named."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ALL, SAFE = "all", "safe"

# What hosts use to reach their models and each other: no business of a server's.
SECRETS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_OAUTH_*",
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "COPILOT_GITHUB_TOKEN",
    "CURSOR_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_IDENTITY_TOKEN*",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
    "OPENROUTER_API_KEY",
    "WINDSURF_API_KEY",
    "XAI_API_KEY",
)

# What hardly any program runs without; Codex gives these to every server.
BASICS = ("HOME", "LANG", "LC_*", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


def select(environ: Mapping[str, str], wanted: list[str]) -> dict[str, str]:
    """Return the variables that go on to the server."""
    if wanted == [ALL]:
        return dict(environ)
    if wanted == [SAFE]:
        return {name: text for name, text in environ.items() if not _is_any(name, SECRETS)}
    patterns = (*BASICS, *wanted)
    return {name: text for name, text in environ.items() if _is_any(name, patterns)}


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(matches(name, pattern) for pattern in patterns)


def matches(name: str, pattern: str) -> bool:
    """Tell whether a name is of a pattern in which each * stands for anything."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    if not name.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        at = name.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(name) - at >= len(rest[-1]) and name.endswith(rest[-1])
