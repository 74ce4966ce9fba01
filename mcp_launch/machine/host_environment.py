"""What a server gets from its host: not what a shell has, and each host gives something else.

A host that runs now is asked (its process shows its environment); of one that does not, we
know how it is usually started: from a terminal, with all that the shell has, or from a
desktop, after which editors ask the shell for the rest and Claude Desktop does not.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcp_launch import masking
from mcp_launch.launch import environment
from mcp_launch.machine import claude_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.config_files.host_config import HostConfig, Site
    from mcp_launch.machine.survey import Item, Survey

# Hosts that hand on all they have, which is known of these; of others it is not.
HAND_ALL_ON = ("claude", "vscode", "opencode", "zed", "goose")

# Editors, which run the user's shell at their start to learn what it would have given them.
_ASK_THE_SHELL = {"cursor", "vscode", "zed", "windsurf", "cline"}

# Where Claude Desktop looks on macOS, behind every Node that nvm has installed; elsewhere it is
# left with what the desktop has, which we take to be what the shell has.
_DESKTOP_PATH = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"

# What a host adds to the environment of every server, besides the server's identity.
_ADDED = {"claude": {"CLAUDECODE": "1"}, "gemini": {"GEMINI_CLI": "1"}}

# What Codex leaves of its own environment, besides what an entry's `env_vars` name.
_CODEX_PASSES = {
    *("HOME", "LOGNAME", "PATH", "SHELL", "USER", "__CF_USER_TEXT_ENCODING"),
    *("LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"),
    *("CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "PIP_CERT"),
    *("BUNDLE_SSL_CA_CERT", "npm_config_cafile", "NPM_CONFIG_CAFILE"),
}

# What the protocol's own library passes on where its user adds nothing.
_LIBRARY_PASSES = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}

# What Claude Code keeps to itself.
_CLAUDE_STRIPS = re.compile(
    "CLAUDE_CODE_(OAUTH_TOKEN|SUBSCRIPTION_TYPE|RATE_LIMIT_TIER|SESSION_KIND|SESSION_NAME)$"
    "|CLAUDE_BG_|OTEL_"
)

# What Gemini CLI takes out by its name, and what never.
_GEMINI_STRIPS = re.compile(
    "TOKEN|SECRET|PASSWORD|PASSWD|KEY|AUTH|CREDENTIAL|CREDS|PRIVATE|CERT"
    "|^(CLIENT_ID|DB_URI|CONNECTION_STRING|AWS_DEFAULT_REGION|AZURE_CLIENT_ID|AZURE_TENANT_ID"
    "|SLACK_WEBHOOK_URL|TWILIO_ACCOUNT_SID|DATABASE_URL|GOOGLE_CLOUD_PROJECT"
    "|GOOGLE_CLOUD_ACCOUNT|FIREBASE_PROJECT_ID)$",
    re.IGNORECASE,
)
_GEMINI_KEEPS = {"PATH", "HOME", "LANG", "SHELL", "TMPDIR", "USER", "LOGNAME"}

# How a host's file borrows from the environment; Codex takes every text as it is.
_OF_EDITORS = re.compile(r"\$\{env:(\w+)\}")
_BORROWED = {
    "claude": re.compile(r"\$\{(\w+)(?::-([^}]*))?\}"),
    "gemini": re.compile(r"\$\{?(\w+)\}?"),
    "opencode": re.compile(r"\{env:(\w+)\}"),
    **dict.fromkeys(("vscode", "cursor", "windsurf"), _OF_EDITORS),
}
_UNSOLVED = re.compile(r"\$\{|\{env:")


def give(survey: Survey, item: Item) -> dict[str, str]:
    """Return the environment in which a host starts an entry's command."""
    inherited = {**read_host(survey, item.host), **read_projects(survey, item)}
    given = {name: text for name, text in inherited.items() if passes(item, name, inherited)}
    given |= _read_env_file(survey, item)
    own = {name: expand(survey, item, text) for name, text in item.variables.items()}
    if item.host.name == "vscode" and "PATH" in own and given.get("PATH"):
        own["PATH"] = f"{given['PATH']}:{own['PATH']}"  # the only host that adds to it
    return given | own


def read_projects(survey: Survey, item: Item) -> dict[str, str]:
    """Return what a project adds for its servers, besides what their entries say."""
    if item.host.name != "claude":
        return {}
    return claude_environment.read_projects(
        survey, item.scope.partition("local: ")[2] or survey.site.project
    )


def list_added(item: Item, cwd: str) -> dict[str, str]:
    """Return what a host itself sets for every server that it starts in a directory."""
    added = dict(_ADDED.get(item.host.name, {}))
    if item.host.name == "claude":
        added["CLAUDE_PROJECT_DIR"] = cwd
    return added


def passes(item: Item, name: str, inherited: Mapping[str, str]) -> bool:
    """Tell whether a host hands a variable of its own on to a server."""
    host = item.host.name
    if host == "codex":
        return name in _CODEX_PASSES or name in list_named(item)
    if host in {"claude-desktop", "cline"} or (host == "claude" and _is_sparing(inherited)):
        return name in _LIBRARY_PASSES
    if host == "claude":
        is_secret = environment.is_secret(name)
        is_scrubbed = is_secret and bool(inherited.get("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB"))
        return not _CLAUDE_STRIPS.match(name) and not is_scrubbed
    if host == "gemini":
        return _passes_gemini(item, name, inherited.get(name, ""))
    return True


def _is_sparing(inherited: Mapping[str, str]) -> bool:
    """Tell whether Claude Code was told to hand next to nothing on, or was started by its app."""
    return (
        inherited.get("CLAUDE_CODE_MCP_ALLOWLIST_ENV") == "1"
        or inherited.get("CLAUDE_CODE_ENTRYPOINT") == "local-agent"
    )


def _passes_gemini(item: Item, name: str, text: str) -> bool:
    allowed = item.document.get(("security", "environmentVariableRedaction", "allowed"))
    if name in _GEMINI_KEEPS or name.startswith("GEMINI_CLI_"):
        return True
    if isinstance(allowed, list) and name in allowed:
        return True
    return not _GEMINI_STRIPS.search(name) and not masking.looks_secret(text)


def list_named(item: Item) -> list[str]:
    """Return the variables that an entry of Codex names in `env_vars`."""
    named = item.entry.get("env_vars")
    found = []
    for one in named if isinstance(named, list) else []:
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict) and one.get("source", "local") == "local":
            found.append(str(one.get("name")))
    return found


def read_host(survey: Survey, host: HostConfig) -> Mapping[str, str]:
    """Return a host's own environment: of its process if it runs, else what it usually gets."""
    running = _read_running(survey, host)
    if host.name in _ASK_THE_SHELL:
        return {**running, **survey.environ}
    if host.name == "claude":
        return {**(running or survey.environ), **claude_environment.read_own(survey)}
    if host.name != "claude-desktop" or survey.site.platform != "darwin":
        return running or survey.environ
    nodes = _list_nodes(survey.site)
    return {**(running or survey.environ), "PATH": ":".join([*nodes, _DESKTOP_PATH])}


def _read_running(survey: Survey, host: HostConfig) -> dict[str, str]:
    for pid in find_processes(survey, host):
        environ = survey.table.read_environ(pid)
        # One that was given another home reads other files: these are not its servers.
        if environ and environ.get("HOME", survey.site.home) == survey.site.home:
            return environ
    return {}


def find_processes(survey: Survey, host: HostConfig) -> list[int]:
    """Return the processes of a host that run now, those that start servers first."""
    wanted = "vscode" if host.name == "cline" else host.name  # it lives in the other's
    found = [pid for pid, name in survey.running_hosts.items() if name == wanted]
    # A terminal of Codex leaves its servers to a daemon, which may have been started elsewhere.
    return sorted(found, key=lambda pid: "app-server" not in survey.table.read_argv(pid))


def _list_nodes(site: Site) -> list[str]:
    """Return the directories of nvm's Nodes; Claude Desktop takes them all, the oldest first."""
    versions = os.path.join(site.home, ".nvm/versions/node")
    try:
        names = os.listdir(versions)
    except OSError:
        return []  # nvm is not installed
    names.sort(key=lambda name: [int(part) for part in re.findall(r"\d+", name)])
    return [f"{versions}/{name}/bin" for name in names]


def expand(survey: Survey, item: Item, text: str) -> str:
    """Return a text of an entry as its host understands it; what is not set stays as it is."""
    pattern = _BORROWED.get(item.host.name)
    if pattern is None:
        return text
    environ = read_host(survey, item.host)

    def replace(found: re.Match[str]) -> str:
        name, default, *_ = (*found.groups(), None)
        return environ.get(name) or default or found.group()

    text = pattern.sub(replace, text)
    text = text.replace("${workspaceFolder}", survey.site.project)
    return text.replace("${userHome}", survey.site.home)


def is_solved(item: Item, text: str) -> bool:
    """Tell whether nothing is left in a text that its host would replace by something else."""
    return item.host.name == "codex" or not _UNSOLVED.search(text)


def _read_env_file(survey: Survey, item: Item) -> dict[str, str]:
    """Return what an entry of an editor takes from a file of variables."""
    path = item.entry.get("envFile")
    return read_variables(expand(survey, item, path)) if isinstance(path, str) else {}


def read_variables(path: str) -> dict[str, str]:
    """Return what a file of variables says; nothing if it cannot be read."""
    from dotenv import dotenv_values

    try:
        found = dotenv_values(path, encoding="utf-8")
    except (OSError, ValueError):
        return {}  # what is made of it is another question
    return {name: text for name, text in found.items() if text is not None}
