"""Which of the recorded calls a user wants: by server, tool, session, host, outcome and time."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_launch.machine.call_records import RecordedCall


class CallFilter(NamedTuple):
    """What calls must match; what is empty matches all."""

    servers: tuple[str, ...] = ()  # names, in which * and ? stand for other characters
    tools: tuple[str, ...] = ()  # ditto
    hosts: tuple[str, ...] = ()
    session: str = ""  # the beginning of the id of a session or a thread
    only_failed: bool = False
    since: float = 0.0  # since 1970

    def make_test(self) -> Callable[[RecordedCall], bool] | None:
        """Return a function that says whether a call matches; None if all do.

        The time is not tested: readers do that themselves, to read less.
        """
        tests: list[Callable[[RecordedCall], bool]] = []
        if self.servers:
            is_server = _make_matcher(self.servers)
            tests.append(lambda call: is_server(call.server))
        if self.tools:
            is_tool = _make_matcher(self.tools)
            tests.append(lambda call: is_tool(call.tool))
        if self.hosts:
            tests.append(lambda call: call.host in self.hosts)
        if self.session:
            tests.append(
                lambda call: (
                    call.session.startswith(self.session) or call.thread.startswith(self.session)
                )
            )
        if self.only_failed:
            tests.append(lambda call: call.has_failed)
        return (lambda call: all(test(call) for test in tests)) if tests else None


def _make_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    whole = re.compile("|".join(translate(pattern) for pattern in patterns))
    known: dict[str, bool] = {}  # names repeat

    def is_match(name: str) -> bool:
        if name not in known:
            known[name] = bool(whole.match(name))
        return known[name]

    return is_match
