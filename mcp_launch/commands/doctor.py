"""`mcp-launch doctor`: look, show, mend, look again."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import backups
from mcp_launch.doctor.checks.not_wrapped import Wrapping, wrap_all
from mcp_launch.doctor.registry import examine
from mcp_launch.doctor.report import Report
from mcp_launch.errors import LaunchError, UsageError, printable, tell
from mcp_launch.machine.survey import check_hosts, open_survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rich.console import Console

    from mcp_launch.doctor.finding import Finding, Repair
    from mcp_launch.machine.survey import Survey

# Exit codes: nothing is wrong, something is, it could not look.
_WELL, _ILL, _BLIND = 0, 1, 2

# What is good to know, and as it should be.
_HARMLESS = {"ML017"}


class DoctorRequest(NamedTuple):
    """What the user asked for."""

    hosts: list[str]
    is_json: bool = False
    is_live: bool = False
    is_fixing: bool = False
    is_sure: bool = False


def run(request: DoctorRequest, environ: Mapping[str, str]) -> int:
    """Look at everything, show what is wrong, mend what can be; return the exit code."""
    check_hosts(request.hosts)
    if request.is_sure and not request.is_fixing:
        raise UsageError(
            "--yes alone does nothing", fix="write --fix --yes to fix what can be fixed"
        )
    console: Console = Screen()
    survey, findings = _look(request, environ)
    report = Report(survey, findings)
    if not request.is_json:
        report.show(console)
    if request.is_fixing and _mend(console, report, findings, request):
        survey, findings = _look(request, environ)  # did it help?
        report = Report(survey, findings)
        if not request.is_json:
            report.show(console)
    if request.is_json:
        sys.stdout.write(json.dumps(report.describe(), indent=2) + "\n")
    if any(finding.code == "ML001" for finding in findings):
        return _BLIND
    return _ILL if any(finding.code not in _HARMLESS for finding in findings) else _WELL


def _look(request: DoctorRequest, environ: Mapping[str, str]) -> tuple[Survey, list[Finding]]:
    survey = open_survey(environ, only=request.hosts, needs_project=True)
    if not request.is_live:
        return survey, examine(survey)
    return survey, _look_alive(survey)


def _look_alive(survey: Survey) -> list[Finding]:
    """Start the servers too, and show how far that is."""
    progress = Screen(is_stderr=True)
    with progress.status("starting servers…"):

        def show(text: str) -> None:
            progress.print(Text(printable(text), "dim"))

        return examine(survey, show)


def _mend(
    console: Console, report: Report, findings: list[Finding], request: DoctorRequest
) -> bool:
    """Do what can be done safely, or only say what that is; True if anything was done."""
    repairs = {finding.repair.what: finding.repair for finding in findings if finding.repair}
    if request.is_json:
        console = Screen(is_stderr=True)  # stdout is a program's

    def say(text: str) -> None:
        console.print(Text(report.clean(text)))

    if not repairs:
        say("There is nothing that mcp-launch can fix by itself.")
        return False
    if not request.is_sure:
        for line in _list_plan(list(repairs), findings):
            say(line)
        return False
    state = report.state
    for joined, act in _join(repairs.values()):
        try:
            act()
            for repair in joined:
                say(f"done: {repair.what}")
            if isinstance(joined[0].act, Wrapping):
                say(f"  a copy of the file as it was is in {backups.find_directory(state)}")
        except LaunchError as error:
            tell(error, sys.stderr)
    return True


def _list_plan(acts: list[str], findings: list[Finding]) -> Iterator[str]:
    yield from (f"would {what}" for what in acts)
    if left := sum(not finding.repair for finding in findings):
        are = "1 finding is" if left == 1 else f"{left} findings are"
        yield f"{are} left to you: the fix that is shown with each says what to do."
    yield "Nothing was changed: add --yes to do it."


def _join(repairs: Iterable[Repair]) -> Iterator[tuple[list[Repair], Callable[[], None]]]:
    """Return what is done in one go: a file is written once for all the entries in it."""
    files: dict[str, list[tuple[Repair, Wrapping]]] = {}
    for repair in repairs:
        if isinstance(repair.act, Wrapping):
            path = repair.act.item.file.path
            files.setdefault(path, []).append((repair, repair.act))
        else:
            yield [repair], repair.act
    for pairs in files.values():
        yield [repair for repair, _ in pairs], partial(wrap_all, [act for _, act in pairs])
