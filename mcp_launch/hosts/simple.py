"""Configuration of the hosts that need little more than the paths of their files.

To add another such host to `wrap` and `doctor`, add an entry to `SIMPLE`: its files, and in
`HostQuirks` whatever else is known about it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import File, HostConfig, in_home, in_project
from mcp_launch.config_files.host_quirks import (
    BORROWING_OF_EDITORS,
    LIBRARY_PASSES,
    Environment,
    Greeting,
    HostProgram,
    HostQuirks,
    Limits,
    NameLength,
    Texts,
    ToolCount,
)
from mcp_launch.config_files.wrap import Shape

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

# Cline's file is in the storage that VS Code gives its extensions.
_CLINE = ("Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings")

# opencode's second version moved the servers one level down, among settings of `mcp` itself.
_OPENCODE_SERVERS = (("mcp", "servers"), ("mcp",))

_ZED_SERVERS = (("context_servers",),)

# Where Claude Desktop looks for programs on macOS, besides nvm's Nodes.
_DESKTOP_PATH = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"

# The variables that Gemini CLI removes by name, and those that it always keeps.
_GEMINI_STRIPS = re.compile(
    "TOKEN|SECRET|PASSWORD|PASSWD|KEY|AUTH|CREDENTIAL|CREDS|PRIVATE|CERT"
    "|^(CLIENT_ID|DB_URI|CONNECTION_STRING|AWS_DEFAULT_REGION|AZURE_CLIENT_ID|AZURE_TENANT_ID"
    "|SLACK_WEBHOOK_URL|TWILIO_ACCOUNT_SID|DATABASE_URL|GOOGLE_CLOUD_PROJECT"
    "|GOOGLE_CLOUD_ACCOUNT|FIREBASE_PROJECT_ID)$",
    re.IGNORECASE,
)
_GEMINI_KEEPS = re.compile("(PATH|HOME|LANG|SHELL|TMPDIR|USER|LOGNAME)$|GEMINI_CLI_")


def _list_cline_files(site: Site) -> list[File]:
    default = os.path.join(site.applications, *_CLINE, "cline_mcp_settings.json")
    return [File(site.environ.get("CLINE_MCP_SETTINGS_PATH") or default, "user")]


def _list_opencode_files(site: Site) -> list[File]:
    user = os.path.join(site.find_home("XDG_CONFIG_HOME", ".config"), "opencode")
    return [
        File(os.path.join(directory, name), scope, servers=_OPENCODE_SERVERS)
        for directory, scope in ((user, "user"), (in_project(site), "project"))
        for name in ("opencode.json", "opencode.jsonc")
    ]


def _list_zed_files(site: Site) -> list[File]:
    user = os.path.join(site.find_home("XDG_CONFIG_HOME", ".config"), "zed", "settings.json")
    project = in_project(site, ".zed", "settings.json")
    return [
        File(user, "user", servers=_ZED_SERVERS),
        File(project, "project", servers=_ZED_SERVERS),
    ]


def _find_desktop_path(site: Site) -> str:
    """Return the PATH of Claude Desktop on macOS: first every Node from nvm, oldest first.

    Elsewhere it has the desktop's PATH, which we assume to be the shell's.
    """
    if site.platform != "darwin":
        return ""
    versions = in_home(site, ".nvm/versions/node")
    try:
        names = os.listdir(versions)
    except OSError:
        names = []  # nvm is not installed
    names.sort(key=lambda name: [int(part) for part in re.findall(r"\d+", name)])
    return ":".join([*(f"{versions}/{name}/bin" for name in names), _DESKTOP_PATH])


SIMPLE = (
    HostConfig(
        "claude-desktop",
        "Claude Desktop",
        lambda site: [
            File(os.path.join(site.applications, "Claude", "claude_desktop_config.json"), "user")
        ],
        starts_anywhere=True,
        quirks=HostQuirks(
            program=HostProgram("claude-desktop", bundle="Claude"),
            environment=Environment(
                list_passed=lambda _: LIBRARY_PASSES, find_path=_find_desktop_path
            ),
            cwd="ignored",
        ),
    ),
    HostConfig(
        "cursor",
        "Cursor",
        lambda site: [
            File(in_home(site, ".cursor", "mcp.json"), "user"),
            File(in_project(site, ".cursor", "mcp.json"), "project"),
        ],
        starts_anywhere=True,
        quirks=HostQuirks(
            program=HostProgram("cursor", bundle="Cursor"),
            environment=Environment(asks_the_shell=True),
            texts=Texts(borrowing=BORROWING_OF_EDITORS, borrow="${{env:{}}}"),
            limits=Limits(
                # It was 40 until 2025 (Snowflake-Labs/mcp#77, DaxianLee/cocos-mcp-server#11).
                tools=ToolCount(80, "Cursor warns above 80, and may leave some out"),
                # It says that a length of 60 exceeds 60 (ComposioHQ/composio#2788).
                tool_name=NameLength(59, "{}"),
            ),
        ),
    ),
    HostConfig(
        "gemini",
        "Gemini CLI",
        lambda site: [
            File(in_home(site, ".gemini", "settings.json"), "user"),
            File(in_project(site, ".gemini", "settings.json"), "project"),
        ],
        quirks=HostQuirks(
            program=HostProgram("gemini", tells_version=True, package="@google/gemini-cli"),
            environment=Environment(
                strips=_GEMINI_STRIPS,
                strips_secret_values=True,
                keeps=_GEMINI_KEEPS,
                kept_in=("security", "environmentVariableRedaction", "allowed"),
                added=(("GEMINI_CLI", "1"),),
            ),
            texts=Texts(borrowing=re.compile(r"\$\{?(\w+)\}?"), borrow="${}"),
            cwd="honoured",
        ),
    ),
    HostConfig(
        "opencode",
        "opencode",
        _list_opencode_files,
        (Shape(is_one_list=True),),  # the command and its arguments
        quirks=HostQuirks(
            program=HostProgram("opencode", tells_version=True, package="opencode-ai"),
            environment=Environment(hands_all_on=True),
            texts=Texts(
                borrowing=re.compile(r"\{env:(\w+)\}"),
                borrow="{{env:{}}}",
                fills_in=re.compile(r"\{file:[^}]*\}"),
                table="environment",
            ),
            cwd="honoured",
        ),
    ),
    HostConfig(
        "zed",
        "Zed",
        _list_zed_files,
        # Before 2025 the command was a separate table.
        (Shape(), Shape(("command", "path"), ("command", "args"))),
        quirks=HostQuirks(
            program=HostProgram("zed", bundle="Zed"),
            environment=Environment(hands_all_on=True, asks_the_shell=True),
        ),
    ),
    HostConfig(
        "windsurf",
        "Windsurf",
        lambda site: [File(in_home(site, ".codeium", "windsurf", "mcp_config.json"), "user")],
        starts_anywhere=True,
        quirks=HostQuirks(
            program=HostProgram("windsurf", bundle="Windsurf"),
            environment=Environment(asks_the_shell=True),
            texts=Texts(borrowing=BORROWING_OF_EDITORS, borrow="${{env:{}}}"),
            # docs.windsurf.com/windsurf/cascade/mcp
            limits=Limits(tools=ToolCount(100, "Windsurf accepts at most 100")),
        ),
    ),
    HostConfig(
        "cline",
        "Cline",
        _list_cline_files,
        starts_anywhere=True,
        quirks=HostQuirks(
            lives_in="vscode",
            environment=Environment(list_passed=lambda _: LIBRARY_PASSES, asks_the_shell=True),
            greeting=Greeting(capabilities=()),
            cwd="honoured",
        ),
    ),
    HostConfig(
        "copilot",
        "Copilot CLI",
        lambda site: [
            File(in_home(site, ".copilot", "mcp-config.json"), "user"),
            File(in_project(site, ".github", "mcp.json"), "repository"),
        ],
        quirks=HostQuirks(
            program=HostProgram("copilot", tells_version=True, package="@github/copilot"),
            greeting=Greeting(capabilities=("sampling", "elicitation")),  # seen with 1.0.102
            ignores_unknown_tables=False,
        ),
    ),
)
