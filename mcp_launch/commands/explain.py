"""`mcp-launch explain`: what a code of the doctor means, and what to do about it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from mcp_launch.commands.output import print_json, show_markdown
from mcp_launch.commands.screen import Screen, say
from mcp_launch.doctor.check import CHECKS, explain
from mcp_launch.doctor.registry import GROUPS, find_codes
from mcp_launch.doctor.report_text import STYLES
from mcp_launch.errors import UsageError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

# The version of the JSON format.
VERSION = 1


def run(words: list[str], *, is_json: bool) -> int:
    """Explain codes, list those that begin with a word, or list all; return the exit code.

    Raises:
        UsageError: A word is not a code, nor the beginning of one.

    """
    found = list(dict.fromkeys(_find(word) for word in words)) or [tuple(find_codes())]
    if is_json:
        asked = dict.fromkeys(code for codes in found for code in codes)
        print_json({"version": VERSION, "codes": [_describe(code) for code in asked]})
        return 0
    for number, codes in enumerate(found):
        if number:
            say("")
        if len(codes) == 1:
            show_markdown(explain(codes[0]))
        else:
            _list(codes)
    return 0


def _find(word: str) -> tuple[str, ...]:
    codes = tuple(find_codes(word))
    if not codes:
        raise UsageError(
            f"the doctor has no code {word!r}",
            fix=f"{suggest(word.upper(), CHECKS)}list all codes: mcp-launch explain",
        )
    return codes


def _describe(code: str) -> dict[str, str]:
    check = CHECKS[code]
    return {"code": code, "level": check.level, "title": check.title, "text": explain(code)}


def _list(codes: Iterable[str]) -> None:
    """List codes: in groups on a terminal, otherwise one in each line."""
    screen = Screen(soft_wrap=False)
    if not screen.is_terminal:
        for code in codes:
            check = CHECKS[code]
            say(f"{code} {check.level:7} {check.title}")
        return
    for number, (group, members) in enumerate(groupby(codes, lambda code: code[:3])):
        if number:
            screen.print()
        screen.print(Text(GROUPS[group], "bold"))
        table = Table.grid(padding=(0, 1, 0, 0))
        for code in members:
            check = CHECKS[code]
            table.add_row(code, Text(check.level, STYLES[check.level]), check.title)
        screen.print(table)
    screen.print()
    screen.print(Text("mcp-launch explain CODE says more about one of them", "dim"))
