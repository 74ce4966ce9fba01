"""The doctor's report as data: what was found, on which hosts, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch import __version__
from mcp_launch.doctor.check import LEVELS
from mcp_launch.doctor.filter import INCOMPLETE
from mcp_launch.doctor.running import list_hosts, list_ownerless
from mcp_launch.errors import printable
from mcp_launch.machine import installed_hosts, known_secrets, units
from mcp_launch.machine.entry_state import classify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.doctor.check import Finding
    from mcp_launch.doctor.filter import Filter
    from mcp_launch.machine.entry_state import Kind
    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import HostProcess, Session
    from mcp_launch.machine.survey import Item, Survey
    from mcp_launch.machine.units import Memory

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
            "entries": [_describe_entry(item) for item in self.survey.items],
            "memory": [_describe_share(share) for share in list_memory(self.survey)],
            "servers": len(self.survey.servers),
        }
        return self._scrubber.clean_all(report)

    def describe_hosts(self) -> Iterator[dict[str, Any]]:
        """Return the hosts that are installed or have entries."""
        for host in self.survey.hosts:
            program = self.survey.programs.get(host.name)
            items = [item for item in self.survey.items if item.host is host]
            if program or items:
                version = program.version if program else ""
                yield {
                    "host": host.name,
                    "title": host.title,
                    "program": program.path if program else None,
                    "version": version or None,
                    "tried": installed_hosts.tell_tried(host.name, version),
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


def _describe_entry(item: Item) -> dict[str, Any]:
    return {
        "host": item.host.name,
        "server": item.name,
        "scope": item.scope,
        "file": item.file.path,
        "kind": classify(item).kind,
        "why_not": item.why_not or None,
        "is_wrapped": item.is_wrapped,
    }


def _name_all(items: list[Item], kind: Kind) -> list[str]:
    return [item.name for item in items if classify(item).kind == kind]


def _describe_share(share: Share) -> dict[str, Any]:
    memory = {"bytes": share.memory.amount, "kind": share.memory.kind}
    return share._asdict() | {"memory": memory}


class Share(NamedTuple):
    """The memory of one server, with its host and session."""

    host: str
    session: str
    server: str
    memory: Memory
    shared_by: int = 1  # how many sessions have this server


def list_memory(survey: Survey) -> list[Share]:
    """Return the memory of every server, by host and session; a shared one is listed once."""
    running = [
        (host, session, server)
        for host in list_hosts(survey)
        for session in host.sessions
        for server in session.servers
    ]
    rows: dict[object, list[tuple[HostProcess, Session, Server]]] = {}
    for row in running:
        rows.setdefault(row[2].shared_as or id(row[2]), []).append(row)
    # A server without memory has ended in the meantime.
    shares = [one for alike in rows.values() if (one := _join(alike)).memory.amount]
    left = [
        Share("no host", "", str(one), one.memory)
        for one in list_ownerless(survey)
        if one.memory.amount
    ]
    return shares + left


def _join(alike: list[tuple[HostProcess, Session, Server]]) -> Share:
    """Return one server, which may be in the rows of several sessions."""
    host, session, server = alike[0]
    whose = printable(session.id) if len(alike) == 1 else ""
    # What the sessions have of their own are their launchers.
    memory = units.add_up(server.memory for _, _, server in alike)
    return Share(str(host), whose, _name(server), memory, len(alike))


def _name(server: Server) -> str:
    """Return a server's name, with its process if it has one."""
    if server.launch is not None and server.is_absent:
        return f"{printable(server.name)} ({server.launch.server_state})"
    return str(server)
