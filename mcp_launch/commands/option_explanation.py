"""Which value of an option of `run` is in force, and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.commands.env_explanation import Explanation, Step, list_profiles
from mcp_launch.errors import UsageError
from mcp_launch.launch import options
from mcp_launch.machine.preview_inputs import split
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.preview import Preview

# What is in force without any setting, for options that are not a choice among some words.
_DEFAULTS = {"--cwd": "session", "--pass-env": "all", "--rest": "off"}


def is_explained(name: str) -> bool:
    """Return whether a name is that of an option that can be explained here."""
    return name in options.CHOICES or name in _DEFAULTS


def find(preview: Preview, option: str) -> Found:
    """Return the value that is in force, with its origin."""
    found = explain(preview, option)
    step = found.steps[found.used or 0]
    return Found(step.value or "", step.place)


def explain(preview: Preview, option: str) -> Explanation:
    """Return where an option can be set, in the order of precedence, and what was found."""
    steps = list(_list_steps(preview, option))
    used, *others = (at for at, step in enumerate(steps) if step.is_right)
    for at in others:
        steps[at] = steps[at]._replace(why=f"{steps[used].place} takes precedence")
    return Explanation(steps, used, "")


def _list_steps(preview: Preview, option: str) -> Iterator[Step]:
    given = split(preview.situation.arguments)[0].get(option)
    yield _see(f"the option {option}", given, "it is not given")
    variable = options.name_variable(option)
    try:
        exported = options.read_variables(preview.situation.environ).get(option)
    except UsageError:
        exported = None  # it is among the problems
    yield _see(variable, exported, "it is not set")
    key = option.removeprefix("--").replace("-", "_")
    for place, record, why in list_profiles(preview):
        texts = record.options.get(option) if record else None
        yield _see(place, texts, f"{key} is not mentioned there" if record else why)
    default = _DEFAULTS.get(option) or options.CHOICES[option][0] or "depends on the host"
    yield Step("the default", default, "nothing else is set", is_right=True)


def _see(place: str, texts: list[str] | None, why_not: str) -> Step:
    if not texts:
        return Step(place, None, why_not)
    return Step(place, texts[-1], "in force", is_right=True)
