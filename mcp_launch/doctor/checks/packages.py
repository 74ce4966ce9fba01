"""Packages that a command downloads and runs, and misleading names among them.

Only names whose packages were examined; there are more.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from mcp_launch.doctor.finding import Finding
from mcp_launch.hosts.claude import config as claude_config
from mcp_launch.hosts.codex import config as codex_config
from mcp_launch.machine.preview import predict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey

# Commands that download and run a package, with the registry.
_RUNNERS: dict[tuple[str, ...], str] = {
    ("npx",): "npm",
    ("bunx",): "npm",
    ("bun", "x"): "npm",
    ("npm", "exec"): "npm",
    ("npm", "x"): "npm",
    ("pnpm", "dlx"): "npm",
    ("yarn", "dlx"): "npm",
    ("uvx",): "PyPI",
    ("uv", "tool", "run"): "PyPI",
    ("pipx", "run"): "PyPI",
}

# Their options that name the package if its name differs from the program's …
_NAMING = {"-p", "--package", "--from", "--spec"}
# … and others that have a value.
_VALUED = {
    *("--python", "--with", "--with-editable", "--index", "--index-url", "--extra-index-url"),
    *("--directory", "--project", "--env-file", "--pip-args", "--registry", "--cache", "--prefix"),
}

_CODEX = "@openai/codex"
_CLAUDE = "@anthropic-ai/claude-code"

# What a package really is, and which one is probably meant.
_MISTAKEN = {
    ("npm", "codex"): ("a documentation generator", _CODEX),
    ("npm", "claude"): ("not a program by Anthropic", _CLAUDE),
    ("npm", "claude-code"): ("a pointer to another package", _CLAUDE),
    ("npm", "gemini"): ("a screenshot tool", "@google/gemini-cli"),
    ("npm", "mcp-server-filesystem"): (
        "a third party's copy from 2024",
        "@modelcontextprotocol/server-filesystem",
    ),
    ("PyPI", "codex"): ("a comic reader", f"{_CODEX} (with npx)"),
    ("PyPI", "claude"): ("empty", f"{_CLAUDE} (with npx)"),
    ("PyPI", "claude-code"): ("empty", f"{_CLAUDE} (with npx)"),
    ("PyPI", "mcp-server-memory"): ("empty", "@modelcontextprotocol/server-memory (with npx)"),
}

# The first Codex without `mcp-server`, prereleases included; and the last with it.
_REMOVED = Version("0.154.0.dev0")
_LAST = "0.153.4"


class Package(NamedTuple):
    """The package that a command downloads."""

    registry: str
    name: str
    version: str  # as requested; empty: any
    rest: list[str]  # the arguments of its program


def find_package(command: list[str]) -> Package | None:
    """Return the package that a command downloads; None if none, or it is uncertain."""
    command = strip_cmd(command)
    names = [_name_program(command[0]), *command[1:]] if command else []
    for runner, registry in _RUNNERS.items():
        if tuple(names[: len(runner)]) == runner:
            return _read_words(registry, names[len(runner) :])
    return None


def strip_cmd(command: list[str]) -> list[str]:
    """Return a command without the `cmd /c` that Windows needs before a script."""
    is_cmd = bool(command) and _name_program(command[0]).lower() == "cmd"
    return command[2:] if is_cmd and command[1:2] in (["/c"], ["/C"]) else command


def _name_program(word: str) -> str:
    name = re.split(r"[/\\]", word)[-1]
    return re.sub(r"\.(exe|cmd|bat)$", "", name, flags=re.IGNORECASE)


def _read_words(registry: str, words: list[str]) -> Package | None:
    wanted = ""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if not equals and option in _NAMING | _VALUED:
            value = rest.pop(0) if rest else ""
        if option in _NAMING:
            wanted = wanted or value
    if not rest:
        return None
    text = wanted or rest[0]
    if registry == "PyPI":
        found = re.fullmatch(r"([\w.-]+)(?:\[[^]]*\])?(?:(?:==|@)(.+))?", text)
        return Package(registry, found[1], found[2] or "", rest[1:]) if found else None
    at = text.find("@", 1)
    name, version = (text[:at], text[at + 1 :]) if at > 0 else (text, "")
    return Package(registry, name, version, rest[1:])


def check_mistaken(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find packages that are not what their names suggest (ML113)."""
    package = find_package(item.command)
    if package is None or (package.registry, package.name) not in _MISTAKEN:
        return
    if not package.version and _is_installed(survey, item, package.name):
        return
    what, meant = _MISTAKEN[package.registry, package.name]
    yield Finding(
        "ML113",
        item.point("args"),
        f"{package.name} on {package.registry} is {what}",
        f"use {meant} if that is what you want",
    )


def _is_installed(survey: Survey, item: Item, name: str) -> bool:
    """Return whether npx would find a program with this name before it asks the registry."""
    runner = shutil.which("npx", path=predict(survey, item).situation.environ.get("PATH", ""))
    places = [os.path.join(survey.site.project, "node_modules/.bin")]
    places += [os.path.dirname(runner)] if runner else []
    return any(os.path.exists(os.path.join(place, name)) for place in places)


def is_codex_server(command: list[str]) -> bool:
    """Return whether a command starts Codex as a server."""
    codex = codex_config.CONFIG.quirks.program
    package = find_package(command)
    if package:
        return package.name == _CODEX and "mcp-server" in package.rest
    return bool(command) and _name_program(command[0]) == codex.command and "mcp-server" in command


def is_claude_server(command: list[str]) -> bool:
    """Return whether a command starts Claude Code as a server."""
    claude = claude_config.CONFIG.quirks.program
    package = find_package(command)
    if package:
        return package.name == _CLAUDE and package.rest[:2] == ["mcp", "serve"]
    is_claude = bool(command) and _name_program(command[0]) == claude.command
    return is_claude and command[1:3] == ["mcp", "serve"]


def check_cmd(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find commands that begin with `cmd /c` (ML115)."""
    command = strip_cmd(item.command)
    if command == item.command or not command:
        return
    program = command[0]
    if survey.site.platform == "win32":
        message = (
            "cmd /c breaks arguments with quotes in them, and leaves the server running when it "
            "is ended"
        )
        fix = f"name the program itself: {program}.cmd, or node and the path of its script"
    else:
        message = "cmd is a Windows program, and this is not Windows"
        fix = f"begin with {program}"
    yield Finding("ML115", item.point("command"), message, fix)


OF_ITEMS = (check_mistaken, check_cmd)
