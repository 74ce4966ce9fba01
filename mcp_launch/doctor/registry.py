"""Run every check; one that fails does not stop the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.doctor import ignore_list
from mcp_launch.doctor.checks import (
    configuration,
    contradictory_profiles,
    environment,
    our_installation,
    processes,
    unmatched_policies,
    unused_profiles,
)
from mcp_launch.doctor.finding import LEVELS, Finding, report_failure
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcp_launch.doctor.progress import Progress
    from mcp_launch.machine.survey import Survey

_OF_ALL = (
    *our_installation.OF_ALL,
    contradictory_profiles.check,
    unused_profiles.check,
    *ignore_list.OF_ALL,
    *configuration.OF_ALL,
    *environment.OF_ALL,
)
# Findings that already explain why a server does not start.
_EXPLAIN_NO_START = {
    *("ML114", "ML121", "ML122", "ML126"),
    *("ML201", "ML203", "ML204", "ML205", "ML207"),
}

# Findings that keep a whole host, or all wrapped servers, from starting.
_OF_WHOLE_HOSTS = {"ML001", "ML010", "ML012", "ML013", "ML101", "ML103", "ML120"}

# Those of a command that cannot be run, wrapped or not.
_NO_PROGRAM = {"ML201", "ML203", "ML204"}

_OF_ITEMS = (*configuration.OF_ITEMS, *environment.OF_ITEMS)


def examine(survey: Survey, progress: Progress | None = None) -> list[Finding]:
    """Return all findings, in the order in which they are shown.

    With `progress`, the servers are started too.
    """
    found: list[Finding] = []
    for check in _OF_ALL:
        found += _run(check, Subject(), survey)
    for item in survey.servers:
        for check_item in _OF_ITEMS:
            found += _run(check_item, item.point(), survey, item)
    found += [
        report_failure(subject, "reading the entry", error) for subject, error in survey.failures
    ]
    if progress is None:
        # Otherwise the servers are asked for their tools first.
        found += _run(unmatched_policies.check, Subject(), survey)
    else:
        from mcp_launch.doctor import live

        known = {_get_entry(finding) for finding in found if finding.code in _EXPLAIN_NO_START}
        alive = _run(live.check, Subject(), survey, progress)
        found += [one for one in alive if one.code != "ML301" or _get_entry(one) not in known]
    # Last: starting servers may take a minute, and running processes should be up to date.
    found += _run(processes.check, Subject(), survey)
    return sorted(_keep_first(_keep_broken_ones_bare(found)), key=_rank)


def _keep_broken_ones_bare(found: list[Finding]) -> list[Finding]:
    """Return the findings without the repairs that would wrap a server that cannot start."""
    known = {_get_entry(one) for one in found if one.code in _NO_PROGRAM}
    return [
        one._replace(repair=None) if one.code == "ML117" and _get_entry(one) in known else one
        for one in found
    ]


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
    is_of_one = finding.code not in _OF_WHOLE_HOSTS
    return (level, is_of_one, host, subject.server, subject.line, subject.column, finding.code)
