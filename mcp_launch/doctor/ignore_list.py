"""The user's list of findings to ignore: `[doctor] ignore = ["ML117", "ML206:docs"]`.

Launches skip the table, so a mistake in it stops no server, and is reported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.doctor.filter import CodeRule, read_rule
from mcp_launch.doctor.finding import Finding
from mcp_launch.documents import toml
from mcp_launch.documents.positions import Unreadable, locate_path
from mcp_launch.errors import ProfileRefused, UsageError, suggest
from mcp_launch.launch import profile_file, profile_tables
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.documents.positions import Path
    from mcp_launch.machine.survey import Survey

_TABLE = profile_file.OF_DOCTOR
_KEY = "ignore"
_EXAMPLE = '["ML117", "ML206:docs"]'


def read(survey: Survey) -> tuple[CodeRule, ...]:
    """Return the rules of the user's list; what is invalid in it is left out (see `check`)."""
    return tuple(rule for rule in _walk(survey) if isinstance(rule, CodeRule))


def check(survey: Survey) -> Iterator[Finding]:
    """Find mistakes in the user's list (ML015)."""
    for finding in _walk(survey):
        if isinstance(finding, Finding):
            yield finding


def _walk(survey: Survey) -> Iterator[CodeRule | Finding]:
    path = profile_tables.locate(survey.environ)
    try:
        text = (profile_tables.read_text(path) or b"").decode()
        document, spots = toml.read(text)
    except (ValueError, ProfileRefused, Unreadable):
        return  # it cannot be used, which ML013 reports
    places = {spot.path: spot for spot in spots}

    def refuse(where: Path, problem: str, fix: str) -> Finding:
        line, column = locate_path(text, places, where)
        return Finding("ML015", Subject(file=path, line=line, column=column), problem, fix)

    table = document.get(_TABLE, {})
    if not isinstance(table, dict):
        yield refuse((_TABLE,), f"`{_TABLE}` must be a table", f"write [{_TABLE}]")
        return
    for key in table:
        if key != _KEY:
            fix = f"{suggest(key, [_KEY])}the only key is {_KEY}"
            yield refuse((_TABLE, key), f"unknown key {key} in [{_TABLE}]", fix)
    listed = table.get(_KEY, [])
    if not isinstance(listed, list):
        fix = f"write {_KEY} = {_EXAMPLE}"
        yield refuse((_TABLE, _KEY), f"{_KEY} must be a list of codes", fix)
        return
    for at, word in enumerate(listed):
        try:
            yield read_rule(word if isinstance(word, str) else str(word), _KEY)
        except UsageError as error:
            yield refuse((_TABLE, _KEY, at), error.problem, error.fix)


OF_ALL = (check,)
