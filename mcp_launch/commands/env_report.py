"""What a launch would know and decide, as data, and where each value was looked for.

Imported late: it knows the hosts, and reads profiles as a launch does.
"""

from __future__ import annotations

import json
import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch import hosts, masking
from mcp_launch.config_files.wrap import SOURCES_OF_CODEX
from mcp_launch.errors import LaunchError, ProfileRefused, UsageError, suggest
from mcp_launch.launch import options, plan, profile_tables
from mcp_launch.launch.profile_tables import DEFAULTS
from mcp_launch.launch.runners.proof import Resolved
from mcp_launch.machine.preview_inputs import NO_COMMAND, split
from mcp_launch.machine.wrap_warnings import tell_how
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.launch.profile_tables import Table
    from mcp_launch.machine.preview import Preview
    from mcp_launch.machine.survey import Item
    from mcp_launch.values import Variable


VERSION = 1

# Shown for an id that is created when a server is started.
_NEW = "(new with each launch)"

# How similar a name must be to be the one that is meant: many share their beginning or their end.
_NEAR = 0.85

# What is in force without any setting, for options that are not a choice among some words.
_DEFAULTS = {
    "--cwd": "session",
    "--pass-env": "all",
    "--rest": "off",
    "--max-servers": options.MAX_SERVERS,
    "--call-timeout": "off",
    "--max-concurrent": "any",
}

_EXPLAINED = (*options.CHOICES, *_DEFAULTS, *options.SWITCHES)


class _Step(NamedTuple):
    """One place that was looked at."""

    place: str
    value: str | None  # what is there
    why: str  # why it has none, or none that counts; or its origin
    is_right: bool = False  # it would be used, unless an earlier place has one


class _Explanation(NamedTuple):
    """The way to a variable's value."""

    steps: list[_Step]
    used: int | None  # which step; None: the server would not get the variable
    fix: str  # what to do if it would not


def describe(preview: Preview, explained: str = "") -> dict[str, Any]:
    """Return everything about a launch, as data with all secrets masked.

    `explained` is the variable or option whose origin is asked for.

    Raises:
        UsageError: There is no such option.

    """
    stopping = preview.list_stopping()
    report: dict[str, Any] = {
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
    if explained:
        report["explained"] = _describe_explanation(preview, explained)
    return masking.Scrubber(_list_secrets(preview)).clean_all(report)


class _Value(NamedTuple):
    """A variable that the server would get."""

    name: str
    text: str
    origin: str
    is_set: bool  # by us; else it is passed on as it is


def _list_values(preview: Preview) -> Iterator[_Value]:
    """Return every variable that the server would get: what we set, then the rest."""
    made = preview.decided.set_variables
    environ = preview.decided.environ
    for name in (name for name in made if name in environ):
        yield _Value(name, environ[name], _name_origin(preview, name), is_set=True)
    for name in sorted(environ.keys() - made.keys()):
        origin = preview.situation.origins.get(name, "inherited")
        yield _Value(name, environ[name], origin, is_set=False)


def _name_origin(preview: Preview, name: str) -> str:
    origin = preview.decided.set_variables[name]
    if name in preview.dotenv.values and origin == preview.dotenv.searched:
        return f"dotenv {origin}"
    if name in preview.wanted.literals and name not in preview.wanted.set_by_option:
        tables = _list_tables(preview)
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
    tables = {place: table for place, table, _ in _list_tables(preview) if table}
    for place, policies in _list_in_force(tables):
        yield {"origin": place, **mask_policies(policies)}


def _list_removed(preview: Preview) -> dict[str, str]:
    """Return what the launcher would have and the server would not, and why."""
    got, situation = preview.decided.environ, preview.situation
    left = {name: _tell_why_removed(preview, name) for name in sorted(situation.environ)}
    left |= situation.withheld
    return {name: why for name, why in left.items() if name not in got}


def _describe_explanation(preview: Preview, name: str) -> dict[str, Any]:
    """Return where one variable or option was searched for, as data."""
    explain = _explain_option if _is_option(name) else _explain_variable
    explained = explain(preview, name)
    steps = [
        {
            "place": step.place,
            "value": None if step.value is None else _hide(preview, name, step.value),
            "why": step.why,
        }
        for step in explained.steps
    ]
    return {"name": name, "steps": steps, "used": explained.used, "fix": explained.fix}


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
        "start": _find_option(preview, "--start"),
        "rest": _find_option(preview, "--rest"),
        "share": _find_option(preview, "--share"),
        "call_timeout": _find_option(preview, "--call-timeout"),
        "max_concurrent": _find_option(preview, "--max-concurrent"),
    }
    if preview.wanted.command[0] != NO_COMMAND:
        command = shlex.join(masking.mask(preview.wanted.command))
        frame["command"] = Found(command, "as it was given")
    return frame | {"program": preview.program}


def _describe_fact(preview: Preview, fact: Found | Missing) -> dict[str, str | None]:
    if isinstance(fact, Found):
        return {"value": _hide(preview, "", fact.value), "origin": fact.origin}
    return {"value": None, "origin": "; ".join(fact.searched)}


def _explain_variable(preview: Preview, name: str) -> _Explanation:
    """Return where a variable was looked for, and what was found."""
    steps = list(_list_steps_of_variable(preview, name))
    if name not in preview.decided.environ:
        return _Explanation(steps, None, _find_fix(preview, name))
    return _choose_first(steps)


def _choose_first(steps: list[_Step]) -> _Explanation:
    """Return the explanation of a value that comes from the first right step."""
    used, *others = (at for at, step in enumerate(steps) if step.is_right)
    for at in others:
        steps[at] = steps[at]._replace(why=f"{steps[used].place} takes precedence")
    return _Explanation(steps, used, "")


def _list_steps_of_variable(preview: Preview, name: str) -> Iterator[_Step]:
    if name == "PWD" and not preview.place_refused:
        yield _take("the server's directory", preview.decided.cwd)
    runner = preview.decided.runner
    if isinstance(runner, Resolved) and name in runner.variables:
        origin = preview.decided.set_variables[name]
        yield _take("the runner that is left out", Found(runner.variables[name], origin))
    yield from _list_asks(preview, name)
    yield _see_default(preview, name)
    yield _see_dotenv(preview, name)
    yield from _list_inherited(preview, name)


def _take(place: str, found: Found) -> _Step:
    return _Step(place, found.value, found.origin, is_right=True)


def _list_asks(preview: Preview, name: str) -> Iterator[_Step]:
    """Return what options and profiles ask for: only the first of them counts."""
    first = ""
    for place, asked, why in _list_layers(preview, name):
        if not asked:
            yield _Step(place, None, why)
        elif first:
            yield _Step(place, None, f"{asked}, but {first} takes precedence")
        else:
            first = place
            yield _see_ask(preview, name, place, asked)


def _list_layers(preview: Preview, name: str) -> Iterator[tuple[str, str, str]]:
    """Return each place where a variable can be asked for, how, and else why not."""
    for option in ("--set", "--env"):
        for place, layer in _list_given(preview, option):
            pairs = [text.strip().partition("=") for text in layer.get(option) or []]
            texts = [text for asked, _, text in pairs if asked == name]
            how = "a fixed text" if option == "--set" else _name_source("".join(texts[-1:]))
            yield place, how if texts else "", "not mentioned there"
    for place, table, why in _list_tables(preview):
        if table is None:
            yield place, "", why
        elif name in table.literals:
            yield place, "a fixed text", ""
        else:
            variable = table.variables.get(name)
            yield place, f"source {variable.source}" if variable else "", "not mentioned there"
    if not preview.server:
        yield "profiles", "", "profiles need --server"


def _list_given(preview: Preview, option: str) -> list[tuple[str, Mapping[str, list[str] | None]]]:
    """Return what the command line and the environment set, each with its place."""
    exported: Mapping[str, list[str] | None] = {}
    try:
        exported = options.read_variables(preview.situation.environ)
    except UsageError:
        pass  # it is among the problems
    given = split(preview.situation.arguments)[0]
    return [(f"the option {option}", given), (options.name_variable(option), exported)]


def _name_source(source: str) -> str:
    # Somebody may have put a secret there.
    is_known = source in options.SOURCES
    return f"source {source}" if is_known else "a source that does not exist"


def _see_ask(preview: Preview, name: str, place: str, asked: str) -> _Step:
    if name in preview.failed:
        return _Step(place, None, preview.failed[name].problem)
    if name in preview.wanted.literals:
        return _Step(place, preview.decided.environ[name], asked, is_right=True)
    variable: Variable | None = preview.wanted.env.get(name)
    if variable is None:
        return _Step(place, None, f"{asked}, but the launch fails earlier")
    value = plan.resolve(
        variable,
        preview.decided,
        preview.wanted,
        preview.found,
        preview.situation.environ,
        preview.dotenv,
    )
    if isinstance(value, Found):
        return _Step(place, value.value, f"{asked}: {value.origin}", is_right=True)
    return _Step(place, None, f"{asked}, not required: {'; '.join(value.searched)}")


def _see_default(preview: Preview, name: str) -> _Step:
    place = "what mcp-launch sets for every server"
    found = preview.found
    fact = plan.list_defaults(found).get(name)
    if fact is None:
        usual = _list_usual(preview)
        if name not in usual:
            return _Step(place, None, "not one of them")
        fact = getattr(found, usual[name])
    if isinstance(fact, Found):
        return _take(place, fact)
    return _Step(place, None, "; ".join(fact.searched))


def _see_dotenv(preview: Preview, name: str) -> _Step:
    place = "dotenv files, as a whole"
    dotenv = preview.dotenv
    if not preview.asked.dotenv:
        return _Step(place, None, "none is named (--dotenv FILE)")
    if not preview.wanted.dotenv:
        return _Step(place, None, "they cannot be read")
    text = dotenv.values.get(name)
    if text is None:
        return _Step(place, None, f"it is not in {dotenv.searched}")
    if any(variable.source == "dotenv" for variable in preview.wanted.env.values()):
        why = f"only variables requested by name are taken from {dotenv.searched}"
        return _Step(place, text, why)
    return _take(place, Found(text, dotenv.searched))


def _list_inherited(preview: Preview, name: str) -> Iterator[_Step]:
    situation = preview.situation
    blocked = _tell_why_removed(preview, name)
    text = situation.environ.get(name)
    where = "the launcher's environment"
    if situation.item is not None:
        where = f"{situation.item.host.title}'s environment"
        own = text if name in situation.item.variables else None
        why = blocked or "passed on as it is" if own is not None else "not mentioned there"
        yield _Step("the entry's env", own, why, is_right=own is not None and not blocked)
        if source := _find_refused(situation.item, name):
            named = f"source {source}" if masking.is_common(source) else "a source"
            title = situation.item.host.title
            why = f"{named}: {title} refuses it, and everything else in that file"
            yield _Step("the entry's env_vars", None, why)
        text = None if own is not None else text
    if text is None:
        yield _Step(where, None, situation.withheld.get(name, "it is not set"))
    else:
        yield _Step(where, text, blocked or "passed on as it is", is_right=not blocked)


def _find_refused(item: Item, name: str) -> str:
    """Return the source from which an entry wants a variable, if its host does not know it."""
    wanted = item.entry.get("env_vars") if _has_env_vars(item) else None
    asked = [one for one in wanted if isinstance(one, dict)] if isinstance(wanted, list) else []
    sources = [str(one.get("source", "local")) for one in asked if one.get("name") == name]
    return next((source for source in sources if source not in SOURCES_OF_CODEX), "")


def _has_env_vars(item: Item) -> bool:
    return item.host.quirks.environment.has_env_vars


def _find_fix(preview: Preview, name: str) -> str:
    failed: LaunchError | None = preview.failed.get(name)
    if failed:
        return failed.fix
    if of_entry := _find_fix_in_entry(preview, name):
        return of_entry
    if name in preview.decided.kept_back:
        return f"ask for it by name: --env {name}=local"
    if origin := _list_usual(preview).get(name):
        return f"mcp-launch sets it once the {origin} is known: start a session of its host"
    return (
        f"{_suggest(preview, name)}give it with --env {name}=SOURCE "
        f"({', '.join(options.SOURCES)}), with --set {name}=VALUE, or in the `env` of the host's "
        "entry"
    )


def _find_fix_in_entry(preview: Preview, name: str) -> str:
    """Return what to change in the host's entry; "" if that is not the cause."""
    situation, item = preview.situation, preview.situation.item
    if item is None:
        return ""
    if _find_refused(item, name):
        return f"let mcp-launch give it: {tell_how(item)}"
    if name not in situation.withheld or name in preview.decided.kept_back:
        return ""
    where = f'env_vars = ["{name}"]' if _has_env_vars(item) else "its env"
    return f"name it in the entry of {item.name}: {where}"


def _list_usual(preview: Preview) -> dict[str, str]:
    """Return what this host's servers get once it is known: each variable's name and source."""
    would = preview.found.facts.default_variables(Found("", "session"), Found("", "thread"))
    return {name: found.origin for name, found in would.items()}


def _suggest(preview: Preview, name: str) -> str:
    """Return which variable may be meant; "" if the name is right, or like no other."""
    of_hosts = {other for names in hosts.IDENTITY_VARIABLES.values() for other in names}
    situation = preview.situation
    known = {*preview.decided.environ, *situation.environ, *situation.withheld}
    known |= {*preview.dotenv.values, *plan.list_defaults(preview.found), *of_hosts}
    if name in known:
        return ""
    near = get_close_matches(name, sorted(known), 1, _NEAR)
    return f"did you mean {near[0]}? " if near else ""


def _tell_why_removed(preview: Preview, name: str) -> str:
    """Return why an inherited variable is not passed on; nothing if it may be."""
    if name in preview.failed:
        return "the launch would fail because of it"
    if why := preview.decided.kept_back.get(name):
        return f"withheld by --pass-env {','.join(preview.wanted.pass_env)}: {why}"
    if options.is_own_variable(name):
        return "for the launcher, not for servers"
    if name in preview.decided.unset_variables:
        return "not this session's"
    if name in preview.asked.env:
        return f"requested from {preview.asked.env[name].source}, which has no value"
    return "" if name else "a variable needs a name"


def _list_tables(preview: Preview) -> Iterator[tuple[str, Table | None, str]]:
    """Return the tables of the user's file for the server, the more important first.

    Each with what it says, or why it says nothing.
    """
    environ = preview.situation.environ
    path = profile_tables.locate(environ)
    tables: dict[str, Table] = {}
    own = profile_tables.name_table(preview.server)
    why = f"it has no {own}"
    try:
        file = profile_tables.read(environ)
        tables = file.find_tables(preview.server)
        why = why if file.exists else "there is no such file"
    except ProfileRefused as refused:
        at = f"line {refused.line}: " if refused.line else ""
        why = at + refused.without_place.removeprefix(f"{path} ")
    if preview.server:
        yield path, tables.get(own), why
    if DEFAULTS in tables:
        yield f"{DEFAULTS} in {path}", tables[DEFAULTS], ""


def _is_option(name: str) -> bool:
    """Return whether a name is that of an option, and not of a variable.

    Raises:
        UsageError: There is no such option, or it has no single value.

    """
    if not name.startswith("-"):
        return False
    if name in _EXPLAINED:
        return True
    is_known = name in options.TAKE_A_VALUE
    raise UsageError(
        f"{name} has no single value" if is_known else f"run has no option {name}",
        fix=f"{suggest(name, _EXPLAINED)}the options that can be explained are "
        f"{', '.join(_EXPLAINED)}; for a variable, write its name alone",
    )


def _find_option(preview: Preview, option: str) -> Found:
    """Return the value that is in force, with its origin."""
    found = _explain_option(preview, option)
    step = found.steps[found.used or 0]
    return Found(step.value or "", step.place)


def _explain_option(preview: Preview, option: str) -> _Explanation:
    """Return where an option can be set, in the order of precedence, and what was found."""
    return _choose_first(list(_list_steps_of_option(preview, option)))


def _list_steps_of_option(preview: Preview, option: str) -> Iterator[_Step]:
    for place, given in _list_given(preview, option):
        yield _see(place, option, given, "it is not set")
    key = option.removeprefix("--").replace("-", "_")
    for place, table, why in _list_tables(preview):
        layer = table.options if table else {}
        yield _see(place, option, layer, f"{key} is not mentioned there" if table else why)
    yield _Step("the default", _find_default(option), "nothing else is set", is_right=True)


def _see(place: str, option: str, layer: Mapping[str, list[str] | None], why_not: str) -> _Step:
    if option not in layer:
        return _Step(place, None, why_not)
    texts = layer[option]
    if option in options.SWITCHES:
        value = "off" if texts is None else "on"
    else:
        value = (texts or [""])[-1]
    return _Step(place, value, "in force", is_right=True)


def _find_default(option: str) -> str:
    if option in options.SWITCHES:
        return "off"
    return _DEFAULTS.get(option) or options.CHOICES[option][0] or "depends on the host"


class PolicyRule(NamedTuple):
    """One rule: what it is about, and what it demands."""

    about: str  # the tools, or an argument
    demand: str

    def __str__(self) -> str:
        """Return the rule in one line."""
        return f"{self.about} {self.demand}"


def list_rules(policies: Mapping[str, Any]) -> Iterator[PolicyRule]:
    """Return the rules of one table of a profile."""
    for key, patterns in (policies["tools"] or {}).items():
        yield PolicyRule("tools", f"{key} {' '.join(patterns)}".rstrip())
    yield from _list_pins(policies["arguments"] or {}, "")
    for tool, pins in (policies["arguments_of"] or {}).items():
        yield from _list_pins(pins, f" of {tool}")


def _list_pins(pins: Mapping[str, Any], whose: str) -> Iterator[PolicyRule]:
    for name, pin in pins.items():
        yield PolicyRule(f"argument {name}{whose}", _tell_demand(pin))


def _tell_demand(pin: Mapping[str, Any]) -> str:
    if "value" in pin:
        return f"is {json.dumps(pin['value'], ensure_ascii=False)}"
    return f"inside {pin['inside']}"


def mask_policies(policies: dict[str, Any]) -> dict[str, Any]:
    """Return policies with the secrets in them masked: a fixed value may be one."""
    return masking.Scrubber(masking.list_in_value(policies)).clean_sent(policies)


def _list_in_force(tables: Mapping[str, Table]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the policies that apply to a server, each with the place that sets it.

    The more important table comes first: it replaces the other, key by key.
    """
    seen: set[str] = set()
    for place, table in tables.items():
        own = {key: None if key in seen else one for key, one in table.policies.items()}
        seen |= {key for key, one in own.items() if one is not None}
        if any(one is not None for one in own.values()):
            yield place, own
