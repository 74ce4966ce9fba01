"""Find the `mcp-launch …` commands in a Markdown text, and check that they exist.

A command is a code span or a line of a code block that begins with `mcp-launch`, perhaps after a
prompt or in a sequence of commands (`cd app && mcp-launch wrap`). In a block, one may also end a
sentence of our own output (`fix: wrap it: mcp-launch wrap docs`). Only names are checked: of the
command, of its options, of the options of `run` after `--`, of codes and of help topics.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from typer.main import get_command

import mcp_launch
import mcp_launch.cli  # registers the commands
from mcp_launch.cli.app import app
from mcp_launch.doctor.registry import find_codes
from mcp_launch.launch.options import SWITCHES, TAKE_A_VALUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_FENCED = re.compile(r"^( *)(```+|~~~+)[^\n]*\n(.*?)^ *\2 *$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^|(?<=\n\n))(?:(?: {4,}|\t)[^\n]*\n)+", re.MULTILINE)
_SPAN = re.compile(r"(`+)([^`].*?)(?<!`)\1(?!`)", re.DOTALL)

# Where a command begins in code; after a colon it may be a sentence instead.
_BEGINNING = re.compile(r"(^\s*(?:[$#] +)?|(?:&&|\|\|?|;) *|: )mcp-launch(?= |$)")

# Where it ends: at the next one, or at a comment.
_END = re.compile(r"&&|[|;](?= |$)|\s#\s|$")

_NAME = re.compile(r"[a-z][a-z-]*")
_OPTION = re.compile(r"--?[a-zA-Z][a-zA-Z-]*")

HELP = Path(mcp_launch.__file__).parent / "help"


def list_faults(text: str) -> list[str]:
    """Return what is wrong with the commands in a text, each with the command."""
    return [
        f"mcp-launch {' '.join(words)}: {fault}"
        for words in find_commands(text)
        for fault in _judge(words)
    ]


def find_commands(text: str) -> list[list[str]]:
    """Return the commands in a Markdown text, each as its words after `mcp-launch`."""
    blocks = [match[3] for match in _FENCED.finditer(text)]
    prose = _FENCED.sub("\n", text)
    blocks += [match[0] for match in _INDENTED.finditer(prose)]
    prose = _INDENTED.sub("\n", prose)
    spans = [match[2].replace("\n", " ") for match in _SPAN.finditer(prose)]
    lines = [line for block in blocks for line in _join(block).splitlines()]
    return [
        *(words for line in lines for words in _find_in_line(line)),
        *(words for span in spans for words in _find_in_line(span)),
    ]


def _join(block: str) -> str:
    """Return a block with lines that a backslash continues joined."""
    return re.sub(r"\\\n\s*", " ", block)


def _find_in_line(line: str) -> Iterator[list[str]]:
    for match in _BEGINNING.finditer(line):
        rest = line[match.end() :]
        end = _END.search(rest)
        words = _split(rest[: end.start()] if end else rest)
        is_sentence = match[1] == ": " and words[:1] and words[0] not in _list_commands()
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


def _list_commands() -> set[str]:
    return set(_get(()).commands)


def _judge(words: list[str]) -> Iterator[str]:
    if words[0].startswith("-"):
        yield from _judge_options(words, _get(()).options)
    elif not _NAME.fullmatch(words[0]):
        return  # a placeholder: mcp-launch COMMAND --help
    elif words[0] == "run":
        yield from _judge_run(words[1:])
    elif words[0] not in _list_commands():
        yield "there is no such command"
    else:
        yield from _judge_words(words)


def _judge_words(words: list[str]) -> Iterator[str]:
    """Check the words of a command other than `run`."""
    at = words.index("--") if "--" in words else len(words)
    own, after = words[:at], words[at + 1 :]
    if own[0] == "explain":
        yield from (f"there is no code {word}" for word in own[1:] if _is_unknown_code(word))
    if own[0] == "help":
        yield from (f"there is no topic {word}" for word in own[1:] if _is_unknown_topic(word))
    if own[0] in _get(()).commands:
        command = _get(own[:1])
        if own[1:2] and own[1] in command.commands:
            command = _get(own[:2])
        elif own[1:2] and command.commands and _NAME.fullmatch(own[1]):
            yield f"{own[0]} has no command {own[1]}"
        yield from _judge_options(own[1:], command.options)
    yield from _judge_run(after)


def _judge_options(words: Iterable[str], known: dict[str, bool]) -> Iterator[str]:
    rest = list(words)
    while rest:
        name, equals, _ = rest.pop(0).partition("=")
        if _OPTION.fullmatch(name) and name not in known:
            yield f"there is no option {name}"
        elif known.get(name) and not equals:
            rest = rest[1:]  # its value, which may look like an option


def _judge_run(words: list[str]) -> Iterator[str]:
    """Check the options of `run`, up to the server's command."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        name, equals, _ = rest.pop(0).partition("=")
        if name in TAKE_A_VALUE:
            rest = rest if equals else rest[1:]
        elif name not in {*SWITCHES, "-h", "--help"}:
            yield f"run has no option {name}"


def _is_unknown_code(word: str) -> bool:
    is_code = bool(re.fullmatch(r"[Mm][Ll]\d*", word))
    return is_code and not find_codes(word)


def _is_unknown_topic(word: str) -> bool:
    is_topic = bool(_NAME.fullmatch(word)) and HELP.is_dir()
    return is_topic and not (HELP / f"{word}.md").exists()


class _Known(NamedTuple):
    """The commands below a command, and its options: whether each takes a value."""

    commands: dict[str, Any]
    options: dict[str, bool]


def _get(path: Sequence[str]) -> _Known:
    command: Any = get_command(app)
    for name in path:
        command = command.commands[name]
    options = {
        option: not param.is_flag
        for param in command.params
        for option in (*param.opts, *param.secondary_opts)
        if option.startswith("-")
    }
    return _Known(getattr(command, "commands", {}), options | {"-h": False, "--help": False})
