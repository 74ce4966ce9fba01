"""Qwen Code: a record of each session of a process, which `/clear` rewrites.

`~/.qwen/sessions/<pid>.json` (in a terminal) or `<pid>-<slot>.json` (one for each session of an
editor's agent) has the session, if its `procStart` is the host's own start. `qwen -p` writes none.

`QWEN_CODE_SESSION_ID` is the session of the process as a whole. An editor's agent has one server
for all sessions of a project, and none of them has that id. Nor are its records believed: that of
a new session may come seconds after its first call (measured with 0.24.4), so the only one there
may be another's. `QWEN_CODE_PROJECT_DIR` is not the project but where Qwen Code keeps its files
about it.
"""

from __future__ import annotations

import os

from mcp_launch.hosts import HostIdentity, Identity, records
from mcp_launch.hosts.callers import RecordCallers
from mcp_launch.values import Found, Missing, Stamp, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Caller, Callers, Sighting
    from mcp_launch.protocol.json_text import Json

_VARIABLE = "QWEN_CODE_SESSION_ID"
_FILES_VARIABLE = "QWEN_CODE_PROJECT_DIR"

# With one of these words a process serves several sessions.
_SHARED = {"--acp", "--experimental-acp", "serve"}


class _QwenCallers(RecordCallers):
    """Reads the records again if one of them was written since."""

    def __init__(self, sighting: Sighting) -> None:
        super().__init__()
        self._sighting = sighting
        self._stamp = Stamp()
        self._caller: Caller | None = None
        self._sharing = _explain_sharing(sighting)

    def read_record(self) -> Caller | None:
        """Return the session of the moment; None if it may be one of several."""
        try:
            # Each record is put in its place by a rename, which changes the directory.
            seen = os.stat(_name_directory(self._sighting))
        except OSError:
            return self._look()  # nothing was ever recorded
        return self._look() if self._stamp.may_have_changed(seen) else self._caller

    def _look(self) -> Caller | None:
        found = self._sharing or _find_session(self._sighting)
        self._caller = None
        if isinstance(found, Found):
            self._caller = (found.value, None, None)
            self.origins = (found.origin, "", "")
        return self._caller


class Qwen(HostIdentity):
    """How Qwen Code identifies sessions."""

    told_later = ("session",)
    session_variable = _VARIABLE
    swallows_errors = True

    def __init__(self) -> None:
        super().__init__("qwen", "Qwen Code", "many sessions", adds_variables=True)

    def identify(self, sighting: Sighting) -> Identity:
        """Return the session, unless others may come to share the server."""
        return self._identify_by(_explain_sharing(sighting) or _find_session(sighting))

    def list_untrue_variables(self, session: Found | Missing) -> tuple[str, ...]:
        """Return the variables of the process as a whole, if it serves several sessions."""
        return (_VARIABLE, _FILES_VARIABLE) if isinstance(session, Missing) else ()

    def follow_callers(self, sighting: Sighting) -> Callers:
        """Return a reader of the host's records, which `/clear` changes."""
        return _QwenCallers(sighting)


def _explain_sharing(sighting: Sighting) -> Missing | None:
    """Return why a call's session is unknown, if the process serves several or may; else None."""
    process = sighting.process
    words = sighting.table.read_argv(process.identity.pid) if process else []
    if words and _SHARED.isdisjoint(words):
        return None
    return Missing(["Qwen Code may have one server for several sessions"])


def _name_directory(sighting: Sighting) -> str:
    moved = sighting.environ.get("QWEN_HOME")
    return f"{moved or find_home_directory(sighting.environ) + '/.qwen'}/sessions"


def _find_session(sighting: Sighting) -> Found | Missing:
    """Return the session in the host's record; without any, the one of the variable."""
    own = _list_records(sighting)
    if len(own) == 1:
        [(path, record)] = own.items()
        return Found(str(record["sessionId"]), path)
    directory = _name_directory(sighting)
    if own:
        return Missing([f"{directory} has {len(own)} sessions of this process"])
    inherited = records.read_variable(sighting, _VARIABLE)
    if inherited:
        return Found(inherited, f"{_VARIABLE} as Qwen Code set it at the start")
    unset = f"{_VARIABLE} is not set by Qwen Code"
    return Missing([f"{directory} has no record of this process", unset])


def _list_records(sighting: Sighting) -> dict[str, dict[str, Json]]:
    """Return the records that the host's process has written about its sessions."""
    process, directory = sighting.process, _name_directory(sighting)
    if process is None:
        return {}
    pid = process.identity.pid
    kind, _, moment = (process.identity.start or "").partition(":")
    # Only Linux has a start in its records, and without one pid may have been reused.
    start = f"{sighting.table.boot_id()}:{moment}" if kind == "ticks" else None
    found = {}
    for name in sorted(_list_names(directory, str(pid))):
        if name.removesuffix(".json").partition("-")[0] == str(pid):
            record = _read_record(f"{directory}/{name}")
            is_own = record.get("pid") == pid and record.get("procStart") == start
            if start and is_own and records.pick_id(record.get("sessionId")):
                found[f"{directory}/{name}"] = record
    return found


def _list_names(directory: str, start: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except OSError:
        return []  # nothing was ever recorded
    return [name for name in names if name.startswith(start) and name.endswith(".json")]


def _read_record(path: str) -> dict[str, Json]:
    try:
        return records.parse(path) or {}
    except (OSError, ValueError):
        return {}  # removed since, or not written by Qwen Code


HOST = Qwen()
