"""Which inherited variables a server gets: all, all but the hosts' own secrets, or those named.

`safe` keeps back only what the host itself has. A variable of that list which the entry's own
`env` gives is what the user wants. Our environment does not say which of the two it is; the
host's does: a value that the host does not have can only come from the entry.
"""

from __future__ import annotations

from mcp_launch.errors import SourceMissing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ALL, SAFE = "all", "safe"

# Why a variable is kept back where names were given.
NOT_NAMED = "it is not named there"

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


def list_kept_back(
    environ: Mapping[str, str], wanted: list[str], judge: Callable[[str, str], str]
) -> dict[str, str]:
    """Return the variables that the server does not get, each with the reason.

    `judge` is asked about secrets alone: why a value may be the host's own; empty if it is not.
    """
    if wanted == [ALL]:
        return {}
    if wanted == [SAFE]:
        secrets = ((name, text) for name, text in environ.items() if is_secret(name))
        return {name: why for name, text in secrets if (why := judge(name, text))}
    patterns = (*BASICS, *wanted)
    return {name: NOT_NAMED for name in environ if not _is_any(name, patterns)}


def compare(name: str, text: str, environ: Mapping[str, str], title: str) -> str:
    """Return why a value may be the host's own; empty if the host has none or another.

    `environ` is the host's; empty when it cannot be read, which proves nothing.
    """
    if not environ:
        return f"the environment of {title} cannot be read"
    return f"{title} has it itself" if environ.get(name) == text else ""


def is_secret(name: str) -> bool:
    """Tell whether a variable is one of the hosts' own secrets."""
    return _is_any(name, SECRETS)


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


def expand(text: str, name: str, environ: Mapping[str, str]) -> str:
    """Return a text with the values of ${NAME} and ${NAME:-default} in it; $${ is ${."""
    made = ""
    while (begin := text.find("${")) >= 0:
        if text[:begin].endswith("$"):
            made, text = made + text[: begin - 1] + "${", text[begin + 2 :]
            continue
        inside, closed, rest = text[begin + 2 :].partition("}")
        wanted, has_default, default = inside.partition(":-")
        if not closed or "${" in inside:
            raise SourceMissing(
                f"no value for {name}: a ${{ in the profile has no end, or another one in it",
                fix="write ${NAME} or ${NAME:-default} ($${ is a plain ${)",
            )
        value = environ.get(wanted) or (default if has_default else environ.get(wanted))
        if value is None:
            raise SourceMissing(
                f"no value for {name}: {wanted} is not in the launcher's environment",
                fix=f"set {wanted}, or write ${{{wanted}:-default}} in the profile",
            )
        made, text = made + text[:begin] + value, rest
    return made + text
