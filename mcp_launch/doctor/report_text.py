"""The doctor's report for a person: the worst first, whatever the host, and a summary last."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mcp_launch.doctor.check import LEVELS
from mcp_launch.doctor.source_line import SourceLines
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import units
from mcp_launch.values import shorten_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from mcp_launch.doctor.check import Finding
    from mcp_launch.doctor.report import Report

# The findings that are shown as one line: there may be dozens, and they are no defects.
_UNWRAPPED = "ML117"

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}

# How much of a line of a file is shown where there is no terminal.
_WIDTH_OF_A_LINE = 100


class ReportText:
    """Shows one report on one console."""

    def __init__(self, report: Report, console: Console, *, is_verbose: bool = False) -> None:
        self._report = report
        self._console = console
        self._is_verbose = is_verbose
        self._clean = report.clean
        self._lines = SourceLines(report.survey, report.clean)
        self._shown = [one for one in report.findings if one.code != _UNWRAPPED]
        self._unwrapped = [one for one in report.findings if one.code == _UNWRAPPED]

    def show(self) -> None:
        """Show the hosts, the findings and the summary."""
        self._show_hosts()
        ranked = sorted(self._shown, key=lambda one: LEVELS.index(one.level))
        for heading, alike in groupby(ranked, self._make_heading):
            self._console.print()
            self._print(0, heading)
            for finding in alike:
                self._show_finding(finding)
        self._show_unwrapped()
        self._console.print()
        self._print(0, self._sum_up())

    def _show_hosts(self) -> None:
        empty = []
        for host in self._report.describe_hosts():
            if host["servers"] or host["remote"] or host["disabled"]:
                self._print(0, self._introduce(host))
            else:
                empty.append(host["title"])
        if empty:
            self._print(0, Text(f"Without servers: {', '.join(empty)}", "dim"))
        if not self._report.survey.items and not empty:
            titles = ", ".join(host.title for host in self._report.survey.hosts)
            self._print(0, Text(f"No servers were found in the files of {titles}.", "dim"))

    def _introduce(self, host: dict[str, Any]) -> Text:
        facts = [units.count(host["servers"], "server")]
        for kind in ("remote", "disabled"):
            names = host[kind]
            facts += [f"{len(names)} {kind} ({', '.join(names)})"] if names else []
        line = Text(self._clean(host["title"]), "bold")
        return line.append(self._clean(f": {', '.join(facts)}"), "not bold")

    def _make_heading(self, finding: Finding) -> Text:
        """Return what a finding is about: the host, the server, the place."""
        subject = finding.subject
        title = HOSTS[subject.host].title if subject.host in HOSTS else subject.host
        names = ": ".join(filter(None, (title, subject.server))) or "This machine"
        heading = Text(self._clean(names), "bold")
        place = self._clean(self._tell_place(finding))
        return heading.append(f"  {place}", "not bold dim") if place else heading

    def _tell_place(self, finding: Finding) -> str:
        subject = finding.subject
        at = f":{subject.line}:{subject.column}" if subject.line else ""
        home = self._report.survey.site.home.rstrip("/")
        # Only here: in a file or a command, ~ may not be expanded.
        file = subject.file
        file = shorten_home(file, home)
        process = f"process {subject.pid}" if subject.pid else ""
        scope = f"({subject.scope})" if subject.scope else ""
        return " ".join(filter(None, (f"{file}{at}" if file else "", process, scope)))

    def _show_finding(self, finding: Finding) -> None:
        text = Text(f"{finding.code} {finding.level}", STYLES[finding.level])
        text.append(f": {self._clean(finding.message)}", "default not bold")
        self._print(2, text)
        for line in finding.details:
            self._print(4, Text(f"| {self._clean(line)}", "dim"))
        if self._is_verbose or self._console.is_terminal:
            self._show_line(finding)
        self._print(4, Text("fix: ", "green").append(self._clean(finding.fix), "default"))

    def _show_line(self, finding: Finding) -> None:
        number = str(finding.subject.line)
        width = self._console.width if self._console.is_terminal else _WIDTH_OF_A_LINE
        excerpt = self._lines.cut_out(finding.subject, max(20, width - len(number) - 8))
        if excerpt is not None:
            gutter = " " * len(number)
            self._print(4, Text(f"{number} | {excerpt.text}", "dim"))
            self._print(4, Text(f"{gutter} | {' ' * excerpt.caret}^", "dim"))

    def _show_unwrapped(self) -> None:
        """Show one line about all entries that are not wrapped."""
        if not self._unwrapped:
            return
        self._console.print()
        text = Text(f"{_UNWRAPPED} note", STYLES["note"])
        self._print(0, text.append(f": {self._tell_unwrapped()}", "default not bold"))
        if self._is_verbose:
            for title, alike in _group_by_host(self._unwrapped):
                names = ", ".join(dict.fromkeys(one.subject.server for one in alike))
                self._print(2, Text(self._clean(f"{title}: {names}"), "dim"))

    def _tell_unwrapped(self) -> str:
        count = len(self._unwrapped)
        hosts = ", ".join(
            f"{title} {len(list(alike))}" for title, alike in _group_by_host(self._unwrapped)
        )
        beginning = f"{units.count(count, 'server')} {'is' if count == 1 else 'are'} not wrapped"
        only = "".join(f" --host {host.name}" for host in self._list_narrowed())
        ways = []
        for reach, where, how in (
            ("own", "", f"mcp-launch wrap{only}"),
            ("file", " outside this project or tracked by Git", "mcp-launch wrap --file FILE"),
        ):
            these = sum(one.reach == reach for one in self._unwrapped)
            if these:
                which = f"{these}{where}: " if where else ""
                ways.append(f"{which}{how}")
        return f"{beginning} ({hosts}): {'; '.join(ways)}"

    def _list_narrowed(self) -> list[Any]:
        survey = self._report.survey
        return survey.hosts if survey.is_narrowed else []

    def _sum_up(self) -> Text:
        """Return how many findings are shown, the worst codes, and what to do next."""
        servers = self._report.survey.servers
        seen = f"{units.count(len(servers), 'server')} of " + units.count(
            len({item.host.name for item in servers}), "host"
        )
        counts = list(self._list_counts())
        ignored = self._report.ignored
        rest = [f"{len(ignored)} ignored ({_list_codes(ignored)})"] if ignored else []
        if not counts:
            text = "; ".join([f"{self._tell_nothing()} with {seen}", *rest])
            return Text(f"{text}.", "bold green")
        repairs = [one for one in self._report.findings if one.repair]
        rest += [f"mcp-launch doctor --fix has fixes for {_list_codes(repairs)}"] if repairs else []
        return Text("; ".join([f"{', '.join(counts)} in {seen}", *rest]), "bold")

    def _list_counts(self) -> Iterator[str]:
        """Return the number of findings of each level; the worst with their codes."""
        shown = [*self._shown, *self._unwrapped[:1]]
        is_worst = True
        for level in LEVELS:
            alike = [one for one in shown if one.level == level]
            if alike:
                yield units.count(len(alike), level) + (
                    f" ({_list_codes(alike)})" if is_worst and level != "note" else ""
                )
                is_worst = False

    def _tell_nothing(self) -> str:
        wanted = self._report.filter.select
        if wanted:
            return f"Nothing found for {', '.join(map(str, wanted))}"
        return "No problems found"

    def _print(self, indent: int, text: Text) -> None:
        """Print an indented line; on a terminal, wrap it between words."""
        lines = [text]
        if self._console.is_terminal:
            lines = list(text.wrap(self._console, max(20, self._console.width - indent)))
        for line in lines:
            line.rstrip()
            self._console.print(Text(" " * indent).append_text(line), soft_wrap=True)


def _group_by_host(findings: Iterable[Finding]) -> Iterator[tuple[str, Iterator[Finding]]]:
    for host, alike in groupby(findings, lambda one: one.subject.host):
        yield HOSTS[host].title if host in HOSTS else host, alike


def _list_codes(findings: Iterable[Finding]) -> str:
    return ", ".join(sorted({finding.code for finding in findings}))
