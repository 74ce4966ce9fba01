"""What a command line runs: the program itself, or the script, module or package that it names."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from mcp_launch.values import SHELLS

# npx shows this in place of its command line, and does not show `-y`.
NPX_TITLE = "npm exec "

CONTAINERS = {"docker", "podman"}
PACKAGE_RUNNERS = {"npx", "bunx", "uvx", "pipx"}

_PYTHON = r"(?:python|pypy)[\d.]*"
_SCRIPTED = r"(?:node|nodejs|bun|deno|ruby|php|tsx)[\d.]*"
_NODE_PACKAGES = "npx|npm|pnpm|yarn|bunx"
_PYTHON_PACKAGES = "uv|uvx|pipx"
RUNNERS = re.compile(f"{_PYTHON}|{_SCRIPTED}|{_NODE_PACKAGES}|{_PYTHON_PACKAGES}")


class _Options(NamedTuple):
    """The options of a runner that matter: what follows them is not what it runs."""

    code: set[str]  # what follows is the program itself, and nobody's name
    valued: set[str]  # a value follows
    named: set[str]  # a package follows
    module: frozenset[str] = frozenset()  # a module follows


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

# A program that is a server by what it was told to do: `clumsies mcp serve`.
_SERVES = {"serve", "server", "start", "stdio", "run"}

_PACKAGES = ("/node_modules/.bin/", "/node_modules/", "/site-packages/")


def list_programs(argv: list[str]) -> list[str]:
    """Return the words of a command line that name what is run: others may be about anything."""
    words = argv[0].split() if argv[0].startswith(NPX_TITLE) else argv
    first, rest = os.path.basename(words[0]), words[1:]
    if first in CONTAINERS:
        # An image may stand behind any number of options with values.
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
    """Return what a runner runs, and the packages that it takes it from."""
    found: list[str] = []
    words = list(rest)
    while words:
        word = words.pop(0)
        # Python's short options may stand in one word: `-Im module`.
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
            # What it runs may be a runner again: `uv run python -m x`.
            found += list_programs([word, *words]) if _is_plain(word) else []
            break
    return found


def _is_plain(word: str) -> bool:
    """Tell whether a word may name a program: no option, address, assignment, or sentence."""
    return bool(word) and not word.startswith("-") and not re.search(r"://|=|\s", word)


def name_word(word: str) -> str:
    """Return what a word names, without the directories that merely lead to it."""
    word = re.sub("^(npm|jsr):/?", "", word)
    if word.startswith("/"):
        for mark in _PACKAGES:
            if mark in word:
                parts = word.rpartition(mark)[2].split("/")
                return "/".join(parts[: 2 if parts[0].startswith("@") else 1])
    if re.fullmatch(r"@[^/]+/[^/]+|[\w.-]+\.[a-z]+(:\d+)?/[\w./:@-]+", word):
        return word  # a package with its scope, or an image with its registry
    return os.path.basename(word)
