"""Programs for terminals whose servers are a table in JSON or TOML."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.host_config import REMOTE, SCRIPT, File, HostConfig
from mcp_launch.config_files.host_quirks import (
    LIBRARY_PASSES,
    Environment,
    Greeting,
    HostProgram,
    HostQuirks,
    Texts,
)
from mcp_launch.config_files.wrap import Shape
from mcp_launch.hosts.plain.places import Place, in_both, list_at, wait

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

# Cline's file is in the storage that VS Code gives its extensions; its own program has another.
_CLINE = "cline_mcp_settings.json"
_CLINE_STORAGE = ("Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings")

_CRUSH_SERVERS = (("mcp",),)
_CODEX_SERVERS = (("mcp_servers",),)
_AMP_SERVERS = (("amp.mcpServers",),)

# The variables that Gemini CLI removes by name, and those that it always keeps.
_GEMINI_STRIPS = re.compile(
    "TOKEN|SECRET|PASSWORD|PASSWD|KEY|AUTH|CREDENTIAL|CREDS|PRIVATE|CERT"
    "|^(CLIENT_ID|DB_URI|CONNECTION_STRING|AWS_DEFAULT_REGION|AZURE_CLIENT_ID|AZURE_TENANT_ID"
    "|SLACK_WEBHOOK_URL|TWILIO_ACCOUNT_SID|DATABASE_URL|GOOGLE_CLOUD_PROJECT"
    "|GOOGLE_CLOUD_ACCOUNT|FIREBASE_PROJECT_ID)$",
    re.IGNORECASE,
)
_GEMINI_KEEPS = re.compile("(PATH|HOME|LANG|SHELL|TMPDIR|USER|LOGNAME)$|GEMINI_CLI_")
_GEMINI_TEXTS = Texts(borrowing=re.compile(r"\$\{?(\w+)\}?"), borrow="${}")


def _list_cline_files(site: Site) -> list[File]:
    named = site.environ.get("CLINE_MCP_SETTINGS_PATH")
    data = site.environ.get("CLINE_DATA_DIR") or os.path.join(
        site.find_home("CLINE_DIR", ".cline"), "data"
    )
    own = File(named or os.path.join(data, "settings", _CLINE), "user")
    stored = os.path.join(site.applications, *_CLINE_STORAGE, _CLINE)
    return [File(named or stored, "user", lives_in="vscode"), *([] if named else [own])]


def _explain_cline_skip(entry: dict[str, Any]) -> str:
    transport = entry.get("transport")
    return REMOTE if isinstance(transport, dict) and "url" in transport else ""


def _list_crush_files(site: Site) -> list[File]:
    """Return its files; in each place it may also have a script that adds servers."""
    usual = os.path.join(site.find_home("XDG_CONFIG_HOME", ".config"), "crush")
    own = site.environ.get("CRUSH_GLOBAL_CONFIG") or usual
    found = []
    for directory, scope, before in ((own, "user", ("",)), (site.project, "project", ("", "."))):
        for name in (os.path.join(directory, dot) for dot in before):
            found.append(File(f"{name}crush.json", scope, servers=_CRUSH_SERVERS))
            found.append(File(f"{name}crushrc", scope, "shell", _CRUSH_SERVERS, SCRIPT))
    return found


TERMINALS = (
    HostConfig(
        "gemini",
        "Gemini CLI",
        list_at(
            Place("", ("settings.json",), variable="GEMINI_CLI_HOME", below=".gemini"),
            Place(".gemini", ("settings.json",), "project"),
        ),
        quirks=HostQuirks(
            program=HostProgram("gemini", tells_version=True, package="@google/gemini-cli"),
            home_variable="GEMINI_CLI_HOME",
            environment=Environment(
                strips=_GEMINI_STRIPS,
                strips_secret_values=True,
                keeps=_GEMINI_KEEPS,
                kept_in=("security", "environmentVariableRedaction", "allowed"),
                added=(("GEMINI_CLI", "1"),),
            ),
            texts=_GEMINI_TEXTS,
            cwd="honoured",
        ),
    ),
    HostConfig(
        "qwen",
        "Qwen Code",
        list_at(*in_both(".qwen", "settings.json", variable="QWEN_HOME")),
        quirks=HostQuirks(
            program=HostProgram("qwen", tells_version=True, package="@qwen-code/qwen-code"),
            home_variable="QWEN_HOME",
            environment=Environment(hands_all_on=True),
            texts=_GEMINI_TEXTS,
            limits=wait("Qwen Code", 30),
            cwd="honoured",
        ),
    ),
    HostConfig(
        "cline",
        "Cline",
        _list_cline_files,
        (Shape(), Shape(("transport", "command"), ("transport", "args"))),
        _explain_cline_skip,
        starts_anywhere=True,
        quirks=HostQuirks(
            program=HostProgram("cline", tells_version=True, package="cline"),
            home_variable="CLINE_DIR",
            lives_in="vscode",
            environment=Environment(list_passed=lambda _: LIBRARY_PASSES, asks_the_shell=True),
            own_environment=Environment(hands_all_on=True),
            greeting=Greeting(capabilities=()),
            cwd="honoured",
        ),
    ),
    HostConfig(
        "copilot",
        "Copilot CLI",
        list_at(
            Place(".copilot", ("mcp-config.json",), variable="COPILOT_HOME"),
            Place(".github", ("mcp.json",), "repository"),
        ),
        quirks=HostQuirks(
            program=HostProgram("copilot", tells_version=True, package="@github/copilot"),
            home_variable="COPILOT_HOME",
            limits=wait("Copilot CLI", 65),
            greeting=Greeting(capabilities=("sampling", "elicitation")),  # seen with 1.0.102
            ignores_unknown_tables=False,
        ),
    ),
    HostConfig(
        "kimi",
        "Kimi Code",
        # The .mcp.json of a project, which it reads too, is listed as Claude Code's.
        list_at(
            *in_both(".kimi-code", "mcp.json", variable="KIMI_CODE_HOME"),
            Place(".kimi", ("mcp.json",)),  # of its predecessor
        ),
        quirks=HostQuirks(
            program=HostProgram("kimi", tells_version=True, package="@moonshot-ai/kimi-code"),
            home_variable="KIMI_CODE_HOME",
            environment=Environment(hands_all_on=True),
            limits=wait("Kimi Code", 30, "startupTimeoutMs", 1000),
            cwd="honoured",
        ),
    ),
    HostConfig(
        "droid",
        "Factory Droid",
        list_at(*in_both(".factory", "mcp.json")),
        quirks=HostQuirks(program=HostProgram("droid", tells_version=True, package="@factory/cli")),
    ),
    HostConfig(
        "amp",
        "Amp",
        # A project's servers are started only after `amp mcp approve`.
        list_at(
            Place(
                *(".config", ("settings.json",)),
                variable="XDG_CONFIG_HOME",
                below="amp",
                servers=_AMP_SERVERS,
            ),
            Place(".amp", ("settings.json",), "project", servers=_AMP_SERVERS),
        ),
        quirks=HostQuirks(
            program=HostProgram("amp", tells_version=True, package="@sourcegraph/amp"),
            home_variable="XDG_CONFIG_HOME",
        ),
    ),
    HostConfig(
        "crush",
        "Crush",
        _list_crush_files,
        quirks=HostQuirks(
            program=HostProgram("crush", tells_version=True, package="@charmland/crush"),
            home_variable="CRUSH_GLOBAL_CONFIG",
        ),
    ),
    HostConfig(
        "openhands",
        "OpenHands",
        list_at(Place(".openhands", ("mcp.json",), variable="OPENHANDS_PERSISTENCE_DIR")),
        quirks=HostQuirks(
            program=HostProgram("openhands", tells_version=True),
            home_variable="OPENHANDS_PERSISTENCE_DIR",
            environment=Environment(list_passed=lambda _: LIBRARY_PASSES),
            limits=wait("OpenHands", 30),
        ),
    ),
    HostConfig(
        "grok",
        "Grok Build",
        list_at(
            *in_both(
                ".grok", "config.toml", variable="GROK_HOME", kind="toml", servers=_CODEX_SERVERS
            )
        ),
        quirks=HostQuirks(
            program=HostProgram("grok", tells_version=True),
            home_variable="GROK_HOME",
        ),
    ),
)
