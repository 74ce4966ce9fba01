"""`mcp-launch doctor`: check, show, fix, check again."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from mcp_launch.commands import output
from mcp_launch.commands.app import Hosts, Json, Verbose, Yes, app
from mcp_launch.commands.output import print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import LaunchError, UsageError, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcp_launch.doctor.check import Finding, Repair
    from mcp_launch.doctor.report import Report
    from mcp_launch.doctor.wrapped import Wrapping
    from mcp_launch.machine.survey import Survey


@app.command("doctor")
def doctor(  # noqa: PLR0913  # typer wants a parameter for each option
    *,
    host: Hosts = None,
    select: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Only these codes or levels: ML201, ML2 or error."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Not these, such as ML117, ML206:docs or note."),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Also start every server.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Ask, then fix what can be fixed.")] = False,
    yes: Yes = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Check the servers of all hosts: show what is wrong and how to fix it.

    Errors come first, then warnings, then notes. To ignore findings for good, list them in
    ~/.config/mcp-launch/config.toml: [doctor] ignore = ["ML117", "ML206:docs"].

    Exit code: 0 no errors or warnings, 1 some were found, 2 a check could not run.

    \b
    Examples:
      mcp-launch doctor --host codex       only Codex
      mcp-launch doctor --select error     only errors, for a script
      mcp-launch doctor --ignore ML2       without the findings about environments
      mcp-launch doctor --fix --select ML401 --yes    end servers without a host
    """  # noqa: D301  # click looks for this character, which keeps line breaks
    from mcp_launch.doctor.filter import Filter, read_rules
    from mcp_launch.doctor.profiles import read_ignored
    from mcp_launch.doctor.registry import examine
    from mcp_launch.doctor.report import Report
    from mcp_launch.doctor.report_text import ReportText
    from mcp_launch.machine.survey import check_hosts, open_survey

    check_hosts(host or [])
    if yes and not fix:
        raise UsageError(
            "--yes without --fix does nothing", fix="use --fix --yes to fix what can be fixed"
        )
    wanted = Filter(
        read_rules(tuple(select or ()), "--select"), read_rules(tuple(ignore or ()), "--ignore")
    )
    console = Screen()

    def check() -> Report:
        """Run all checks and show the findings."""
        survey = open_survey(os.environ, only=host or [], needs_project=True)
        found = _examine_live(survey) if live else examine(survey)
        ignored = tuple(dict.fromkeys((*wanted.ignore, *read_ignored(survey))))
        report = Report(survey, found, wanted._replace(ignore=ignored))
        if not as_json:
            ReportText(report, console, is_verbose=verbose).show()
        return report

    report = check()
    if fix and _fix(report, is_sure=yes, is_json=as_json):
        report = check()  # did it help?
    if as_json:
        print_json(report.describe())
    return report.exit_code


def _examine_live(survey: Survey) -> list[Finding]:
    """Return the findings with all servers started, and show the progress."""
    from mcp_launch.doctor.registry import examine

    console = Screen(is_stderr=True)
    with console.status("starting servers"):
        return examine(
            survey,
            # On a terminal, long lines wrap between words.
            lambda line: console.print(Text(line, "dim"), soft_wrap=not console.is_terminal),
        )


def _fix(report: Report, *, is_sure: bool, is_json: bool) -> bool:
    """Ask, then apply the safe fixes; return whether any was applied."""
    from mcp_launch.config_files import backups
    from mcp_launch.doctor.wrapped import Wrapping

    repairs = {one.repair.what: one.repair for one in report.findings if one.repair}
    console = Screen(is_stderr=is_json)  # then stdout is for JSON

    def say(text: str) -> None:
        console.print(Text(report.clean(text)))

    if not repairs:
        say("There is nothing that mcp-launch can fix automatically.")
        return False
    if not is_sure:
        for line in _list_plan(list(repairs), report.findings):
            say(line)
    question = f"Apply {'this fix' if len(repairs) == 1 else f'these {len(repairs)} fixes'}?"
    if not output.is_agreed(console, question, is_sure=is_sure):
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
    from mcp_launch.doctor.wrapped import Wrapping, wrap_all

    files: dict[str, list[tuple[Repair, Wrapping]]] = {}
    for repair in repairs:
        if isinstance(repair.act, Wrapping):
            path = repair.act.item.file.path
            files.setdefault(path, []).append((repair, repair.act))
        else:
            yield [repair], repair.act
    for pairs in files.values():
        yield [repair for repair, _ in pairs], partial(wrap_all, [act for _, act in pairs])
