"""Where the value of one variable was looked for, in the order of precedence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts, masking
from mcp_launch.config_files.wrap import SOURCES_OF_CODEX
from mcp_launch.errors import LaunchError, UsageError, suggest
from mcp_launch.launch import options, plan
from mcp_launch.machine.preview_inputs import split
from mcp_launch.machine.wrap_hint import tell_how
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.preview import Prospect
    from mcp_launch.machine.survey import Item
    from mcp_launch.values import Variable


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


def explain(prospect: Prospect, name: str) -> Explanation:
    """Tell where a variable was looked for, and what came of it."""
    steps = list(_list_steps(prospect, name))
    used = None
    if name in prospect.decided.environ:
        used, *others = (at for at, step in enumerate(steps) if step.is_right)
        for at in others:
            steps[at] = steps[at]._replace(why=f"{steps[used].place} takes precedence")
    return Explanation(steps, used, "" if used is not None else _find_fix(prospect, name))


def _list_steps(prospect: Prospect, name: str) -> Iterator[Step]:
    if name == "PWD" and prospect.has_place:
        yield _take("the server's directory", prospect.decided.cwd)
    yield from _list_asks(prospect, name)
    yield _see_default(prospect, name)
    yield _see_dotenv(prospect, name)
    yield from _list_inherited(prospect, name)


def _take(place: str, found: Found) -> Step:
    return Step(place, found.value, found.origin, is_right=True)


def _list_asks(prospect: Prospect, name: str) -> Iterator[Step]:
    """Return what options and profiles ask for: only the first of them counts."""
    first = ""
    for place, asked, why in _list_layers(prospect, name):
        if not asked:
            yield Step(place, None, why)
        elif first:
            yield Step(place, None, f"{asked}, but {first} takes precedence")
        else:
            first = place
            yield _see_ask(prospect, name, place, asked)


def _list_layers(prospect: Prospect, name: str) -> Iterator[tuple[str, str, str]]:
    """Return each place where a variable can be asked for, how, and else why not."""
    given = split(prospect.situation.arguments)[0].get("--env", [])
    try:
        twins = options.read_twins(prospect.situation.environ)["--env"] or []
    except UsageError:
        twins = []  # it is among the problems
    for place, texts in (("the option --env", given), (options.name_twin("--env"), twins)):
        pairs = [text.strip().partition("=") for text in texts]
        sources = [source for asked, _, source in pairs if asked == name]
        yield place, _name_source(sources[-1]) if sources else "", "it does not name it"
    for place, record, why in prospect.list_profiles():
        if record is None:
            yield place, "", why
        elif name in record.literals:
            yield place, "a fixed text", ""
        else:
            variable = record.variables.get(name)
            yield place, f"source {variable.source}" if variable else "", "it does not name it"
    if not prospect.server:
        yield "profiles", "", "none is of this server without --server"


def _name_source(source: str) -> str:
    # Somebody may have put a secret there.
    is_known = source in options.SOURCES or source in options.SPELLINGS
    return f"source {source}" if is_known else "a source that does not exist"


def _see_ask(prospect: Prospect, name: str, place: str, asked: str) -> Step:
    if name in prospect.failed:
        return Step(place, None, prospect.failed[name].problem)
    if name in prospect.wanted.literals:
        return Step(place, prospect.decided.environ[name], asked, is_right=True)
    variable: Variable | None = prospect.wanted.env.get(name)
    if variable is None:
        return Step(place, None, f"{asked}, but the launch would stop before")
    value = plan.resolve(
        variable,
        prospect.decided,
        prospect.wanted,
        prospect.found,
        prospect.situation.environ,
        prospect.dotenv,
    )
    if isinstance(value, Found):
        return Step(place, value.value, f"{asked}: {value.origin}", is_right=True)
    return Step(place, None, f"{asked}, not required: {'; '.join(value.searched)}")


def _see_default(prospect: Prospect, name: str) -> Step:
    place = "what mcp-launch sets for every server"
    found = prospect.found
    fact = plan.list_defaults(found).get(name)
    if fact is None:
        # What a host's servers would get, if session and thread were known.
        would = found.facts.default_variables(Found("", "session"), Found("", "thread"))
        if name not in would:
            return Step(place, None, "it is none of these")
        fact = getattr(found, would[name].origin)
    if isinstance(fact, Found):
        return _take(place, fact)
    return Step(place, None, "; ".join(fact.searched))


def _see_dotenv(prospect: Prospect, name: str) -> Step:
    place = "dotenv files, as a whole"
    dotenv = prospect.dotenv
    if not prospect.asked.dotenv:
        return Step(place, None, "none is named (--dotenv FILE)")
    if not prospect.wanted.dotenv:
        return Step(place, None, "they cannot be read")
    text = dotenv.values.get(name)
    if text is None:
        return Step(place, None, f"it is not in {dotenv.searched}")
    if any(variable.source == "dotenv" for variable in prospect.wanted.env.values()):
        why = f"of {dotenv.searched} only what is asked for by name is taken"
        return Step(place, text, why)
    return _take(place, Found(text, dotenv.searched))


def _list_inherited(prospect: Prospect, name: str) -> Iterator[Step]:
    situation = prospect.situation
    blocked = prospect.tell_why_removed(name)
    text = situation.environ.get(name)
    where = "the launcher's environment"
    if situation.item is not None:
        where = f"{situation.item.host.title}'s environment"
        own = text if name in situation.item.variables else None
        why = blocked or "handed on as it is" if own is not None else "it does not name it"
        yield Step("the entry's env", own, why, is_right=own is not None and not blocked)
        if source := _find_refused(situation.item, name):
            named = f"source {source}" if masking.is_common(source) else "a source"
            why = f"{named}: Codex refuses it, and everything else in that file"
            yield Step("the entry's env_vars", None, why)
        text = None if own is not None else text
    if text is None:
        yield Step(where, None, situation.withheld.get(name, "it is not set"))
    else:
        yield Step(where, text, blocked or "handed on as it is", is_right=not blocked)


def _find_refused(item: Item, name: str) -> str:
    """Return the source from which an entry wants a variable, if Codex does not know it."""
    wanted = item.entry.get("env_vars") if _has_env_vars(item) else None
    asked = [one for one in wanted if isinstance(one, dict)] if isinstance(wanted, list) else []
    sources = [str(one.get("source", "local")) for one in asked if one.get("name") == name]
    return next((source for source in sources if source not in SOURCES_OF_CODEX), "")


def _has_env_vars(item: Item) -> bool:
    return item.host.quirks.environment.has_env_vars


def _find_fix(prospect: Prospect, name: str) -> str:
    failed: LaunchError | None = prospect.failed.get(name)
    if failed:
        return failed.fix
    if untrusted := prospect.find_untrusted(name):
        return untrusted.fix
    situation = prospect.situation
    if situation.item is not None and _find_refused(situation.item, name):
        return f"let mcp-launch give it: {tell_how(situation.item)}"
    if name in prospect.decided.kept_back:
        return f"ask for it by name: --env {name}=local"
    if name in situation.withheld and situation.item is not None:
        where = f'env_vars = ["{name}"]' if _has_env_vars(situation.item) else "its env"
        return f"name it in the entry of {situation.item.name}: {where}"
    known = {*prospect.decided.environ, *situation.environ, *situation.withheld}
    known |= {*prospect.dotenv.values, *plan.list_defaults(prospect.found)}
    known |= {other for names in hosts.IDENTITY_VARIABLES.values() for other in names}
    return (
        f"{suggest(name, sorted(known - {name}))}give it with --env {name}=SOURCE "
        f"({', '.join(options.SOURCES)}), or in the `env` of the host's entry"
    )
