"""Cline CLI: its database has a row for each session, with the pid of the process that runs it.

The row appears after the session's servers are started, so only a call can be attributed. The
process that runs tasks in the background (`cline -z`) starts a server for each, in the directory of
the first task: if one session of a process is running, it is the caller, and its row has the
directory where it works; if several are, a call may be any session's.

A row outlives a process that was killed, and pids are reused: a session that began before the
process did is another's.
"""

from __future__ import annotations

import os

from mcp_launch.hosts import HostIdentity, Identity, records
from mcp_launch.hosts.callers import RecordCallers
from mcp_launch.values import Missing, Stamp, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Caller, Callers, Sighting

# How many seconds before its process a session may have begun and still be its own: the time of
# a process's start is computed from two clocks.
_MARGIN = 1.0

# All columns: which there are depends on Cline's version.
_QUERY = "SELECT * FROM sessions WHERE status = 'running'"


class _ClineCallers(RecordCallers):
    """Reads the database again if it or its log was written since."""

    def __init__(self, sighting: Sighting) -> None:
        super().__init__()
        self._sighting = sighting
        self._path = _name_database(sighting)
        self._stamps = (Stamp(), Stamp())
        self._caller: Caller | None = None
        self.origins = (f"{self._path}, at the call",) * 3

    def read_record(self) -> Caller | None:
        """Return the only running session of the host's process."""
        if self._may_have_changed():
            from mcp_launch.hosts import database

            rows = database.read_rows(self._path, _QUERY)
            self._caller = _choose(rows or [], self._sighting)
            if rows is None:  # it may be written just now: the next call has to look again
                self._stamps = (Stamp(), Stamp())
        return self._caller

    def _may_have_changed(self) -> bool:
        is_new = False
        for stamp, path in zip(self._stamps, (self._path, f"{self._path}-wal"), strict=True):
            try:
                # Every stamp has to see its file, so this does not stop at the first.
                is_new = stamp.may_have_changed(os.stat(path)) or is_new
            except OSError:
                continue  # there is no such file now
        return is_new


class Cline(HostIdentity):
    """How Cline CLI identifies sessions."""

    told_later = ("session",)
    agent_words = ("--cline-hub-daemon",)
    swallows_errors = True

    def __init__(self) -> None:
        super().__init__("cline", "Cline", "many sessions")

    def identify(self, sighting: Sighting) -> Identity:  # noqa: ARG002  # no row is there yet
        """Return that the session is not known yet."""
        why = "Cline records a session only after it has started its servers"
        return self._identify_by(Missing([why]))

    def follow_callers(self, sighting: Sighting) -> Callers:
        """Return a reader of the sessions in the host's database."""
        return _ClineCallers(sighting)


def _name_database(sighting: Sighting) -> str:
    environ = sighting.environ
    home = environ.get("CLINE_DIR") or find_home_directory(environ) + "/.cline"
    data = environ.get("CLINE_DATA_DIR") or f"{home}/data"
    return f"{environ.get('CLINE_DB_DATA_DIR') or data + '/db'}/sessions.db"


def _choose(rows: list[dict[str, object]], sighting: Sighting) -> Caller | None:
    """Return the session of the only row that is the host's; None if there are several."""
    process, start = sighting.process, records.find_start(sighting)
    if process is None or start is None:
        return None
    own = [
        row
        for row in rows
        if row.get("pid") == process.identity.pid
        and _read_time(row.get("started_at")) >= start - _MARGIN
        # The parts of a session that are sessions of their own share its servers.
        and not (row.get("is_subagent") or row.get("parent_session_id"))
    ]
    session = records.pick_id(own[0].get("session_id")) if len(own) == 1 else None
    if session is None:
        return None
    place = own[0].get("cwd") or own[0].get("workspace_root")
    return (session, None, place if isinstance(place, str) and os.path.isabs(place) else None)


def _read_time(text: object) -> float:
    """Return a time in seconds since 1970; 0 if it cannot be read, or names no time zone."""
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return 0.0
    return moment.timestamp() if moment.tzinfo else 0.0


HOST = Cline()
