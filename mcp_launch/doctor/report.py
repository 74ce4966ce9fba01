"""The doctor's report as data: what was found, on which hosts, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch import __version__
from mcp_launch.doctor.check import LEVELS
from mcp_launch.doctor.filter import INCOMPLETE
from mcp_launch.errors import printable
from mcp_launch.machine import known_secrets
from mcp_launch.machine.listed_servers import classify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.doctor.check import Finding
    from mcp_launch.doctor.filter import Filter
    from mcp_launch.machine.listed_servers import Kind
    from mcp_launch.machine.survey import Item, Survey

# The version of the JSON format.
VERSION = 1

# Exit codes: no errors or warnings, some, a check could not run.
_HEALTHY, _PROBLEMS, _INCOMPLETE = 0, 1, 2


class Report:
    """The findings of one run, for people (`report_text`) and for programs."""

    def __init__(self, survey: Survey, found: list[Finding], wanted: Filter) -> None:
        self.survey = survey
        self.filter = wanted
        self.findings = self.filter.select_shown(found)
        self.ignored = self.filter.select_ignored(found)
        self._scrubber = known_secrets.make_scrubber(survey)

    @property
    def exit_code(self) -> int:
        """The exit code: notes are not problems."""
        if any(finding.code == INCOMPLETE for finding in self.findings):
            return _INCOMPLETE
        return _PROBLEMS if any(one.level != "note" for one in self.findings) else _HEALTHY

    def describe(self) -> dict[str, Any]:
        """Return the report as data, for programs."""
        counts = dict.fromkeys(LEVELS, 0)
        for finding in self.findings:
            counts[finding.level] += 1
        report = {
            "version": VERSION,
            "mcp-launch": __version__,
            "counts": counts,
            "filter": {
                "select": [str(rule) for rule in self.filter.select],
                "ignore": [str(rule) for rule in self.filter.ignore],
            },
            "findings": [_describe_finding(finding) for finding in self.findings],
            "ignored": [
                {"code": one.code, "subject": _describe_subject(one)} for one in self.ignored
            ],
            "hosts": list(self.describe_hosts()),
            "servers": len(self.survey.servers),
        }
        return self._scrubber.clean_all(report)

    def describe_hosts(self) -> Iterator[dict[str, Any]]:
        """Return the hosts that are installed or have entries."""
        for host in self.survey.hosts:
            program = self.survey.programs.get(host.name)
            items = [item for item in self.survey.items if item.host is host]
            if program or items:
                yield {
                    "host": host.name,
                    "title": host.title,
                    "program": program,
                    "servers": sum(not item.why_not for item in items),
                    "remote": _name_all(items, "remote"),
                    "disabled": _name_all(items, "disabled"),
                }

    def clean(self, text: str) -> str:
        """Return a text that is safe to show, with secrets masked."""
        return printable(self._scrubber.clean(text))


def _describe_finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "level": finding.level,
        "title": finding.title,
        "subject": _describe_subject(finding),
        "message": finding.message,
        "details": list(finding.details),
        "fix": finding.fix,
        "repair": finding.repair.what if finding.repair else None,
    }


def _describe_subject(finding: Finding) -> dict[str, Any]:
    return {name: value for name, value in finding.subject._asdict().items() if value}


def _name_all(items: list[Item], kind: Kind) -> list[str]:
    return [item.name for item in items if classify(item).kind == kind]
