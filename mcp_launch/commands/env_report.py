"""What a launch would know and decide, as data, and how to mask the secrets in it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from mcp_launch import masking
from mcp_launch.machine.preview_inputs import NO_COMMAND
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.preview import Prospect
    from mcp_launch.machine.preview_reasons import Explanation

VERSION = 1

# Shown for an id that is created when a server is started.
_NEW = "(new with each launch)"


def describe(prospect: Prospect) -> dict[str, Any]:
    """Return everything about a launch, as data."""
    stopping = prospect.list_stopping()
    return {
        "version": VERSION,
        "entry": _describe_entry(prospect),
        "frame": {name: _describe_fact(prospect, fact) for name, fact in _frame(prospect).items()},
        "variables": [
            {
                "name": one.name,
                "value": _hide(prospect, one.name, one.text),
                "origin": one.origin,
                "is_set": one.is_set,
            }
            for one in prospect.list_values()
        ],
        "removed": [{"name": name, "why": why} for name, why in prospect.list_removed().items()],
        "notes": prospect.list_notes(),
        "problems": [
            {
                "problem": error.problem,
                "fix": error.fix,
                "exit_code": error.exit_code,
                "only_if_wrapped": error not in stopping,
            }
            for error in prospect.problems
        ],
    }


def describe_explanation(prospect: Prospect, name: str, explained: Explanation) -> dict[str, Any]:
    """Return where one variable was searched for, as data."""
    steps = [
        {
            "place": step.place,
            "value": None if step.value is None else _hide(prospect, name, step.value),
            "why": step.why,
        }
        for step in explained.steps
    ]
    return {"name": name, "steps": steps, "used": explained.used, "fix": explained.fix}


def make_scrubber(prospect: Prospect) -> masking.Scrubber:
    """Return a scrubber that masks every secret that the launch would see."""
    return masking.Scrubber(_list_secrets(prospect))


def _list_secrets(prospect: Prospect) -> Iterator[str]:
    situation = prospect.situation
    dotenv = {name: text or "" for name, text in prospect.dotenv.values.items()}
    environs = (situation.around, situation.environ, prospect.decided.environ, dotenv)
    for environ in (*environs, prospect.asked.literals):
        yield from masking.list_in_variables(environ)
    for words in (situation.arguments, prospect.decided.argv):
        yield from masking.list_in_words(words)
    if situation.item is not None:
        yield from masking.list_in_value(situation.item.entry)


def _hide(prospect: Prospect, name: str, text: str) -> str:
    """Return a variable's value, masked if its name or its origin calls for that."""
    if text == prospect.found.launch.value:
        return _NEW
    is_hidden = masking.is_secret_name(name) or _is_entrys(prospect, name, text)
    return masking.MASK if text and is_hidden else text


def _is_entrys(prospect: Prospect, name: str, text: str) -> bool:
    """Return whether a value is from the entry's `env`, where any value may be a secret."""
    item, environ = prospect.situation.item, prospect.situation.environ
    own = {one: environ.get(one) for one in item.variables} if item else {}
    return own.get(name) == text or (text in own.values() and not masking.is_common(text))


def _describe_entry(prospect: Prospect) -> dict[str, Any] | None:
    item = prospect.situation.item
    return item and {
        "server": item.name,
        "host": item.host.name,
        "scope": item.scope,
        "file": item.file.path,
        "is_wrapped": prospect.situation.is_launched,
    }


def _frame(prospect: Prospect) -> dict[str, Found | Missing]:
    """Return the facts about the launch itself."""
    found, line, decided = prospect.found, prospect.situation.line, prospect.decided
    refused = prospect.failed.get("PWD")
    frame: dict[str, Found | Missing] = {
        "host": found.host,
        "stdin": Found(line.verdict, line.evidence),
        "session": found.session,
        "thread": found.thread,
        "project_root": found.project_root,
        "cwd": Missing([refused.problem]) if refused else decided.cwd,
        "binding": Found(found.identity.state, found.identity.evidence),
    }
    if decided.argv[0] != NO_COMMAND:
        frame["command"] = Found(shlex.join(masking.mask(decided.argv)), "as it was given")
    return frame | {"program": prospect.program}


def _describe_fact(prospect: Prospect, fact: Found | Missing) -> dict[str, str | None]:
    if isinstance(fact, Found):
        return {"value": _hide(prospect, "", fact.value), "origin": fact.origin}
    return {"value": None, "origin": "; ".join(fact.searched)}
