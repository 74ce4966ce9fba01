"""Mistral Vibe: its process holds the lock of every session that it runs open.

Beside `active/<id>.lock` is `<id>.lock.json` with the pid of the process that holds it. An
editor's agent (`vibe-acp`) has one server for all its sessions, so with several locks a call may be
any session's, and at the start even that of one that is still to come.
"""

from __future__ import annotations

import os

from mcp_launch.hosts import HostIdentity, Identity, records
from mcp_launch.hosts.callers import Pace, RecordCallers
from mcp_launch.values import Found, Missing, Stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Caller, Callers, Sighting
    from mcp_launch.system import ProcessTable

# What an editor starts; its servers are for all its sessions.
_AGENT = "vibe-acp"

_ENDING = ".lock"


class _VibeCallers(RecordCallers):
    """Looks for locks again if one was made or removed since."""

    def __init__(self, sighting: Sighting) -> None:
        super().__init__()
        self._sighting = sighting
        self._pace = Pace()
        self._directory = ""
        self._stamp = Stamp()
        self._caller: Caller | None = None

    def read_record(self) -> Caller | None:
        """Return the only session that is open; None if there are several."""
        if self._directory:
            try:
                seen = os.stat(self._directory)
            except OSError:
                pass  # it was moved away: look again
            else:
                if not self._stamp.may_have_changed(seen):
                    return self._caller
        elif not self._pace.is_due():
            return None
        self._pace.begin()
        locks = _list_locks(self._sighting)
        self._pace.end()
        self._directory = os.path.dirname(locks[0]) if locks else ""
        found = _find_session(self._sighting, locks)
        self._caller = None
        if isinstance(found, Found):
            self._caller = (found.value, None, None)
            self.origins = (found.origin, "", "")
        return self._caller


class Vibe(HostIdentity):
    """How Mistral Vibe identifies sessions."""

    told_later = ("session",)
    swallows_errors = True
    keeps_tool_lists = True  # for a day

    def __init__(self) -> None:
        super().__init__("vibe", "Mistral Vibe", "many sessions")

    def starts_in_own_directory(self, table: ProcessTable, pid: int) -> bool:
        """Return whether this is the agent; its title or its script says so, not a prompt."""
        process, words = table.look(pid), table.read_argv(pid)[:2]
        names = {word.rpartition("/")[2] for word in words}
        return _AGENT in names or (process is not None and process.name == _AGENT)

    def identify(self, sighting: Sighting) -> Identity:
        """Return the only session that is open, unless others may come to share the server."""
        process = sighting.process
        if process and self.starts_in_own_directory(sighting.table, process.identity.pid):
            return self._identify_by(Missing([f"{_AGENT} has one server for all its sessions"]))
        return self._identify_by(_find_session(sighting, _list_locks(sighting)))

    def follow_callers(self, sighting: Sighting) -> Callers:
        """Return a reader of the locks that the host's process holds open."""
        return _VibeCallers(sighting)


def _list_locks(sighting: Sighting) -> list[str]:
    """Return the locks of sessions that the host's process holds open."""
    if sighting.process is None:
        return []
    opened = set(sighting.table.list_open_files(sighting.process.identity.pid))
    return sorted(path for path in opened if path.endswith(_ENDING) and _is_active(path))


def _is_active(path: str) -> bool:
    return os.path.basename(os.path.dirname(path)) == "active"


def _find_session(sighting: Sighting, locks: list[str]) -> Found | Missing:
    if len(locks) != 1 or sighting.process is None:
        return Missing([f"Mistral Vibe holds the locks of {len(locks)} sessions open"])
    session = records.pick_id(os.path.basename(locks[0]).removesuffix(_ENDING))
    record = f"{locks[0]}.json"
    try:
        said = records.parse(record)
    except (OSError, ValueError):
        return Missing([f"{record} does not exist or cannot be read"])
    expected = {"session_id": session, "process_id": sighting.process.identity.pid}
    if session is None or said is None or {name: said.get(name) for name in expected} != expected:
        return Missing([f"{record} is not of this session and process"])
    return Found(session, f"{locks[0]}, which Mistral Vibe holds open")


HOST = Vibe()
