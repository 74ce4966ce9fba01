"""Run every check; one that fails does not stop the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Each of these declares checks.
from mcp_launch.doctor import (  # noqa: F401
    entries,
    live,
    memory,
    ours,
    profiles,
    programs,
    running,
    variables,
    wrapped,
)
from mcp_launch.doctor.check import CHECKS, LEVELS, Finding, report_failure
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine.survey import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcp_launch.machine.survey import Survey


def find_codes(prefix: str = "") -> list[str]:
    """Return the codes that begin like this, in any case and with or without the letters."""
    wanted = prefix.upper()
    wanted = wanted if wanted.startswith("M") else f"ML{wanted}"
    return sorted(code for code in CHECKS if code.startswith(wanted))


def examine(survey: Survey, show: Callable[[str], None] | None = None) -> list[Finding]:
    """Return all findings, in the order in which they are shown.

    With `show`, the servers are started, and it gets a line when one is done. They come first: that
    may take a minute, and what runs should be as it is afterwards.
    """
    started = _run(live.check_servers, Subject(), survey, show) if show else []
    found: list[Finding] = []
    for check in _list_checks("machine"):
        found += _run(check, Subject(), survey)
    for item in survey.servers:
        for check in _list_checks("server"):
            found += _run(check, item.point(), survey, item)
    found += [
        report_failure(subject, "reading the entry", error) for subject, error in survey.failures
    ]
    broken = {_get_entry(finding) for finding in found if finding.level == "error"}
    found = [
        # A server that cannot start is not wrapped on the way.
        one._replace(repair=None) if one.code == "ML117" and _get_entry(one) in broken else one
        for one in found
    ]
    # An error about an entry already explains why its server does not start.
    found += [one for one in started if one.code != "ML301" or _get_entry(one) not in broken]
    return sorted(_keep_first(found), key=_rank)


def _list_checks(kind: str) -> Iterator[Callable[..., Iterator[Finding]]]:
    for code in sorted(CHECKS):
        if CHECKS[code].kind == kind:
            yield CHECKS[code].find


def _get_entry(finding: Finding) -> tuple[str, str, str]:
    subject = finding.subject
    return subject.host, subject.server, subject.file


def _run(
    check: Callable[..., Iterable[Finding]], subject: Subject, *arguments: object
) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(check(*arguments))
    except Exception as error:  # noqa: BLE001  # whatever fails, the other checks run
        found.append(report_failure(subject, f"{check.__module__}.{check.__name__}", error))
    return found


def _keep_first(found: list[Finding]) -> Iterator[Finding]:
    seen = set()
    for finding in found:
        key = finding[:3]
        if key not in seen:
            seen.add(key)
            yield finding


def _rank(finding: Finding) -> tuple[int, bool, int, str, int, int, str]:
    """Return what orders findings: the worst first, then by host, server and place."""
    order = list(HOSTS)
    subject = finding.subject
    place = order.index(subject.host) if subject.host in order else len(order)
    host = place if subject.host else -1
    level = LEVELS.index(finding.level)
    # What concerns a whole host, or all of them, comes before what concerns one server.
    is_of_one = bool(subject.server)
    return (level, is_of_one, host, subject.server, subject.line, subject.column, finding.code)
