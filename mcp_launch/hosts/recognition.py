"""Which host a process is, if the kernel's name for it does not say.

A script is believed by the package that it belongs to, and by its own name only if it belongs
to none: many programs are called like a host, or lie in a directory that is.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process

# Hosts written for these run as `node /…/gemini`: the script is the program.
_INTERPRETERS = {"node", "nodejs", "bun", "deno", "MainThread"}

# Hosts written in Python, of the same names as their scripts.
_IN_PYTHON = {"openhands", "vibe", "vibe-acp"}

# npm packages whose scripts are hosts.
_PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@continuedev/cli": "continue",
    "@factory/cli": "droid",
    "@github/copilot": "copilot",
    "@google/gemini-cli": "gemini",
    "@kilocode/cli": "kilo",
    "@moonshot-ai/kimi-code": "kimi",
    "@qwen-code/qwen-code": "qwen",
    "@sourcegraph/amp": "amp",
    "cline": "cline",
    "droid": "droid",
    "opencode-ai": "opencode",
}

# VS Code as a server (Remote-SSH, WSL, containers, code-server) runs all its helpers with one
# script. Its forks run the same one, and are recognised by the directories they install it in.
_VSCODE_SCRIPT = "/out/bootstrap-fork"
_VSCODE_MCP_HOST = "--type=extensionHost"  # not its terminals (`ptyHost`), nor its watchers
_VSCODE_FORKS = {
    "/.cursor-server/": "cursor",
    "/.windsurf-server/": "windsurf",
}


def look_closer(table: ProcessTable, process: Process, programs: Mapping[str, str]) -> str | None:
    """Return the name of the host that a process is, by its program and script; None if none."""
    # Release archives of Codex contain `codex-<architecture>-<system>`.
    if process.name.startswith(("codex-x86_64", "codex-aarch64")):
        return "codex"
    pid = process.identity.pid
    executable = table.read_executable(pid)
    program = os.path.basename(executable)
    if program in programs:
        return programs[program]
    # A natively installed claude is a file named after its version.
    if "/claude/versions/" in executable:
        return "claude"
    if program in _INTERPRETERS or process.name in _INTERPRETERS:
        return _recognise_script(table.read_argv(pid), programs)
    if program.startswith("python"):
        name = os.path.basename(_find_script(table.read_argv(pid)))
        return programs.get(name) if name in _IN_PYTHON else None
    return None


def _recognise_script(argv: list[str], programs: Mapping[str, str]) -> str | None:
    script = _find_script(argv)
    if script.removesuffix(".js").endswith(_VSCODE_SCRIPT):
        return _recognise_vscode(script) if _VSCODE_MCP_HOST in argv else None
    # npm's `.bin` has links to the scripts.
    file = os.path.realpath(script) if os.path.isabs(script) else script
    _, in_packages, path = file.rpartition("/node_modules/")
    if in_packages and not path.startswith(".bin/"):
        parts = path.split("/")
        return _PACKAGES.get("/".join(parts[: 2 if path.startswith("@") else 1]))
    return programs.get(os.path.basename(script))


def _find_script(argv: list[str]) -> str:
    return next((word for word in argv[1:] if not word.startswith("-")), "")


def _recognise_vscode(script: str) -> str:
    forks = (name for part, name in _VSCODE_FORKS.items() if part in script)
    return next(forks, "vscode")
