"""Which findings the user wants to see: by code, by code and server, by level.

A rule is a code (`ML206`), the beginning of several (`ML2`), a level (`error`), or one of these
with a name (`ML206:docs`): then it applies only to that server, or to that host.

ML001, that a check could not run, is always shown: a filter must not make an incomplete run
look like a healthy machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.doctor.check import CHECKS, LEVELS
from mcp_launch.errors import UsageError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.doctor.check import Finding

INCOMPLETE = "ML001"

_CODE = re.compile(r"ML\d{0,3}")


class CodeRule(NamedTuple):
    """Findings with this code, with a code that begins so, or of this level."""

    code: str
    name: str = ""  # of a server or a host; empty: all of them

    def __str__(self) -> str:
        """Return the rule as the user writes it."""
        return f"{self.code}:{self.name}" if self.name else self.code


class Filter(NamedTuple):
    """What to show, and what to ignore."""

    select: tuple[CodeRule, ...] = ()  # empty: everything
    ignore: tuple[CodeRule, ...] = ()

    def select_shown(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings to show, in their order."""
        return [one for one in findings if self._is_wanted(one) and not self._is_ignored(one)]

    def select_ignored(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that would be shown if they were not ignored."""
        return [one for one in findings if self._is_wanted(one) and self._is_ignored(one)]

    def _is_wanted(self, finding: Finding) -> bool:
        is_selected = not self.select or _match(self.select, finding)
        return is_selected or finding.code == INCOMPLETE

    def _is_ignored(self, finding: Finding) -> bool:
        return finding.code != INCOMPLETE and _match(self.ignore, finding)


def _match(rules: tuple[CodeRule, ...], finding: Finding) -> bool:
    """Return whether rules cover a finding; one about several servers, if they cover each."""
    names = {
        rule.name
        for rule in rules
        if finding.code.startswith(rule.code) or finding.level == rule.code
    }
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
    code = code.strip()
    if code.lower() in LEVELS:
        return CodeRule(code.lower(), name.strip())
    code = code.upper()
    if not _CODE.fullmatch(code) or not any(known.startswith(code) for known in CHECKS):
        near = suggest(code, CHECKS) or suggest(code.lower(), LEVELS)
        error = UsageError(
            f"{_begin(option)}there is no code {code or text}",
            fix=f"{near}write a code such as ML206, the beginning of some such as ML2, a level "
            "(error, warning, note), or a code and a server such as ML206:docs",
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
