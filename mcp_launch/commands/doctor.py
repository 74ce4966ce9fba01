"""`mcp-launch doctor`: check, show, fix, check again."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch.commands.output import print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import backups
from mcp_launch.doctor import ignore_list
from mcp_launch.doctor.checks.not_wrapped import Wrapping, wrap_all
from mcp_launch.doctor.filter import Filter, read_level, read_rules
from mcp_launch.doctor.progress import Progress
from mcp_launch.doctor.registry import examine
from mcp_launch.doctor.report import Report
from mcp_launch.doctor.report_text import ReportText
from mcp_launch.errors import LaunchError, UsageError, printable, tell
from mcp_launch.machine.survey import check_hosts, open_survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcp_launch.doctor.finding import Finding, Repair
    from mcp_launch.machine.survey import Survey

# The exit code when there are errors or warnings, which `--exit-zero` replaces.
_PROBLEMS = 1


class DoctorRequest(NamedTuple):
    """What the user asked for."""

    hosts: list[str]
    is_json: bool = False
    is_live: bool = False
    is_fixing: bool = False
    is_sure: bool = False
    is_verbose: bool = False
    level: str = "note"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exits_zero: bool = False


def run(request: DoctorRequest, environ: Mapping[str, str]) -> int:
    """Run all checks, show the findings, fix what can be fixed; return the exit code."""
    check_hosts(request.hosts)
    if request.is_sure and not request.is_fixing:
        raise UsageError(
            "--yes without --fix does nothing", fix="use --fix --yes to fix what can be fixed"
        )
    wanted = Filter(
        read_level(request.level),
        read_rules(request.select, "--select"),
        read_rules(request.ignore, "--ignore"),
    )
    report = _examine(request, wanted, environ)
    console = Screen()
    _show(console, report, request)
    if request.is_fixing and _fix(console, report, request):
        report = _examine(request, wanted, environ)  # did it help?
        _show(console, report, request)
    if request.is_json:
        print_json(report.describe())
    is_excused = request.exits_zero and report.exit_code == _PROBLEMS
    return 0 if is_excused else report.exit_code


def _examine(request: DoctorRequest, wanted: Filter, environ: Mapping[str, str]) -> Report:
    survey = open_survey(environ, only=request.hosts, needs_project=True)
    found = _examine_live(survey) if request.is_live else examine(survey)
    ignore = tuple(dict.fromkeys((*wanted.ignore, *ignore_list.read(survey))))
    return Report(survey, found, wanted._replace(ignore=ignore))


def _examine_live(survey: Survey) -> list[Finding]:
    """Return the findings with all servers started, and show the progress."""
    console = Screen(is_stderr=True)
    with console.status("starting servers") as status:

        def show(text: str) -> None:
            # On a terminal, long lines wrap between words.
            console.print(Text(printable(text), "dim"), soft_wrap=not console.is_terminal)

        def update(text: str) -> None:
            status.update(Text(printable(text)))

        return examine(survey, Progress(show, update))


def _show(console: Screen, report: Report, request: DoctorRequest) -> None:
    if not request.is_json:
        ReportText(report, console, is_verbose=request.is_verbose).show()


def _fix(console: Screen, report: Report, request: DoctorRequest) -> bool:
    """Apply the safe fixes, or only list them; return whether any was applied."""
    repairs = {one.repair.what: one.repair for one in report.findings if one.repair}
    if request.is_json:
        console = Screen(is_stderr=True)  # stdout is for JSON

    def say(text: str) -> None:
        console.print(Text(report.clean(text)))

    if not repairs:
        say("There is nothing that mcp-launch can fix automatically.")
        return False
    if not request.is_sure:
        for line in _list_plan(list(repairs), report.findings):
            say(line)
        return False
    for joined, act in _join(repairs.values()):
        try:
            act()
            for repair in joined:
                say(f"done: {repair.what}")
            if isinstance(joined[0].act, Wrapping):
                directory = backups.find_directory(report.survey.state)
                say(f"  a copy of the original file is in {directory}")
        except LaunchError as error:
            tell(error, sys.stderr)
    return True


def _list_plan(acts: list[str], findings: list[Finding]) -> Iterator[str]:
    yield from (f"would {what}" for what in acts)
    if left := _count_left(findings):
        need = "1 finding needs" if left == 1 else f"{left} findings need"
        yield f"{need} you: follow the fix shown above."
    yield "Nothing was changed: add --yes to apply these fixes."


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
