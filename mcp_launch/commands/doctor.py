"""`mcp-launch doctor`: check, show, fix, check again."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch.commands import output
from mcp_launch.commands.output import print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import backups
from mcp_launch.doctor.filter import Filter, read_rules
from mcp_launch.doctor.profiles import read_ignored
from mcp_launch.doctor.registry import examine
from mcp_launch.doctor.report import Report
from mcp_launch.doctor.report_text import ReportText
from mcp_launch.doctor.wrapped import Wrapping, wrap_all
from mcp_launch.errors import LaunchError, UsageError, tell
from mcp_launch.machine.survey import check_hosts, open_survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcp_launch.doctor.check import Finding, Repair
    from mcp_launch.machine.survey import Survey


class DoctorRequest(NamedTuple):
    """What the user asked for."""

    hosts: list[str]
    is_json: bool = False
    is_live: bool = False
    is_fixing: bool = False
    is_sure: bool = False
    is_verbose: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def run(request: DoctorRequest, environ: Mapping[str, str]) -> int:
    """Run all checks, show the findings, fix what can be fixed; return the exit code."""
    check_hosts(request.hosts)
    if request.is_sure and not request.is_fixing:
        raise UsageError(
            "--yes without --fix does nothing", fix="use --fix --yes to fix what can be fixed"
        )
    wanted = Filter(read_rules(request.select, "--select"), read_rules(request.ignore, "--ignore"))
    report = _examine(request, wanted, environ)
    console = Screen()
    _show(console, report, request)
    if request.is_fixing and _fix(report, request):
        report = _examine(request, wanted, environ)  # did it help?
        _show(console, report, request)
    if request.is_json:
        print_json(report.describe())
    return report.exit_code


def _examine(request: DoctorRequest, wanted: Filter, environ: Mapping[str, str]) -> Report:
    survey = open_survey(environ, only=request.hosts, needs_project=True)
    found = _examine_live(survey) if request.is_live else examine(survey)
    ignore = tuple(dict.fromkeys((*wanted.ignore, *read_ignored(survey))))
    return Report(survey, found, wanted._replace(ignore=ignore))


def _examine_live(survey: Survey) -> list[Finding]:
    """Return the findings with all servers started, and show the progress."""
    console = Screen(is_stderr=True)
    with console.status("starting servers"):
        return examine(
            survey,
            # On a terminal, long lines wrap between words.
            lambda line: console.print(Text(line, "dim"), soft_wrap=not console.is_terminal),
        )


def _show(console: Screen, report: Report, request: DoctorRequest) -> None:
    if not request.is_json:
        ReportText(report, console, is_verbose=request.is_verbose).show()


def _fix(report: Report, request: DoctorRequest) -> bool:
    """Ask, then apply the safe fixes; return whether any was applied."""
    repairs = {one.repair.what: one.repair for one in report.findings if one.repair}
    console = Screen(is_stderr=request.is_json)  # then stdout is for JSON

    def say(text: str) -> None:
        console.print(Text(report.clean(text)))

    if not repairs:
        say("There is nothing that mcp-launch can fix automatically.")
        return False
    if not request.is_sure:
        for line in _list_plan(list(repairs), report.findings):
            say(line)
    question = f"Apply {'this fix' if len(repairs) == 1 else f'these {len(repairs)} fixes'}?"
    if not output.is_agreed(console, question, is_sure=request.is_sure):
        say("Nothing was changed.")
        return False
    copies = backups.find_directory(report.survey.state)
    for joined, act in _join(repairs.values()):
        try:
            act()
        except LaunchError as error:
            tell(error, sys.stderr)
            continue
        for repair in joined:
            say(f"done: {repair.what}")
        if isinstance(joined[0].act, Wrapping):
            say(f"  a copy of the original file is in {copies}")
    return True


def _list_plan(acts: list[str], findings: list[Finding]) -> Iterator[str]:
    yield from (f"would {what}" for what in acts)
    if left := _count_left(findings):
        need = "1 finding needs" if left == 1 else f"{left} findings need"
        yield f"{need} you: follow the fix shown above."


def _count_left(findings: list[Finding]) -> int:
    """Return how many findings are left to the user; an entry that cannot start counts once."""
    left = [finding for finding in findings if not finding.repair]
    broken = {finding.subject[:4] for finding in left if finding.reach is None}
    return sum(one.reach is None or one.subject[:4] not in broken for one in left)


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
