"""What a server starts with: which inherited variables it gets, and in which directory.

* `list_kept_back` applies `--pass-env`. `safe` withholds a secret only if the host itself has
  it: one that the entry's own `env` sets is what the user wants. Our environment does not show
  which of the two it is, but the host's does: a value that the host does not have can only come
  from the entry.
* `expand` fills in ${NAME} in the values of a profile, and of `--set`.
* `decide_cwd` applies `--cwd`. A home or `/` is hardly ever a session's project. It is refused
  if the host's own record names another directory, or with `--strict`.

Identity variables that leaked from other hosts are removed in `plan`; they are listed in
`hosts.IDENTITY_VARIABLES`.

The patterns for names of secrets are here too, because the doctor and the masking of values
need them as well.
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

# Why a variable is withheld where --pass-env lists names.
NOT_NAMED = "it is not named there"

# Variables that hardly any program runs without; Codex gives these to every server.
BASICS = ("HOME", "LANG", "LC_*", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


# What hosts use to reach their models and each other. A server has no use for it.
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
    "QWEN_CODE_MESSAGING_*",
    "WINDSURF_API_KEY",
    "XAI_API_KEY",
)

# The words that occur in the names of secrets.
_WORDS = (
    r"(?<!mon)key(?!board|map|word|pad)",
    "token",
    "secret",
    "passw",
    "passphrase",
    "credential",
    "cookie",
    "dsn",
    r"auth(?!or(?!i[sz]))",
    "bearer",
    r"(?<![a-z])(?:pat|jwt)(?![a-z])",
    r"pw(?![a-z])",
    # SMTP_PASS and USERPASS, but not BYPASS or COMPASS, not GIT_ASKPASS, which is a program,
    # and not `--pass-env`, which is our own option.
    r"(?<!by)(?<!com)(?<!tres)(?<!multi)(?<!kee)(?<!ask)pass(?![a-z]|[_-]env)",
    # MYSQL_PWD and DBPWD, but not PWD or OLDPWD.
    r"(?<=[a-z_;-])(?<!old)(?<!old_)pwd(?![a-z])",
)

# Match these case-insensitively. The last is for secrets that people choose: their values may
# be plain words.
ANYWHERE = f"(?:{'|'.join(_WORDS)})"
CHOSEN_BY_PEOPLE = "(?:password|passwd|passphrase|secret)$"

# What `--cwd` accepts besides a directory.
PLACES = ("session", "project_root", "keep")

# Of these, the ones where the host decides, and not the user.
_FOUND = ("session", "project_root")


def list_kept_back(
    environ: Mapping[str, str], wanted: list[str], judge: Callable[[str, str], str]
) -> dict[str, str]:
    """Return the variables that the server does not get, each with the reason.

    `judge` is called only for secrets; it returns why a value may be the host's own, or "".
    """
    if wanted == [ALL]:
        return {}
    if wanted == [SAFE]:
        secrets = ((name, text) for name, text in environ.items() if is_host_secret(name))
        return {name: why for name, text in secrets if (why := judge(name, text))}
    patterns = (*BASICS, *wanted)
    return {name: NOT_NAMED for name in environ if not _is_any(name, patterns)}


def compare(name: str, text: str, environ: Mapping[str, str], title: str) -> str:
    """Return why a value may be the host's own; empty if the host has no such value.

    `environ` is the host's. If it is empty it could not be read, and the value may be the host's.
    """
    if not environ:
        return f"the environment of {title} cannot be read"
    return f"{title} has it itself" if environ.get(name) == text else ""


def is_host_secret(name: str) -> bool:
    """Return whether a variable is one of the hosts' own secrets.

    Whether a name looks like that of any secret is a question for `masking.is_secret_name`.
    """
    return _is_any(name, HOSTS_OWN)


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(matches(name, pattern) for pattern in patterns)


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern in which each * stands for any text."""
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
    """Return a text with ${NAME} and ${NAME:-default} replaced by their values; $${ is ${."""
    made = ""
    while (begin := text.find("${")) >= 0:
        if text[:begin].endswith("$"):
            made, text = made + text[: begin - 1] + "${", text[begin + 2 :]
            continue
        inside, closed, rest = text[begin + 2 :].partition("}")
        wanted, has_default, default = inside.partition(":-")
        if not closed or "${" in inside:
            raise SourceMissing(
                f"no value for {name}: its text has a ${{ that is not closed, or is nested",
                fix="write ${NAME} or ${NAME:-default} ($${ is a plain ${)",
            )
        value = environ.get(wanted) or (default if has_default else environ.get(wanted))
        if value is None:
            raise SourceMissing(
                f"no value for {name}: {wanted} is not set in the launcher's environment",
                fix=f"set {wanted}, or write ${{{wanted}:-default}} for it",
            )
        made, text = made + text[:begin] + value, rest
    return made + text


def decide_cwd(
    wanted: str,
    context: Context,
    is_directory: Callable[[str], bool] = os.path.isdir,
    *,
    origin: str = "--cwd",
    is_strict: bool = False,
) -> Found:
    """Return the server's directory; `origin` says where the user named it.

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


def _require_root(context: Context) -> Found:
    root = context.guess_root()
    if isinstance(root, Missing):
        raise PlaceRefused(
            f"there is no project root: {'; '.join(root.searched)}",
            fix="use --cwd session, name the directory (--cwd DIR), or start the host in a project",
        )
    return Found(root.value, f"project root: {root.origin}")


def _expand(wanted: str, context: Context) -> str:
    directory = expand_home(wanted, context.home)
    return os.path.normpath(os.path.join(context.place.value, directory))


def note_home(wanted: str, cwd: Found, context: Context) -> str:
    """Return what kind of home the directory is; empty if it is none, or the user chose it."""
    if not cwd.value:
        return "a deleted directory"
    return context.name_home(cwd.value) if is_found(wanted) else ""


def is_found(wanted: str) -> bool:
    """Return whether the directory is what the host says, and not what the user has chosen."""
    return wanted in _FOUND


def _judge_home(cwd: Found, context: Context, *, is_strict: bool) -> None:
    home, elsewhere = context.name_home(cwd.value), context.contradiction
    if elsewhere is not None:
        raise PlaceRefused(
            f"{context.host_title} started the server in {cwd.value} ({cwd.origin}), {home}, "
            f"but the session works in {elsewhere.value} ({elsewhere.origin})",
            fix=f"name the directory: --cwd {elsewhere.value}, or --cwd keep for {cwd.value}",
        )
    if is_strict:
        raise PlaceRefused(
            f"{context.host_title} started the server in {cwd.value} ({cwd.origin}), which is "
            f"{home}, not a project (--strict)",
            fix="start the host in a project, remove --strict, or name the directory: "
            f"--cwd {cwd.value}",
        )


def _stay(cwd: Found, context: Context, is_directory: Callable[[str], bool]) -> Found:
    """Return the inherited directory; its name is empty if it has been deleted."""
    inherited = context.inherited_cwd.value
    origin = "inherited"
    if cwd.value and cwd.value != inherited:
        origin += f"; {cwd.value} ({cwd.origin}) does not exist"
    return Found(inherited if inherited and is_directory(inherited) else "", origin)


def _refuse_missing(wanted: str, cwd: Found) -> PlaceRefused:
    if not cwd.value:
        return PlaceRefused(
            "the host started mcp-launch in a directory that was deleted",
            fix="restart the host in an existing directory, or name one: --cwd DIR",
        )
    meant = "" if wanted in PLACES else suggest(wanted, PLACES)
    return PlaceRefused(
        f"the server's directory {cwd.value} ({cwd.origin}) "
        + ("is a file" if os.path.exists(cwd.value) else "does not exist"),
        fix=f"{meant}create it, or name another directory: --cwd DIR",
    )
