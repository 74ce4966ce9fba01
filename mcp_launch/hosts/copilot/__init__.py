"""Copilot CLI: one server process per session, whose id is in the server's environment.

Its process holds `session-state/<id>/inuse.<pid>.hold` open for every session that it runs. With
several (the Agent Client Protocol) the variable decides which of them is ours. If there is one
and the variable names another, the file is right. A variable that Copilot's own process was
started with is an outer session's: everything that is started from Copilot's shell inherits it.
"""

from __future__ import annotations

import os

from mcp_launch.hosts import HostIdentity, Identity, records
from mcp_launch.hosts.callers import Pace, RecordCallers
from mcp_launch.values import Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Caller, Callers, Sighting

_VARIABLE = "COPILOT_AGENT_SESSION_ID"


class _CopilotCallers(RecordCallers):
    """Looks at the open files again only if the session's own one is gone."""

    def __init__(self, sighting: Sighting) -> None:
        super().__init__()
        self._sighting = sighting
        self._pace = Pace()
        self._hold = ""
        self._caller: Caller | None = None

    def read_record(self) -> Caller | None:
        """Return the session of the process that started us."""
        if os.path.exists(self._hold) if self._hold else not self._pace.is_due():
            return self._caller
        self._pace.begin()
        told = records.read_variable(self._sighting, _VARIABLE)
        holds = _list_holds(self._sighting)
        found = _choose(told, holds, is_start=False)
        self._caller, self._hold = None, ""
        if isinstance(found, Found):
            self._caller = (found.value, None, None)
            self.origins = (found.origin, "", "")
            # Of two that disagree, the variable may be right as soon as its file is open.
            self._hold = holds.get(told or found.value, "")
        self._pace.end()
        return self._caller


class Copilot(HostIdentity):
    """How Copilot CLI identifies sessions."""

    told_later = ("session",)
    session_variable = _VARIABLE

    def __init__(self) -> None:
        super().__init__("copilot", "Copilot CLI", "one session at a time")

    def identify(self, sighting: Sighting) -> Identity:
        """Return the session that the host's process and our environment agree on."""
        told = records.read_variable(sighting, _VARIABLE)
        return self._identify_by(_choose(told, _list_holds(sighting), is_start=True))

    def list_untrue_variables(self, session: Found | Missing) -> tuple[str, ...]:
        """Return the variable, if the host's process does not run that session."""
        return (_VARIABLE,) if isinstance(session, Missing) else ()

    def follow_callers(self, sighting: Sighting) -> Callers:
        """Return a reader of the session that the host's process holds open."""
        return _CopilotCallers(sighting)


def _choose(told: str | None, holds: dict[str, str], *, is_start: bool) -> Found | Missing:
    """Return the session that is proven by what the host holds open, or by what it set for us."""
    # At the start the variable's own file may be still to come, and an open one another session's.
    if told and (is_start or not holds or told in holds):
        return Found(told, f"{_VARIABLE} as Copilot CLI set it at the start")
    if len(holds) == 1:
        [(session, path)] = holds.items()
        return Found(session, f"{path}, which Copilot CLI holds open")
    unset = f"{_VARIABLE} names none of them" if told else f"{_VARIABLE} is not set by Copilot CLI"
    return Missing([f"Copilot CLI holds {len(holds)} sessions open", unset])


def _list_holds(sighting: Sighting) -> dict[str, str]:
    """Return the sessions that the host's process holds open, with the files that show it."""
    if sighting.process is None:
        return {}
    pid = sighting.process.identity.pid
    found = {}
    for path in sighting.table.list_open_files(pid):
        directory, _, name = path.rpartition("/")
        parent, _, session = directory.rpartition("/")
        if name == f"inuse.{pid}.hold" and parent.endswith("/session-state"):
            found[session] = path
    return found


HOST = Copilot()
