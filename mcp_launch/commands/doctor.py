"""`mcp-launch doctor`: check, show, fix, check again."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch.commands.json_output import print_json
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

# Exit codes: no problems, problems found, a check could not run.
_HEALTHY, _PROBLEMS, _INCOMPLETE = 0, 1, 2

# Findings that are information, not problems.
_HARMLESS = {"ML017", "ML123", "ML409"}


class DoctorRequest(NamedTuple):
    """What the user asked for."""

    hosts: list[str]
    is_json: bool = False
    is_live: bool = False
    is_fixing: bool = False
    is_sure: bool = False


def run(request: DoctorRequest, environ: Mapping[str, str]) -> int:
    """Run all checks, show the findings, fix what can be fixed; return the exit code."""
    check_hosts(request.hosts)
    if request.is_sure and not request.is_fixing:
        raise UsageError(
            "--yes without --fix does nothing", fix="use --fix --yes to fix what can be fixed"
        )
    console: Console = Screen()
    survey, findings = _examine(request, environ)
    report = Report(survey, findings)
    if not request.is_json:
        report.show(console)
    if request.is_fixing and _fix(console, report, findings, request):
        survey, findings = _examine(request, environ)  # did it help?
        report = Report(survey, findings)
        if not request.is_json:
            report.show(console)
    if request.is_json:
        print_json(report.describe())
    if any(finding.code == "ML001" for finding in findings):
        return _INCOMPLETE
    return _PROBLEMS if any(finding.code not in _HARMLESS for finding in findings) else _HEALTHY


def _examine(request: DoctorRequest, environ: Mapping[str, str]) -> tuple[Survey, list[Finding]]:
    survey = open_survey(environ, only=request.hosts, needs_project=True)
    if not request.is_live:
        return survey, examine(survey)
    return survey, _examine_live(survey)


def _examine_live(survey: Survey) -> list[Finding]:
    """Return the findings with all servers started, and show the progress."""
    progress = Screen(is_stderr=True)
    with progress.status("starting servers…"):

        def show(text: str) -> None:
            progress.print(Text(printable(text), "dim"))

        return examine(survey, show)


def _fix(console: Console, report: Report, findings: list[Finding], request: DoctorRequest) -> bool:
    """Apply the safe fixes, or only list them; return whether any was applied."""
    repairs = {finding.repair.what: finding.repair for finding in findings if finding.repair}
    if request.is_json:
        console = Screen(is_stderr=True)  # stdout is for JSON

    def say(text: str) -> None:
        console.print(Text(report.clean(text)))

    if not repairs:
        say("There is nothing that mcp-launch can fix automatically.")
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
                say(f"  a copy of the original file is in {backups.find_directory(state)}")
        except LaunchError as error:
            tell(error, sys.stderr)
    return True


def _list_plan(acts: list[str], findings: list[Finding]) -> Iterator[str]:
    yield from (f"would {what}" for what in acts)
    if left := sum(not finding.repair for finding in findings):
        need = "1 finding needs" if left == 1 else f"{left} findings need"
        yield f"{need} you: follow the fix shown above."
    yield "Nothing was changed: add --yes to apply these fixes."


def _join(repairs: Iterable[Repair]) -> Iterator[tuple[list[Repair], Callable[[], None]]]:
    """Return the repairs grouped by act: a file is written once for all its entries."""
    files: dict[str, list[tuple[Repair, Wrapping]]] = {}
    for repair in repairs:
        if isinstance(repair.act, Wrapping):
            path = repair.act.item.file.path
            files.setdefault(path, []).append((repair, repair.act))
        else:
            yield [repair], repair.act
    for pairs in files.values():
        yield [repair for repair, _ in pairs], partial(wrap_all, [act for _, act in pairs])
