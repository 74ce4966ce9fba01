"""`mcp-launch explain`: a code of the doctor, a topic of the documentation, or a command.

A topic is a Markdown file in `mcp_launch/help`, which the README links to as well. Its first line
is its title.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from mcp_launch.commands.app import Json, app, offer
from mcp_launch.commands.output import print_json, show_markdown
from mcp_launch.commands.screen import say
from mcp_launch.errors import UsageError, suggest

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


def _offer_names() -> list[str]:
    return offer(_list_names())


@app.command("explain")
def explain(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Codes of doctor or their beginnings, topics, commands; default: list them.",
            metavar="NAME",
            show_default=False,
            autocompletion=_offer_names,
        ),
    ] = None,
    *,
    as_json: Json = False,
) -> int:
    """Explain a code of doctor, a topic or a command.

    \b
    Examples:
      mcp-launch explain             list the topics and the codes
      mcp-launch explain ML206       what a finding means, and how to fix it
      mcp-launch explain ML2         list the codes that begin with ML2
      mcp-launch explain options     the options of run
      mcp-launch explain ps          a command's own help
    """  # noqa: D301  # typer's mark for lines to keep as they are

    def read_help(name: str) -> str:
        group = context.parent
        command = group.command.get_command(group, name) if group else None  # type: ignore[attr-defined]
        if command is None:
            return ""
        own = command.make_context(name, [], parent=group, resilient_parsing=True)
        return str(command.get_help(own))

    names = names or []
    groups = [_find(name, read_help) for name in names] or [[*_list_topics(), *_list_codes("")]]
    if as_json:
        found = dict.fromkeys(one for group in groups for one in group)
        print_json({"version": VERSION, "explanations": [one._asdict() for one in found]})
        return 0
    for at, group in enumerate(groups):
        if at:
            say("")
        _print(group)
    if not names:
        say("\nmcp-launch explain NAME shows one of them, or a command's help.")
    return 0


def _print(group: list[_Explanation]) -> None:
    """Print an explanation, or the titles of several."""
    if len(group) == 1:
        [one] = group
        if one.usage:
            say(one.usage + ("\n" if one.text else ""))
        if one.text:
            show_markdown(one.text)
        return
    wide = max(len(one.name) for one in group)
    for one in group:
        say(f"{one.name:{wide}}  {one.title}")


def _list_names() -> list[str]:
    """Return the names of all topics and codes."""
    from mcp_launch.doctor.registry import find_codes

    return [*(path.stem for path in DIRECTORY.glob("*.md")), *find_codes("")]


def _find(name: str, read_help: Callable[[str], str]) -> list[_Explanation]:
    """Return what a name stands for: a topic may have the name of a command."""
    from mcp_launch.launch.options import USAGE

    code = _CODE.fullmatch(name)
    if code and (codes := _list_codes(f"ML{code[2]}")):
        return codes
    topics = [one for one in _list_topics() if one.name == name]
    # The launch path parses the options of `run` itself.
    if usage := USAGE if name == "run" else read_help(name):
        known = topics[0] if topics else _Explanation(name, f"mcp-launch {name}")
        return [known._replace(usage=usage.rstrip())]
    if not topics:
        near = suggest(name, _list_names()) or suggest(name.upper(), _list_names())
        raise UsageError(
            f"there is no code, topic or command {name!r}",
            fix=f"{near}list them: mcp-launch explain",
        )
    return topics


def _list_topics() -> list[_Explanation]:
    from mcp_launch.hosts.configured import describe_hosts

    found = []
    for path in sorted(DIRECTORY.glob("*.md")):
        text = path.read_text(encoding="utf-8").replace(_TABLE_OF_HOSTS, describe_hosts())
        title = text.partition("\n")[0].removeprefix("# ").replace("`", "")
        found.append(_Explanation(path.stem, title, _LOCAL_LINK.sub(r"\1", text)))
    return found


def _list_codes(beginning: str) -> list[_Explanation]:
    from mcp_launch.doctor import check
    from mcp_launch.doctor.registry import find_codes

    checks = check.CHECKS
    return [
        _Explanation(code, f"{checks[code].title} ({checks[code].level})", check.explain(code))
        for code in find_codes(beginning)
    ]


@app.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of ~/.config/mcp-launch/config.toml, by which editors check it.

    \b
    Examples:
      mcp-launch schema > ~/.config/mcp-launch/config.schema.json
                 for editors; the first line of config.toml
                 is then: #:schema ./config.schema.json
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.launch import profile_schema

    print_json(profile_schema.describe())
