"""Which findings the user wants to see: by level, by code, by code and server.

A rule is a code (`ML206`), the beginning of several (`ML2`), or either with a name
(`ML206:docs`): then it applies only to that server, or to that host.

ML001, that a check could not run, is always shown: a filter must not make an incomplete run
look like a healthy machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.doctor.finding import CHECKS, LEVELS
from mcp_launch.errors import UsageError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.doctor.finding import Finding, Level

INCOMPLETE = "ML001"

_CODE = re.compile(r"ML\d{0,3}")


class CodeRule(NamedTuple):
    """Findings with this code, or a code that begins so."""

    code: str
    name: str = ""  # of a server or a host; empty: all of them

    def __str__(self) -> str:
        """Return the rule as the user writes it."""
        return f"{self.code}:{self.name}" if self.name else self.code


class Filter(NamedTuple):
    """What to show, and what to ignore."""

    level: Level = "note"  # this one and worse
    select: tuple[CodeRule, ...] = ()  # empty: everything
    ignore: tuple[CodeRule, ...] = ()

    def select_shown(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings to show, in their order."""
        return [one for one in findings if self._is_wanted(one) and not self._is_ignored(one)]

    def select_ignored(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that would be shown if they were not ignored."""
        return [one for one in findings if self._is_wanted(one) and self._is_ignored(one)]

    def _is_wanted(self, finding: Finding) -> bool:
        if finding.code == INCOMPLETE:
            return True
        is_selected = not self.select or _match(self.select, finding)
        return is_selected and LEVELS.index(finding.level) <= LEVELS.index(self.level)

    def _is_ignored(self, finding: Finding) -> bool:
        return finding.code != INCOMPLETE and _match(self.ignore, finding)


def _match(rules: tuple[CodeRule, ...], finding: Finding) -> bool:
    """Return whether rules cover a finding; one about several servers, if they cover each."""
    names = {rule.name for rule in rules if finding.code.startswith(rule.code)}
    host = finding.subject.host
    if "" in names or (host and host in names):
        return True
    return {*(finding.servers or (finding.subject.server,))} <= names


def read_rules(texts: Iterable[str], option: str) -> tuple[CodeRule, ...]:
    """Return the rules in the values of an option: separated by commas, or given repeatedly.

    Raises:
        UsageError: There is no such code, or --select was given without any.

    """
    parts = [part.strip() for text in texts for part in text.split(",")]
    rules = tuple(read_rule(part, option) for part in parts if part)
    if parts and not rules and option == "--select":
        # All codes would be selected: with --fix --yes and an empty variable of a script, too.
        raise UsageError(
            "--select names no code", fix="write a code such as ML206, or leave out --select"
        )
    return rules


def read_rule(text: str, option: str) -> CodeRule:
    """Return one rule.

    Raises:
        UsageError: There is no such code, or it cannot be ignored.

    """
    code, _, name = text.partition(":")
    code = code.strip().upper()
    if not _CODE.fullmatch(code) or not any(known.startswith(code) for known in CHECKS):
        near = suggest(code, CHECKS)
        error = UsageError(
            f"{_begin(option)}there is no code {code or text}",
            fix=f"{near}write a code such as ML206, the beginning of some such as ML2, or a code "
            "and a server such as ML206:docs",
        )
        error.suggestion = near
        raise error
    if code == INCOMPLETE and option != "--select":
        raise UsageError(
            f"{_begin(option)}{INCOMPLETE} (a check could not run) cannot be ignored",
            fix=f"remove {INCOMPLETE} from the list",
        )
    return CodeRule(code, name.strip())


def _begin(option: str) -> str:
    """Return the beginning of an error about an option, or about a key, whose place is shown."""
    return f"{option}: " if option.startswith("-") else ""


def read_level(text: str) -> Level:
    """Return a level.

    Raises:
        UsageError: There is no such level.

    """
    for level in LEVELS:
        if level == text:
            return level
    near = suggest(text, LEVELS)
    error = UsageError(f"there is no level {text}", fix=f"{near}write one of {', '.join(LEVELS)}")
    error.suggestion = near
    raise error
