"""Collect every secret the doctor could print: of the user, hosts, entries and profiles."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch import masking
from mcp_launch.machine import host_environment
from mcp_launch.machine.preview import predict
from mcp_launch.values import expand_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.preview import Preview
    from mcp_launch.machine.survey import Item, Survey


def make_scrubber(survey: Survey) -> masking.Scrubber:
    """Return a scrubber that masks all of these secrets in output."""
    return masking.Scrubber(_list_all(survey))


def _list_all(survey: Survey) -> Iterator[str]:
    for environ in (os.environ, survey.environ):
        yield from masking.list_in_variables(environ)
    for host in survey.hosts:
        yield from masking.list_in_variables(host_environment.read_host(survey, host))
    for item in survey.items:
        yield from masking.list_in_value(item.entry)
        try:
            yield from _list_of_launch(survey, item)
        except Exception:  # noqa: BLE001, S112  # the check that fails the same way reports ML001
            continue


def _list_of_launch(survey: Survey, item: Item) -> Iterator[str]:
    """Return the secrets that a server gets only after expansion, or from its profile."""
    launch = predict(survey, item)
    words = host_environment.spell_out(survey, item, item.words)
    for command in (words, launch.command):
        yield from masking.list_in_words(command)
    of_files = _read_dotenv(survey, launch)
    for environ in (launch.situation.environ, launch.server_environ, of_files):
        yield from masking.list_in_variables(environ)


def _read_dotenv(survey: Survey, launch: Preview) -> dict[str, str]:
    """Return the variables of the dotenv files in every directory where a launch may start."""
    if launch.profile is None:
        return {}
    found: dict[str, str] = {}
    for place in (survey.site.project, *launch.places):
        for file in launch.profile.dotenv or [".env"]:
            path = os.path.join(place, expand_home(file, survey.site.home))
            found |= host_environment.read_variables(path)
    return found
