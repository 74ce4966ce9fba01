"""`mcp-launch explain`: a code of the doctor, a topic of the documentation, or a command.

A topic is a Markdown file in `mcp_launch/help`, which the README links to as well. Its first line
is its title.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.commands.output import print_json, show_markdown
from mcp_launch.commands.screen import say
from mcp_launch.doctor.check import CHECKS, explain
from mcp_launch.doctor.registry import find_codes
from mcp_launch.errors import UsageError, suggest
from mcp_launch.hosts.configured import describe_hosts
from mcp_launch.launch.options import USAGE

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1

DIRECTORY = Path(__file__).parents[1] / "help"

_CODE = re.compile(r"(ML)?(\d*)", re.IGNORECASE)

# In the page about hosts: made of what the package knows, so it is not kept twice.
_TABLE_OF_HOSTS = "`mcp-launch explain hosts` prints the table of all hosts here."

# A link to another file of the repository: only its text is of use on a terminal.
_LOCAL_LINK = re.compile(r"\[([^]]+)\]\((?!https?:)[^)]+\)")


class _Explanation(NamedTuple):
    name: str
    title: str
    text: str = ""  # Markdown
    usage: str = ""  # a command's own help


def run(names: list[str], read_help: Callable[[str], str], *, is_json: bool) -> int:
    """Explain these; list the codes that begin with a name, or everything if there is none.

    Raises:
        UsageError: A name is unknown.

    """
    groups = [_find(name, read_help) for name in names] or [[*_list_topics(), *_list_codes("")]]
    if is_json:
        found = dict.fromkeys(one for group in groups for one in group)
        print_json({"version": VERSION, "explanations": [one._asdict() for one in found]})
        return 0
    for at, group in enumerate(groups):
        if at:
            say("")
        if len(group) == 1:
            [one] = group
            if one.usage:
                say(one.usage + ("\n" if one.text else ""))
            if one.text:
                show_markdown(one.text)
        else:
            wide = max(len(one.name) for one in group)
            for one in group:
                say(f"{one.name:{wide}}  {one.title}")
    if not names:
        say("\nmcp-launch explain NAME shows one of them, or a command's help.")
    return 0


def list_names() -> list[str]:
    """Return the names of all topics and codes."""
    return [*(path.stem for path in DIRECTORY.glob("*.md")), *CHECKS]


def _find(name: str, read_help: Callable[[str], str]) -> list[_Explanation]:
    """Return what a name stands for: a topic may have the name of a command."""
    code = _CODE.fullmatch(name)
    if code and (codes := _list_codes(f"ML{code[2]}")):
        return codes
    topics = [one for one in _list_topics() if one.name == name]
    # The launch path parses the options of `run` itself.
    if usage := USAGE if name == "run" else read_help(name):
        known = topics[0] if topics else _Explanation(name, f"mcp-launch {name}")
        return [known._replace(usage=usage.rstrip())]
    if not topics:
        near = suggest(name, list_names()) or suggest(name.upper(), CHECKS)
        raise UsageError(
            f"there is no code, topic or command {name!r}",
            fix=f"{near}list them: mcp-launch explain",
        )
    return topics


def _list_topics() -> list[_Explanation]:
    found = []
    for path in sorted(DIRECTORY.glob("*.md")):
        text = path.read_text(encoding="utf-8").replace(_TABLE_OF_HOSTS, describe_hosts())
        title = text.partition("\n")[0].removeprefix("# ").replace("`", "")
        found.append(_Explanation(path.stem, title, _LOCAL_LINK.sub(r"\1", text)))
    return found


def _list_codes(beginning: str) -> list[_Explanation]:
    return [
        _Explanation(code, f"{CHECKS[code].title} ({CHECKS[code].level})", explain(code))
        for code in find_codes(beginning)
    ]
