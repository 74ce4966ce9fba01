"""Variables in an entry that reach the server unexpanded.

Claude Code replaces `${NAME}` and `${NAME:-default}` with values from its own environment, and
does not touch unset ones; Codex replaces nothing. Neither expands `$NAME` or `~/`. Seen with
Claude Code 2.1.325 and Codex 0.166.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.machine import host_environment, preview_inputs
from mcp_launch.values import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.documents.positions import Path
    from mcp_launch.machine.survey import Item, Survey

_BORROWED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}")

_SCRIPT = re.compile(r"-\w*c")

# Servers that expand ~/ themselves.
_KNOW_TILDE = ("server-filesystem",)


def check_unset(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find variables that a host would replace if they were set (ML106)."""
    if not item.host.quirks.texts.leaves_unset:
        return
    known = host_environment.read_host(survey, item.host)
    missing: dict[str, Path] = {}
    for keys, text in [*_list_words(item, item.words), *_list_variables(item)]:
        for name, default in _BORROWED.findall(text):
            if not default and name not in known:
                missing.setdefault(name, keys)
    if missing:
        names = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'}"
        first = next(iter(missing))
        yield Finding(
            "ML106",
            item.point(*missing[first]),
            f"{names} not set where {item.host.title} runs: '{item.name}' gets "
            f"the text ${{{first}}}",
            f"set it before you start {item.host.quirks.program.command}, or write "
            f"${{{first}:-a default}}",
        )


def check_literal(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find shell syntax where there is no shell (ML106)."""
    pattern = item.host.quirks.texts.unexpanded
    if pattern is None:
        return
    found: dict[str, Path] = {}
    cwd = item.cwd
    texts = [*_list_arguments(item), *_list_variables(item)]
    if preview_inputs.has_cwd(item) and isinstance(cwd, str):
        texts.append(((item.host.quirks.cwd_key,), cwd))
    for keys, text in texts:
        for written in pattern.findall(text):
            if written != "~/" or not _knows_tilde(item) or keys[0] != "args":
                found.setdefault(written, keys)
    if found:
        first = next(iter(found))
        yield Finding(
            "ML106",
            item.point(*found[first]),
            f"{item.host.title} passes {', '.join(found)} to '{item.name}' unexpanded: there is no "
            "shell that would replace it",
            _explain(survey, item, first),
        )


def _list_words(item: Item, words: list[str]) -> list[tuple[Path, str]]:
    """Return the last words of a command, with their paths in the entry."""
    before = len(item.words) - len(words)
    return [
        (("args", at - 1) if at else ("command",), word)
        for at, word in enumerate(words, start=before)
    ]


def _list_arguments(item: Item) -> list[tuple[Path, str]]:
    """Return the server's arguments, except those of a shell, which expands them."""
    program = os.path.basename(item.command[0]) if item.command else ""
    if program in SHELLS and any(_SCRIPT.fullmatch(word) for word in item.command):
        return []
    return _list_words(item, item.command[1:])


def _list_variables(item: Item) -> list[tuple[Path, str]]:
    return [(("env", name), text) for name, text in item.variables.items()]


def _knows_tilde(item: Item) -> bool:
    return any(name in word for name in _KNOW_TILDE for word in item.command)


def _explain(survey: Survey, item: Item, written: str) -> str:
    borrow = item.host.quirks.texts.borrow
    if written == "~/":
        return f"write {borrow.format('HOME') or survey.site.home}/"
    name = written.strip("${}").partition(":-")[0]
    if borrow:
        return f"write {borrow.format(name)}"
    return f'write its value; or, if the server reads {name} itself, env_vars = ["{name}"]'


OF_ITEMS = (check_unset, check_literal)
