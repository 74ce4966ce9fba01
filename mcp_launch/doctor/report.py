"""The doctor's report, for people and for programs, without secrets."""

from __future__ import annotations

import shlex
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from mcp_launch import __version__
from mcp_launch.doctor.checks import processes
from mcp_launch.doctor.finding import LEVELS, Finding
from mcp_launch.errors import printable
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import installed_hosts, known_secrets
from mcp_launch.machine.subject import Subject
from mcp_launch.machine.wrap_hint import FOR_EVERYONE, SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from mcp_launch.doctor.checks.processes import Share
    from mcp_launch.machine.survey import Survey
    from mcp_launch.machine.wrap_hint import Reach

# The version of the JSON format.
VERSION = 1

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


class Report:
    """The findings of one run, to be shown or printed as JSON."""

    def __init__(self, survey: Survey, findings: list[Finding]) -> None:
        self._survey = survey
        self.state = survey.state
        self._findings = findings
        self._scrubber = known_secrets.make_scrubber(survey)

    def describe(self) -> dict[str, Any]:
        """Return the report as data, for programs."""
        report = {
            "version": VERSION,
            "mcp-launch": __version__,
            "counts": self._count(),
            "findings": [self._describe_finding(finding) for finding in self._findings],
            "hosts": list(self._describe_hosts()),
            "memory": [
                self._describe_share(share) for share in processes.list_memory(self._survey)
            ],
            "servers": len(self._survey.servers),
        }
        return self._scrubber.clean_all(report)

    def _describe_finding(self, finding: Finding) -> dict[str, Any]:
        subject = {name: value for name, value in finding.subject._asdict().items() if value}
        return {
            "code": finding.code,
            "level": finding.level,
            "title": finding.title,
            "subject": subject,
            "message": finding.message,
            "fix": finding.fix,
            "repair": finding.repair.what if finding.repair else None,
        }

    def _describe_share(self, share: Share) -> dict[str, Any]:
        memory = {"bytes": share.memory.amount, "kind": share.memory.kind}
        return share._asdict() | {"memory": memory}

    def _describe_hosts(self) -> Iterator[dict[str, Any]]:
        for host in self._survey.hosts:
            program = self._survey.programs.get(host.name)
            items = [item for item in self._survey.items if item.host is host]
            if program or items:
                version = program.version if program else ""
                yield {
                    "host": host.name,
                    "title": host.title,
                    "program": program.path if program else None,
                    "version": version or None,
                    "tried": installed_hosts.tell_tried(host.name, version),
                    "servers": len([item for item in items if not item.why_not]),
                }

    def clean(self, text: str) -> str:
        """Return a text that is safe to show, with secrets masked."""
        return printable(self._scrubber.clean(text))

    def show(self, console: Console) -> None:
        """Show the report to a person."""
        hosts = list(self._describe_hosts())
        for host in hosts:
            console.print(self._introduce(host))
        for name, of_host in groupby(self._findings, lambda finding: finding.subject.host):
            title = HOSTS[name].title if name in HOSTS else name or "This machine"
            console.print()
            console.print(Text(self.clean(title), "bold underline"))
            gathered = _gather(list(of_host))
            for server, of_server in groupby(gathered, lambda finding: finding.subject.server):
                self._show_server(console, server, list(of_server))
        self._show_memory(console)
        if hosts or self._findings:
            console.print()
        console.print(self._conclude())

    def _introduce(self, host: dict[str, Any]) -> Text:
        line = Text(host["title"], "bold")
        line.append(f" {host['version'] or ''}".rstrip(), "not bold")
        line.append(f", {_plural(host['servers'], 'server')}", "not bold")
        line.append(f" ({host['tried']})" if host["tried"] else "", "not bold dim")
        return line

    def _show_server(self, console: Console, server: str, findings: list[Finding]) -> None:
        if server:
            _print(console, 2, Text(self.clean(server), "bold"))
        for place, here in groupby(findings, self._place):
            if place:
                _print(console, 4, Text(place, "dim"))
            for finding in here:
                text = Text(f"{finding.code} {finding.level}", _STYLES[finding.level])
                text.append(f": {self.clean(finding.message)}", "default not bold not dim")
                _print(console, 4, text)
                _print(console, 6, Text(f"fix: {self.clean(finding.fix)}", "green"))

    def _show_memory(self, console: Console) -> None:
        shares = processes.list_memory(self._survey)
        if shares:
            console.print(Text("\nRunning now", "bold underline"))
        for host, of_host in groupby(shares, lambda share: share.host):
            _print(console, 2, Text(self.clean(host), "bold"))
            for share in of_host:
                suffix = f" for {share.session}" if share.session else ""
                _print(console, 4, Text(self.clean(f"{share.server}{suffix}: {share.memory}")))

    def _place(self, finding: Finding) -> str:
        subject = finding.subject
        at = f":{subject.line}:{subject.column}" if subject.line else ""
        home = self._survey.site.home.rstrip("/")
        # Only here: in a file or a command, ~ may not be expanded.
        file = subject.file
        file = f"~{file.removeprefix(home)}" if file.startswith(f"{home}/") else file
        process = f"process {subject.pid}" if subject.pid else ""
        words = (subject.scope, f"{file}{at}" if file else "", process)
        return self.clean(", ".join(word for word in words if word))

    def _count(self) -> dict[str, int]:
        return {
            level: sum(finding.level == level for finding in self._findings) for level in LEVELS
        }

    def _conclude(self) -> Text:
        servers = self._survey.servers
        hosts = {item.host.name for item in servers}
        seen = f"{_plural(len(servers), 'server')} of {_plural(len(hosts), 'host')}"
        counts = [_plural(count, level) for level, count in self._count().items() if count]
        if not counts:
            return Text(f"No problems found with {seen}.", "bold green")
        summary = Text(f"{', '.join(counts)} in {seen}", "bold")
        repairs = {finding.repair.what for finding in self._findings if finding.repair}
        if repairs:
            summary.append(f"; mcp-launch doctor --fix can fix {len(repairs)}")
        return summary


def _print(console: Console, indent: int, text: Text) -> None:
    """Print an indented line; on a terminal, wrap it between words."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, indent), expand=False), soft_wrap=False)
    else:
        console.print(Text(" " * indent).append_text(text))


def _gather(findings: list[Finding]) -> list[Finding]:
    """Merge the findings about a host's unwrapped servers into one: there may be dozens."""
    # Grouped by the command that wraps them: shared files must not change along with others.
    bare: dict[Reach, list[Finding]] = {}
    for finding in findings:
        if finding.reach in {"own", "shared"}:
            bare.setdefault(finding.reach, []).append(finding)
    many = {reach: alike for reach, alike in bare.items() if len(alike) > 1}
    gathered = [finding for alike in many.values() for finding in alike]
    rest = [finding for finding in findings if finding not in gathered]
    return [*(_merge(reach, alike) for reach, alike in many.items()), *rest]


def _merge(reach: Reach, findings: list[Finding]) -> Finding:
    is_shared = reach == "shared"
    host = findings[0].subject.host
    names = list(dict.fromkeys(finding.subject.server for finding in findings))
    message = f"{HOSTS[host].title} starts these without mcp-launch: {', '.join(names)}"
    how = f"mcp-launch wrap {SHARED if is_shared else ''}--host {host}"
    fix = f"{how} {shlex.join(names)} ({FOR_EVERYONE})" if is_shared else how
    return Finding("ML117", Subject(host), message, f"wrap them: {fix}")


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
