"""Find the `mcp-launch …` commands in a Markdown text, and check that they exist.

A command is a code span or a line of a code block that begins with `mcp-launch`, perhaps after a
prompt or in a sequence of commands (`cd app && mcp-launch wrap`). In a block it may also follow a
colon, as the fix in an output of ours. What exists is what `--help` shows: commands, their options
and, after `--`, those of `run`. A word after `explain` and every code has to have an explanation.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import TYPE_CHECKING

from command_line import run_command

from mcp_launch.launch.options import USAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

_FENCED = re.compile(r"^( *)```[^\n]*\n(.*?)^ *``` *$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^|(?<=\n\n))(?: {4,}[^\n]*\n)+", re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")

# Where a command begins in code, and where it ends: at the next one, or at a comment.
_BEGINNING = re.compile(r"(?:^\s*(?:\$ +)?|&& *|(: ))mcp-launch(?= |$)")
_END = re.compile(r"&&|[|;](?= |$)|\s#\s|  |$")

_NAME = re.compile(r"[a-z][a-z-]*")
_OPTION = re.compile(r"--?[a-zA-Z][a-zA-Z-]*")
_CODE = re.compile(r"\bML\d{3}\b")

# The beginning of a row of options in a help text: "-n, --lines NUMBER", with a value or without.
_ROW = re.compile(r"^[\s│]*(-[^\s,]+(?:, -[^\s,]+)*)( [A-Z]+)?(?= |$)", re.MULTILINE)


def list_faults(text: str) -> list[str]:
    """Return what is wrong with the commands in a text, each with the command."""
    found = [
        f"mcp-launch {' '.join(words)}: {fault}"
        for words in find_commands(text)
        for fault in _check(words)
    ]
    codes = sorted(set(_CODE.findall(text)))
    return found + [f"there is no code {code}" for code in codes if not _is_explained(code)]


def find_commands(text: str) -> list[list[str]]:
    """Return the commands in a Markdown text, each as its words after `mcp-launch`."""
    blocks = [match[2] for match in _FENCED.finditer(text)]
    prose = _FENCED.sub("\n", text)
    blocks += [match[0] for match in _INDENTED.finditer(prose)]
    lines = [line for block in blocks for line in re.sub(r"\\\n\s*", " ", block).splitlines()]
    lines += [span.replace("\n", " ") for span in _SPAN.findall(_INDENTED.sub("\n", prose))]
    return [words for line in lines for words in _find_in_line(line)]


def _find_in_line(line: str) -> Iterator[list[str]]:
    for match in _BEGINNING.finditer(line):
        rest = line[match.end() :].lstrip()
        end = _END.search(rest)
        words = _split(rest[: end.start()] if end else rest)
        is_sentence = match[1] and words and words[0] not in _list_commands()
        if words and not is_sentence:
            yield words


def _split(text: str) -> list[str]:
    """Return the words of a command; brackets and bars only show what can be left out."""
    try:
        words = shlex.split(text)
    except ValueError:  # a quotation mark that is not closed: part of a sentence
        words = text.split()
    stripped = (word.strip("[](),.…") for word in words)
    return [word for word in stripped if word and word != "|"]


def _check(words: list[str]) -> Iterator[str]:
    at = words.index("--") if "--" in words else len(words)
    command, own = words[0], words[1:at]
    if command.startswith("-"):
        yield from _check_options(words, _read_options(_read_help()))
    elif command == "run":
        yield from _check_options(list(_list_own(words[1:])), _read_options(USAGE))
    elif _NAME.fullmatch(command) and command not in _list_commands():
        yield "there is no such command"
    elif _NAME.fullmatch(command):
        yield from _check_options(own, _read_options(_read_help(command)))
        yield from _check_options(list(_list_own(words[at + 1 :])), _read_options(USAGE))
    if command in {"explain", "help"}:
        names = [word for word in own if _NAME.fullmatch(word) or word.isalnum()]
        yield from (f"{word} is not explained" for word in names if not _is_explained(word))


def _list_own(words: list[str]) -> Iterator[str]:
    """Yield the words before a server's command: options of `run`, and their values."""
    takes_value = _read_options(USAGE)
    is_value = False
    for word in words:
        if not is_value and (not word.startswith("-") or word == "--"):
            return
        is_value = not is_value and takes_value.get(word, False)
        yield word


def _check_options(words: list[str], takes_value: dict[str, bool]) -> Iterator[str]:
    rest = list(words)
    while rest:
        name, equals, _ = rest.pop(0).partition("=")
        if _OPTION.fullmatch(name) and name not in takes_value:
            yield f"there is no option {name}"
        elif takes_value.get(name) and not equals:
            rest = rest[1:]  # its value, which may look like an option


@cache
def _read_help(*command: str) -> str:
    return run_command(*command, "--help", COLUMNS="200").stdout


@cache
def _list_commands() -> set[str]:
    """Return the commands: those that the help text lists, and what has one of its own."""
    listed = re.findall(r"^[\s│]+([a-z]+)  +[A-Z]", _read_help(), re.MULTILINE)
    return {"run", "help", *listed}


def _read_options(text: str) -> dict[str, bool]:
    """Return the options that a help text lists, and whether each takes a value."""
    found = {"-h": False, "--help": False}
    for names, value in _ROW.findall(text):
        found |= dict.fromkeys(names.split(", "), bool(value))
    return found


@cache
def _is_explained(name: str) -> bool:
    return run_command("explain", name).returncode == 0
