"""Find what a command line runs: the program itself, or a script, module or package it names."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from mcp_launch.values import SHELLS

# npx sets its process title to this plus its arguments, without `-y`.
NPX_TITLE = "npm exec "

CONTAINERS = {"docker", "podman"}
PACKAGE_RUNNERS = {"npx", "bunx", "uvx", "pipx"}

_PYTHON = r"(?:python|pypy)[\d.]*"
_SCRIPTED = r"(?:node|nodejs|bun|deno|ruby|php|tsx)[\d.]*"
_NODE_PACKAGES = "npx|npm|pnpm|yarn|bunx"
_PYTHON_PACKAGES = "uv|uvx|pipx"
RUNNERS = re.compile(f"{_PYTHON}|{_SCRIPTED}|{_NODE_PACKAGES}|{_PYTHON_PACKAGES}")


class _Options(NamedTuple):
    """The options of a runner whose next word is not the program to run."""

    code: set[str]  # followed by source code, which names nothing
    valued: set[str]  # followed by a value
    named: set[str]  # followed by a package
    module: frozenset[str] = frozenset()  # followed by a module


_OPTIONS = {
    _PYTHON: _Options(
        {"-c", "-"}, {"-W", "-X", "--check-hash-based-pycs"}, set(), module=frozenset({"-m"})
    ),
    _SCRIPTED: _Options(
        {"-e", "--eval", "-p", "--print", "-pe", "-"},
        {
            *("-r", "--require", "--import", "--loader", "--experimental-loader", "-C"),
            *("--conditions", "--env-file", "--title", "--input-type", "-I", "--tsconfig"),
            *("--config", "-c", "--import-map", "--cwd", "--cert", "--inspect-port"),
        },
        set(),
    ),
    _NODE_PACKAGES: _Options(
        {"-c", "--call"},
        {
            *("--registry", "-w", "--workspace", "--prefix", "-C", "--dir", "--cwd"),
            *("--node-options", "--cache", "--loglevel", "--filter"),
        },
        {"-p", "--package"},
    ),
    _PYTHON_PACKAGES: _Options(
        set(),
        {
            *("--with", "--with-editable", "--with-requirements", "-w", "-p", "--python"),
            *("--extra", "--group", "--package", "--directory", "--project", "--env-file"),
            *("--index", "--index-url", "--default-index", "--cache-dir", "--config-file"),
            "--pip-args",
        },
        {"--from", "--spec"},
        module=frozenset({"-m", "--module"}),
    ),
}
_SUBCOMMANDS = {"run", "exec", "x", "dlx", "tool"}

# Subcommands that make a program a server: `clumsies mcp serve`.
_SERVES = {"serve", "server", "start", "stdio", "run"}

_PACKAGES = ("/node_modules/.bin/", "/node_modules/", "/site-packages/")


def list_programs(argv: list[str]) -> list[str]:
    """Return the words of a command line that name what it runs; arguments are left out."""
    words = argv[0].split() if argv[0].startswith(NPX_TITLE) else argv
    first, rest = os.path.basename(words[0]), words[1:]
    if first in CONTAINERS:
        # The image may come after any number of options with values.
        return [word for word in rest if _is_plain(word) and word not in _SUBCOMMANDS] or words[:1]
    for pattern, options in _OPTIONS.items():
        if re.fullmatch(pattern, first):
            return [words[0], *_find_run(rest, options, is_python=pattern == _PYTHON)]
    is_script = first in SHELLS and bool(rest) and _is_plain(rest[0])
    is_serving = rest[:1] == ["mcp-server"] or (rest[:1] == ["mcp"] and rest[1:2] != [])
    if is_script or (is_serving and (rest[0] != "mcp" or rest[1] in _SERVES)):
        return words[:2]
    return words[:1]


def _find_run(rest: list[str], options: _Options, *, is_python: bool) -> list[str]:
    """Return what a runner runs, and the packages it comes from."""
    found: list[str] = []
    words = list(rest)
    while words:
        word = words.pop(0)
        # Python's short options may be combined: `-Im module`.
        short = f"-{word[-1]}" if is_python and re.fullmatch("-[a-zA-Z]+", word) else word
        if short in options.code:
            break
        if short in options.module:
            found += words[:1]
            break
        name, is_joined, value = word.partition("=")
        if name in options.named:
            found += [value] if is_joined else words[:1]
        if name in options.named | options.valued or short in options.valued:
            words = words if is_joined else words[1:]
        elif not word.startswith("-") and word not in _SUBCOMMANDS:
            # It may run another runner: `uv run python -m x`.
            found += list_programs([word, *words]) if _is_plain(word) else []
            break
    return found


def _is_plain(word: str) -> bool:
    """Return whether a word may name a program: not an option, URL, assignment or sentence."""
    return bool(word) and not word.startswith("-") and not re.search(r"://|=|\s", word)


def name_word(word: str) -> str:
    """Return the package, image or file that a word names, without its directories."""
    word = re.sub("^(npm|jsr):/?", "", word)
    if word.startswith("/"):
        for mark in _PACKAGES:
            if mark in word:
                parts = word.rpartition(mark)[2].split("/")
                return "/".join(parts[: 2 if parts[0].startswith("@") else 1])
    if re.fullmatch(r"@[^/]+/[^/]+|[\w.-]+\.[a-z]+(:\d+)?/[\w./:@-]+", word):
        return word  # a package with its scope, or an image with its registry
    return os.path.basename(word)
