"""Which value of an option of `run` is in force, and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.commands.env_explanation import (
    Explanation,
    Step,
    choose_first,
    list_given,
    list_tables,
)
from mcp_launch.errors import UsageError, suggest
from mcp_launch.launch import options
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.machine.preview import Preview

# What is in force without any setting, for options that are not a choice among some words.
_DEFAULTS = {
    "--cwd": "session",
    "--pass-env": "all",
    "--rest": "off",
    "--max-servers": options.MAX_SERVERS,
    "--call-timeout": "off",
    "--max-concurrent": "any",
}

EXPLAINED = (*options.CHOICES, *_DEFAULTS, *options.SWITCHES)


def check(name: str) -> bool:
    """Return whether a name is that of an option, and not of a variable.

    Raises:
        UsageError: There is no such option, or it has no single value.

    """
    if not name.startswith("-"):
        return False
    if name in EXPLAINED:
        return True
    is_known = name in options.TAKE_A_VALUE
    raise UsageError(
        f"{name} has no single value" if is_known else f"run has no option {name}",
        fix=f"{suggest(name, EXPLAINED)}the options that can be explained are "
        f"{', '.join(EXPLAINED)}; for a variable, write its name alone",
    )


def find(preview: Preview, option: str) -> Found:
    """Return the value that is in force, with its origin."""
    found = explain(preview, option)
    step = found.steps[found.used or 0]
    return Found(step.value or "", step.place)


def explain(preview: Preview, option: str) -> Explanation:
    """Return where an option can be set, in the order of precedence, and what was found."""
    return choose_first(list(_list_steps(preview, option)))


def _list_steps(preview: Preview, option: str) -> Iterator[Step]:
    for place, given in list_given(preview, option):
        yield _see(place, option, given, "it is not set")
    key = option.removeprefix("--").replace("-", "_")
    for place, table, why in list_tables(preview):
        layer = table.options if table else {}
        yield _see(place, option, layer, f"{key} is not mentioned there" if table else why)
    yield Step("the default", _find_default(option), "nothing else is set", is_right=True)


def _see(place: str, option: str, layer: Mapping[str, list[str] | None], why_not: str) -> Step:
    if option not in layer:
        return Step(place, None, why_not)
    texts = layer[option]
    if option in options.SWITCHES:
        value = "off" if texts is None else "on"
    else:
        value = (texts or [""])[-1]
    return Step(place, value, "in force", is_right=True)


def _find_default(option: str) -> str:
    if option in options.SWITCHES:
        return "off"
    return _DEFAULTS.get(option) or options.CHOICES[option][0] or "depends on the host"
