"""Where the value of one variable was looked for, in the order of precedence."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts, masking
from mcp_launch.config_files.wrap import SOURCES_OF_CODEX
from mcp_launch.errors import LaunchError, ProfileRefused, UsageError
from mcp_launch.launch import options, plan, profile_tables
from mcp_launch.launch.profile_tables import DEFAULTS
from mcp_launch.launch.runners.proof import Resolved
from mcp_launch.machine.preview_inputs import split
from mcp_launch.machine.wrap_warnings import tell_how
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.launch.profile_tables import Table
    from mcp_launch.machine.preview import Preview
    from mcp_launch.machine.survey import Item
    from mcp_launch.values import Variable


# How similar a name must be to be the one that is meant: many share their beginning or their end.
_NEAR = 0.85


class Step(NamedTuple):
    """One place that was looked at."""

    place: str
    value: str | None  # what is there
    why: str  # why it has none, or none that counts; or its origin
    is_right: bool = False  # it would be used, unless an earlier place has one


class Explanation(NamedTuple):
    """The way to a variable's value."""

    steps: list[Step]
    used: int | None  # which step; None: the server would not get the variable
    fix: str  # what to do if it would not


def explain(preview: Preview, name: str) -> Explanation:
    """Return where a variable was looked for, and what was found."""
    steps = list(_list_steps(preview, name))
    if name not in preview.decided.environ:
        return Explanation(steps, None, _find_fix(preview, name))
    return choose_first(steps)


def choose_first(steps: list[Step]) -> Explanation:
    """Return the explanation of a value that comes from the first right step."""
    used, *others = (at for at, step in enumerate(steps) if step.is_right)
    for at in others:
        steps[at] = steps[at]._replace(why=f"{steps[used].place} takes precedence")
    return Explanation(steps, used, "")


def _list_steps(preview: Preview, name: str) -> Iterator[Step]:
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


def _take(place: str, found: Found) -> Step:
    return Step(place, found.value, found.origin, is_right=True)


def _list_asks(preview: Preview, name: str) -> Iterator[Step]:
    """Return what options and profiles ask for: only the first of them counts."""
    first = ""
    for place, asked, why in _list_layers(preview, name):
        if not asked:
            yield Step(place, None, why)
        elif first:
            yield Step(place, None, f"{asked}, but {first} takes precedence")
        else:
            first = place
            yield _see_ask(preview, name, place, asked)


def _list_layers(preview: Preview, name: str) -> Iterator[tuple[str, str, str]]:
    """Return each place where a variable can be asked for, how, and else why not."""
    for option in ("--set", "--env"):
        for place, layer in list_given(preview, option):
            pairs = [text.strip().partition("=") for text in layer.get(option) or []]
            texts = [text for asked, _, text in pairs if asked == name]
            how = "a fixed text" if option == "--set" else _name_source("".join(texts[-1:]))
            yield place, how if texts else "", "not mentioned there"
    for place, table, why in list_tables(preview):
        if table is None:
            yield place, "", why
        elif name in table.literals:
            yield place, "a fixed text", ""
        else:
            variable = table.variables.get(name)
            yield place, f"source {variable.source}" if variable else "", "not mentioned there"
    if not preview.server:
        yield "profiles", "", "profiles need --server"


def list_given(preview: Preview, option: str) -> list[tuple[str, Mapping[str, list[str] | None]]]:
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


def _see_ask(preview: Preview, name: str, place: str, asked: str) -> Step:
    if name in preview.failed:
        return Step(place, None, preview.failed[name].problem)
    if name in preview.wanted.literals:
        return Step(place, preview.decided.environ[name], asked, is_right=True)
    variable: Variable | None = preview.wanted.env.get(name)
    if variable is None:
        return Step(place, None, f"{asked}, but the launch fails earlier")
    value = plan.resolve(
        variable,
        preview.decided,
        preview.wanted,
        preview.found,
        preview.situation.environ,
        preview.dotenv,
    )
    if isinstance(value, Found):
        return Step(place, value.value, f"{asked}: {value.origin}", is_right=True)
    return Step(place, None, f"{asked}, not required: {'; '.join(value.searched)}")


def _see_default(preview: Preview, name: str) -> Step:
    place = "what mcp-launch sets for every server"
    found = preview.found
    fact = plan.list_defaults(found).get(name)
    if fact is None:
        usual = _list_usual(preview)
        if name not in usual:
            return Step(place, None, "not one of them")
        fact = getattr(found, usual[name])
    if isinstance(fact, Found):
        return _take(place, fact)
    return Step(place, None, "; ".join(fact.searched))


def _see_dotenv(preview: Preview, name: str) -> Step:
    place = "dotenv files, as a whole"
    dotenv = preview.dotenv
    if not preview.asked.dotenv:
        return Step(place, None, "none is named (--dotenv FILE)")
    if not preview.wanted.dotenv:
        return Step(place, None, "they cannot be read")
    text = dotenv.values.get(name)
    if text is None:
        return Step(place, None, f"it is not in {dotenv.searched}")
    if any(variable.source == "dotenv" for variable in preview.wanted.env.values()):
        why = f"only variables requested by name are taken from {dotenv.searched}"
        return Step(place, text, why)
    return _take(place, Found(text, dotenv.searched))


def _list_inherited(preview: Preview, name: str) -> Iterator[Step]:
    situation = preview.situation
    blocked = tell_why_removed(preview, name)
    text = situation.environ.get(name)
    where = "the launcher's environment"
    if situation.item is not None:
        where = f"{situation.item.host.title}'s environment"
        own = text if name in situation.item.variables else None
        why = blocked or "passed on as it is" if own is not None else "not mentioned there"
        yield Step("the entry's env", own, why, is_right=own is not None and not blocked)
        if source := _find_refused(situation.item, name):
            named = f"source {source}" if masking.is_common(source) else "a source"
            title = situation.item.host.title
            why = f"{named}: {title} refuses it, and everything else in that file"
            yield Step("the entry's env_vars", None, why)
        text = None if own is not None else text
    if text is None:
        yield Step(where, None, situation.withheld.get(name, "it is not set"))
    else:
        yield Step(where, text, blocked or "passed on as it is", is_right=not blocked)


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


def tell_why_removed(preview: Preview, name: str) -> str:
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


def list_tables(preview: Preview) -> Iterator[tuple[str, Table | None, str]]:
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
