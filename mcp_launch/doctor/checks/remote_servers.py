"""Servers behind a URL: what their entries need from the host's environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import REMOTE
from mcp_launch.doctor.finding import Finding
from mcp_launch.machine import host_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check_variables(survey: Survey) -> Iterator[Finding]:
    """Find variables of remote servers that are not set where the host runs (ML209)."""
    for item in survey.items:
        if item.why_not == REMOTE and item.entry.get("enabled", True):
            yield from _look(survey, item)


def _look(survey: Survey, item: Item) -> Iterator[Finding]:
    environ = host_environment.read_host(survey, item.host)
    title = item.host.title
    for key, variable in item.host.quirks.environment.list_of_remote(item.entry):
        if environ.get(variable):
            continue
        needs = f"'{item.name}' needs it ({'.'.join(key)})"
        if survey.environ.get(variable):
            message = f"the running {title} was started without {variable}, but {needs}"
            fix = f"restart {title} from where {variable} is set"
        else:
            message = f"{variable} is not set where {title} runs, but {needs}"
            fix = f"set {variable} before you start {item.host.quirks.program.command}"
        yield Finding("ML209", item.point(*key), message, fix)


OF_ALL = (check_variables,)
