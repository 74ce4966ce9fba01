"""What a launch would know and decide, as data, and how to mask the secrets in it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch import masking
from mcp_launch.commands import env_explanation, option_explanation, policy_rules
from mcp_launch.machine.preview_inputs import NO_COMMAND
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.commands.env_explanation import Explanation
    from mcp_launch.machine.preview import Preview

VERSION = 1

# Shown for an id that is created when a server is started.
_NEW = "(new with each launch)"


def describe(preview: Preview) -> dict[str, Any]:
    """Return everything about a launch, as data."""
    stopping = preview.list_stopping()
    return {
        "version": VERSION,
        "entry": _describe_entry(preview),
        "frame": {name: _describe_fact(preview, fact) for name, fact in _frame(preview).items()},
        "variables": [
            {
                "name": one.name,
                "value": _hide(preview, one.name, one.text),
                "origin": one.origin,
                "is_set": one.is_set,
            }
            for one in _list_values(preview)
        ],
        "policies": [*_list_policies(preview)],
        "removed": [{"name": name, "why": why} for name, why in _list_removed(preview).items()],
        "notes": _list_notes(preview),
        "problems": [
            {
                "problem": error.problem,
                "fix": error.fix,
                "exit_code": error.exit_code,
                "only_if_wrapped": error not in stopping,
            }
            for error in preview.problems
        ],
    }


class Value(NamedTuple):
    """A variable that the server would get."""

    name: str
    text: str
    origin: str
    is_set: bool  # by us; else it is passed on as it is


def _list_values(preview: Preview) -> Iterator[Value]:
    """Return every variable that the server would get: what we set, then the rest."""
    made = preview.decided.set_variables
    environ = preview.decided.environ
    for name in (name for name in made if name in environ):
        yield Value(name, environ[name], _name_origin(preview, name), is_set=True)
    for name in sorted(environ.keys() - made.keys()):
        origin = preview.situation.origins.get(name, "inherited")
        yield Value(name, environ[name], origin, is_set=False)


def _name_origin(preview: Preview, name: str) -> str:
    origin = preview.decided.set_variables[name]
    if name in preview.dotenv.values and origin == preview.dotenv.searched:
        return f"dotenv {origin}"
    if name in preview.wanted.literals and name not in preview.wanted.set_by_option:
        tables = env_explanation.list_tables(preview)
        says = [place for place, table, _ in tables if table and name in table.literals]
        return " ".join([origin, *says[:1]])
    return origin


def _list_notes(preview: Preview) -> list[str]:
    """Return what is worth knowing, and stops nothing."""
    home = preview.decided.place_note
    where = [f"the server's directory is {home}, not a project"] if home else []
    return [*preview.situation.notes, *where]


def _list_policies(preview: Preview) -> Iterator[dict[str, Any]]:
    """Return the policies for the server's tools and arguments, by the table that sets them."""
    tables = {place: table for place, table, _ in env_explanation.list_tables(preview) if table}
    for place, policies in policy_rules.list_in_force(tables):
        yield {"origin": place, **policy_rules.mask(policies)}


def _list_removed(preview: Preview) -> dict[str, str]:
    """Return what the launcher would have and the server would not, and why."""
    got, situation = preview.decided.environ, preview.situation
    left = {
        name: env_explanation.tell_why_removed(preview, name) for name in sorted(situation.environ)
    }
    left |= situation.withheld
    return {name: why for name, why in left.items() if name not in got}


def describe_explanation(preview: Preview, name: str, explained: Explanation) -> dict[str, Any]:
    """Return where one variable was searched for, as data."""
    steps = [
        {
            "place": step.place,
            "value": None if step.value is None else _hide(preview, name, step.value),
            "why": step.why,
        }
        for step in explained.steps
    ]
    return {"name": name, "steps": steps, "used": explained.used, "fix": explained.fix}


def make_scrubber(preview: Preview) -> masking.Scrubber:
    """Return a scrubber that masks every secret that the launch would see."""
    return masking.Scrubber(_list_secrets(preview))


def _list_secrets(preview: Preview) -> Iterator[str]:
    situation = preview.situation
    dotenv = {name: text or "" for name, text in preview.dotenv.values.items()}
    environs = (situation.around, situation.environ, preview.decided.environ, dotenv)
    for environ in (*environs, preview.asked.literals):
        yield from masking.list_in_variables(environ)
    for words in (situation.arguments, preview.decided.argv):
        yield from masking.list_in_words(words)
    if situation.item is not None:
        yield from masking.list_in_value(situation.item.entry)


def _hide(preview: Preview, name: str, text: str) -> str:
    """Return a variable's value, masked if its name or its origin calls for that."""
    if text == preview.found.launch.value:
        return _NEW
    is_hidden = masking.is_secret_name(name) or _is_entrys(preview, name, text)
    return masking.MASK if text and is_hidden else text


def _is_entrys(preview: Preview, name: str, text: str) -> bool:
    """Return whether a value is from the entry's `env`, where any value may be a secret."""
    item, environ = preview.situation.item, preview.situation.environ
    own = {one: environ.get(one) for one in item.variables} if item else {}
    return own.get(name) == text or (text in own.values() and not masking.is_common(text))


def _describe_entry(preview: Preview) -> dict[str, Any] | None:
    item = preview.situation.item
    return item and {
        "server": item.name,
        "host": item.host.name,
        "scope": item.scope,
        "file": item.file.path,
        "is_wrapped": preview.situation.is_launched,
    }


def _frame(preview: Preview) -> dict[str, Found | Missing]:
    """Return the facts about the launch itself."""
    found, line, decided = preview.found, preview.situation.line, preview.decided
    refused = preview.place_refused
    frame: dict[str, Found | Missing] = {
        "host": found.host,
        "stdin": Found(line.verdict, line.evidence),
        "session": found.session,
        "thread": found.thread,
        "project_root": found.project_root,
        "cwd": Missing([refused.problem]) if refused else decided.cwd,
        "binding": Found(found.identity.state, found.identity.evidence),
        "start": option_explanation.find(preview, "--start"),
        "rest": option_explanation.find(preview, "--rest"),
        "share": option_explanation.find(preview, "--share"),
        "call_timeout": option_explanation.find(preview, "--call-timeout"),
        "max_concurrent": option_explanation.find(preview, "--max-concurrent"),
    }
    if preview.wanted.command[0] != NO_COMMAND:
        command = shlex.join(masking.mask(preview.wanted.command))
        frame["command"] = Found(command, "as it was given")
    return frame | {"program": preview.program}


def _describe_fact(preview: Preview, fact: Found | Missing) -> dict[str, str | None]:
    if isinstance(fact, Found):
        return {"value": _hide(preview, "", fact.value), "origin": fact.origin}
    return {"value": None, "origin": "; ".join(fact.searched)}
