"""Which inherited variables a server gets: all, all but the hosts' own secrets, or those named.

`safe` keeps back only what the host itself has. A variable of that list which the entry's own
`env` gives is what the user wants. Our environment does not say which of the two it is; the
host's does: a value that the host does not have can only come from the entry.
"""

from __future__ import annotations

import os

from mcp_launch.errors import PlaceRefused, SourceMissing, suggest
from mcp_launch.values import Found, Missing, expand_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_launch.launch.context import Context

ALL, SAFE = "all", "safe"

# Why a variable is kept back where names were given.
NOT_NAMED = "it is not named there"

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
    return _is_any(name, HOSTS_OWN)


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


# What hosts use to reach their models and each other: no business of a server's.
HOSTS_OWN = (
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

# Each word as it is found anywhere in a name, and as a name ends that means a secret for
# certain (empty: it never does).
_WORDS = (
    (r"(?<!mon)key(?!board|map|word|pad)", "key"),
    ("token", "token"),
    ("secret", "secret"),
    ("passw", "password|passwd"),
    ("passphrase", "passphrase"),
    ("credential", "credentials?"),
    ("cookie", "cookie"),
    ("dsn", "dsn"),
    (r"auth(?!or(?!i[sz]))", "authorization"),
    ("bearer", ""),
    (r"(?<![a-z])(?:pat|jwt)(?![a-z])", ""),
    (r"pw(?![a-z])", ""),
    # SMTP_PASS and USERPASS; but neither BYPASS, COMPASS nor GIT_ASKPASS, which is a program,
    # nor `--pass-env`, which is an option of ours.
    (r"(?<!by)(?<!com)(?<!tres)(?<!multi)(?<!kee)(?<!ask)pass(?![a-z]|[_-]env)", ""),
    # MYSQL_PWD and DBPWD; but neither PWD nor OLDPWD.
    (r"(?<=[a-z_;-])(?<!old)(?<!old_)pwd(?![a-z])", ""),
)

# Patterns to be matched in any case. The last: what people choose, which may be a plain word.
ANYWHERE = f"(?:{'|'.join(word for word, _ in _WORDS)})"
AT_THE_END = f"(?:{'|'.join(ending for _, ending in _WORDS if ending)})$"
CHOSEN_BY_PEOPLE = "(?:password|passwd|passphrase|secret)$"


# What `--cwd` takes besides a directory.
PLACES = ("session", "project_root", "keep")

# Those of them that leave it to the host where that is.
_FOUND = ("session", "project_root")


def decide_cwd(
    wanted: str,
    context: Context,
    is_directory: Callable[[str], bool] = os.path.isdir,
    *,
    origin: str = "--cwd",
    is_strict: bool = False,
) -> Found:
    """Return the server's directory; `origin` is where a directory was named.

    Raises:
        PlaceRefused: It does not exist, or is not the session's.

    """
    if wanted == "keep":
        cwd = Found(context.inherited_cwd.value, "inherited, as --cwd keep asks")
    elif wanted == "session":
        cwd = context.place
    elif wanted == "project_root":
        cwd = _require_root(context)
    else:
        cwd = Found(_expand(wanted, context), origin)
    if cwd.value and note_home(wanted, cwd, context):
        _judge_home(cwd, context, is_strict=is_strict)
    if cwd.value and is_directory(cwd.value):
        return cwd
    if wanted in {"session", "keep"} and not is_strict:
        return _stay(cwd, context, is_directory)
    raise _refuse_missing(wanted, cwd)


def _stay(cwd: Found, context: Context, is_directory: Callable[[str], bool]) -> Found:
    """Return where we were started, by an empty name if that has been deleted."""
    inherited = context.inherited_cwd.value
    origin = "inherited"
    if cwd.value and cwd.value != inherited:
        origin += f"; {cwd.value} ({cwd.origin}) does not exist"
    return Found(inherited if inherited and is_directory(inherited) else "", origin)


def _refuse_missing(wanted: str, cwd: Found) -> PlaceRefused:
    if not cwd.value:
        return PlaceRefused(
            "the directory in which the host started mcp-launch was deleted",
            fix="restart the host in a directory that exists, or name one: --cwd DIR",
        )
    meant = "" if wanted in PLACES else suggest(wanted, PLACES)
    return PlaceRefused(
        f"the server's directory {cwd.value} ({cwd.origin}) "
        + ("is a file" if os.path.exists(cwd.value) else "does not exist"),
        fix=f"{meant}create it, or name another directory: --cwd DIR",
    )


def note_home(wanted: str, cwd: Found, context: Context) -> str:
    """Return which home the server's directory is, unless the user chose it; else nothing."""
    if not cwd.value:
        return "a deleted directory"
    return context.name_home(cwd.value) if wanted in _FOUND else ""


def _judge_home(cwd: Found, context: Context, *, is_strict: bool) -> None:
    home, elsewhere = context.name_home(cwd.value), context.contradiction
    if elsewhere is not None:
        raise PlaceRefused(
            f"{context.host_title} gave the server {cwd.value} ({cwd.origin}), {home}, but the "
            f"session works in {elsewhere.value} ({elsewhere.origin})",
            fix=f"name the directory: --cwd {elsewhere.value}, or --cwd keep for {cwd.value}",
        )
    if is_strict:
        raise PlaceRefused(
            f"{context.host_title} gave the server {cwd.value} ({cwd.origin}): {home} is not a "
            "project (--strict)",
            fix="start the host in a project, leave out --strict, or name the directory: "
            f"--cwd {cwd.value}",
        )


def _require_root(context: Context) -> Found:
    root = context.project_root
    if isinstance(root, Missing):
        raise PlaceRefused(
            f"there is no project root: {'; '.join(root.searched)}",
            fix="use --cwd session, or put an empty .mcp-launch.toml at the project's root",
        )
    return Found(root.value, f"project root: {root.origin}")


def _expand(wanted: str, context: Context) -> str:
    directory = expand_home(wanted, context.home)
    return os.path.normpath(os.path.join(context.place.value, directory))
