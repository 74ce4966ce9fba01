"""The hosts we know: which program is which, and one package for each.

Only the package of the detected host is imported.
"""

from __future__ import annotations

import os

from mcp_launch.hosts.host import HostIdentity
from mcp_launch.values import SHELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.hosts.host import Sighting
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process

# Program names, as in the kernel's process table, the command line or the executable's path.
# The kernel cuts them at 15 characters.
_PROGRAMS = {
    "codex": "codex",
    "claude": "claude",
    "goose": "goose",
    "goosed": "goose",
    "gemini": "gemini",
    "cursor": "cursor",
    "Cursor": "cursor",
    "cursor-agent": "cursor",
    "Cursor Helper (Plugin)": "cursor",
    "code": "vscode",
    "code-insiders": "vscode",
    "codium": "vscode",
    "Code Helper (Plugin)": "vscode",
    "opencode": "opencode",
    "zed": "zed",
    "zed-editor": "zed",
    "windsurf": "windsurf",
    "Windsurf Helper (Plugin)": "windsurf",
    "copilot": "copilot",
    "qwen": "qwen",
    "kilo": "kilo",
    ".kilo": "kilo",
    "Claude": "claude-desktop",
    "claude-desktop": "claude-desktop",
}

# Hosts written for these run as `node /…/gemini`: the script is the program.
_INTERPRETERS = {"node", "nodejs", "bun", "deno", "MainThread"}

# Scripts that are not named after their host.
_PACKAGES = {
    "/@anthropic-ai/claude-code/": "claude",
    "/@google/gemini-cli/": "gemini",
    "/opencode-ai/": "opencode",
    "/@github/copilot/": "copilot",
    "/@qwen-code/qwen-code/": "qwen",
    "/@kilocode/cli/": "kilo",
}

# VS Code as a server (Remote-SSH, WSL, containers, code-server) runs all its helpers with one
# script. Its forks run the same one, and are recognised by the directories they install it in.
_VSCODE_SCRIPT = "/out/bootstrap-fork"
_VSCODE_MCP_HOST = "--type=extensionHost"  # not its terminals (`ptyHost`), nor its watchers
_VSCODE_FORKS = {
    "/.cursor-server/": "cursor",
    "/.windsurf-server/": "windsurf",
}

# The variables in which a host gives its servers their session. Everything that is started
# from a host's shell inherits them, so under any other host they are leaked.
IDENTITY_VARIABLES = {
    "codex": ("CODEX_THREAD_ID", "CODEX_SESSION_ID"),
    "claude": ("CLAUDE_CODE_SESSION_ID", "CLAUDE_PROJECT_DIR"),
    "goose": ("AGENT_SESSION_ID",),
    "copilot": ("COPILOT_AGENT_SESSION_ID",),
    "qwen": ("QWEN_CODE_SESSION_ID", "QWEN_CODE_PROJECT_DIR"),
    "kilo": ("KILO_RUN_ID",),
}

# Hosts that may not be recognised: the parent may be one of them if it is unknown, and then
# these variables are its own.
_MAY_BE_UNKNOWN = ("copilot", "qwen", "kilo")


class _Unknown(HostIdentity):
    """An unknown host, or a shell."""

    is_known = False

    def read_environ(self, sighting: Sighting) -> Mapping[str, str]:
        """Return the environment of the process; empty for a shell, whose exports it lacks."""
        is_shell = sighting.process is not None and sighting.process.name in SHELLS
        return {} if is_shell else super().read_environ(sighting)


# Hosts about which we know only how many sessions one server serves.
_PLAIN = {
    "cursor": HostIdentity("cursor", "Cursor", "many sessions"),
    "gemini": HostIdentity("gemini", "Gemini CLI", "one session at a time"),
    "opencode": HostIdentity("opencode", "opencode", "many sessions"),
    "zed": HostIdentity("zed", "Zed", "many sessions", adds_variables=True),
    "windsurf": HostIdentity("windsurf", "Windsurf", "many sessions"),
    "copilot": HostIdentity(
        "copilot",
        "Copilot CLI",
        "one session at a time",
        session_variable="COPILOT_AGENT_SESSION_ID",
    ),
    "qwen": HostIdentity("qwen", "Qwen Code", "many sessions", adds_variables=True),
    "kilo": HostIdentity("kilo", "Kilo", "many sessions"),
    "claude-desktop": HostIdentity("claude-desktop", "Claude Desktop", "many sessions"),
}
UNKNOWN = _Unknown("unknown", "this host", "many sessions")


def list_foreign_variables(host: str) -> list[str]:
    """Return the identity variables that a server of this host can only have from another host."""
    foreign: list[str] = []
    are_for_servers = not load(host).keeps_variables_from_servers
    for owner, names in IDENTITY_VARIABLES.items():
        is_own = owner == host and are_for_servers
        is_possible = host == UNKNOWN.name and owner in _MAY_BE_UNKNOWN
        foreign += [] if is_own or is_possible else names
    return foreign


def recognise(table: ProcessTable, process: Process) -> HostIdentity | None:
    """Return the host that a process is; None if it is not a known host."""
    name = _PROGRAMS.get(process.name) or _recognise_closer(table, process)
    return load(name) if name else None


def load(name: str) -> HostIdentity:
    """Return one host by name; `UNKNOWN` for an unknown name."""
    if name == "codex":
        from mcp_launch.hosts.codex import HOST as CODEX

        return CODEX
    if name == "claude":
        from mcp_launch.hosts.claude import HOST as CLAUDE

        return CLAUDE
    if name == "goose":
        from mcp_launch.hosts.goose import HOST as GOOSE

        return GOOSE
    if name == "vscode":
        from mcp_launch.hosts.vscode import HOST as VSCODE

        return VSCODE
    return _PLAIN.get(name, UNKNOWN)


def _recognise_closer(table: ProcessTable, process: Process) -> str | None:
    # Release archives of Codex contain `codex-<architecture>-<system>`.
    if process.name.startswith(("codex-x86_64", "codex-aarch64")):
        return "codex"
    pid = process.identity.pid
    executable = table.read_executable(pid)
    program = os.path.basename(executable)
    if program in _PROGRAMS:
        return _PROGRAMS[program]
    # A natively installed claude is a file named after its version.
    if "/claude/versions/" in executable:
        return "claude"
    if program in _INTERPRETERS or process.name in _INTERPRETERS:
        return _recognise_script(table.read_argv(pid))
    return None


def _recognise_script(argv: list[str]) -> str | None:
    script = next((word for word in argv[1:] if not word.startswith("-")), "")
    if script.removesuffix(".js").endswith(_VSCODE_SCRIPT):
        return _recognise_vscode(script) if _VSCODE_MCP_HOST in argv else None
    for part, name in _PACKAGES.items():
        if part in script:
            return name
    return _PROGRAMS.get(os.path.basename(script).removesuffix(".js"))


def _recognise_vscode(script: str) -> str:
    forks = (name for part, name in _VSCODE_FORKS.items() if part in script)
    return next(forks, "vscode")
