"""`mcp-launch doctor`: look, show, mend, look again."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.text import Text

from mcp_launch import editing
from mcp_launch.doctor.examining import examine
from mcp_launch.doctor.report import Report
from mcp_launch.doctor.survey import open_survey
from mcp_launch.errors import LaunchError, printable, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_launch.doctor.finding import Finding
    from mcp_launch.doctor.survey import Survey

# Exit codes: nothing is wrong, something is, some of it could not be looked at.
_WELL, _ILL, _BLIND = 0, 1, 2


class Request(NamedTuple):
    """What the user asked for."""

    hosts: list[str]
    is_json: bool = False
    is_live: bool = False
    is_fixing: bool = False
    is_sure: bool = False


def run(request: Request, environ: Mapping[str, str]) -> int:
    """Look at everything, show what is wrong, mend what can be; return the exit code."""
    editing.check_hosts(request.hosts)
    console = Console(highlight=False, soft_wrap=True)
    survey, findings = _look(request, environ)
    if request.is_fixing and not request.is_json:
        Report(survey, findings).show(console)
    if request.is_fixing and _mend(console, findings, request):
        survey, findings = _look(request, environ)  # did it help?
    report = Report(survey, findings)
    if request.is_json:
        sys.stdout.write(json.dumps(report.describe(), indent=2) + "\n")
    elif not request.is_fixing or request.is_sure:
        report.show(console)
    if any(finding.code == "ML001" for finding in findings):
        return _BLIND
    return _ILL if findings else _WELL


def _look(request: Request, environ: Mapping[str, str]) -> tuple[Survey, list[Finding]]:
    survey = open_survey(environ, only=request.hosts)
    if not request.is_live:
        return survey, examine(survey)
    return survey, _look_alive(survey)


def _look_alive(survey: Survey) -> list[Finding]:
    """Start the servers too, and show how far that is."""
    progress = Console(stderr=True, highlight=False, soft_wrap=True)
    with progress.status("starting servers…"):

        def show(text: str) -> None:
            progress.print(Text(printable(text), "dim"))

        return examine(survey, show)


def _mend(console: Console, findings: list[Finding], request: Request) -> bool:
    """Do what can be done safely, or only say what that is; True if anything was done."""
    repairs = {finding.repair.what: finding.repair for finding in findings if finding.repair}
    say: Callable[[str], None] = (
        (lambda text: print(text, file=sys.stderr))  # noqa: T201  # stdout is a program's
        if request.is_json
        else (lambda text: console.print(Text(printable(text))))
    )
    if not repairs:
        say("There is nothing that mcp-launch can mend by itself.")
        return False
    for what, repair in repairs.items():
        if not request.is_sure:
            say(f"would {what}")
            continue
        try:
            repair.act()
            say(f"done: {what}")
        except LaunchError as error:
            tell(error, sys.stderr)
    if not request.is_sure:
        say("Nothing was changed: add --yes to do it.")
    return request.is_sure
