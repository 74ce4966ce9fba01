"""Claude Code: one server process per session, and `/clear` changes the session under it.

`~/.claude/sessions/<pid>.json` has the current session, if its `procStart` is the host's own
start (pids are reused). It may appear after us, and is written without a rename, so a torn
read is repeated for a moment. `CLAUDE_CODE_SESSION_ID` is the id at the time of the spawn;
everything started from Claude's shell inherits it, so it is trusted only if the nearest host
is Claude Code.
"""

from __future__ import annotations

import os
import sys
import time

from mcp_launch.hosts import Callers, HostIdentity, Identity, records
from mcp_launch.values import (
    Found,
    Missing,
    Stamp,
    find_home_directory,
    is_same_directory,
    name_home,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.hosts import Caller, Sighting
    from mcp_launch.protocol.json_text import Json

# How often a torn read is repeated, and the interval in seconds: the write takes
# microseconds, so this is generous and still costs a launch next to nothing.
_TORN_READS = 20
_TORN_READ_INTERVAL = 0.001

# The limits in bytes for its record, and for its settings, which have the history of all projects.
_RECORD_LIMIT = 1 << 20
_SETTINGS_LIMIT = 64 << 20

# How many seconds it waits for a server without MCP_TIMEOUT.
_PATIENCE = 30.0

# Where an organisation keeps its settings.
_MANAGED = {
    "darwin": "/Library/Application Support/ClaudeCode",
    "win32": "C:\\Program Files\\ClaudeCode",
}


class _ClaudeCallers(Callers):
    """Reads the host's record again when it has changed or may have."""

    is_in_request = False

    def __init__(self, sighting: Sighting) -> None:
        self._sighting = sighting
        self._path = _name_record(sighting)
        self._stamp = Stamp()
        self._caller: Caller | None = None
        self.origins = (f"{self._path}, at the call", "", "")

    def read(self, meta: dict[str, Json]) -> Caller | None:  # noqa: ARG002  # it names no session
        """Return the current session; the last known one while there is no record."""
        try:
            seen = os.stat(self._path)
        except OSError:
            return self._caller
        if self._stamp.may_have_changed(seen):
            record = _find_record(self._sighting)
            if isinstance(record, Found):
                self._caller = (record.value, None, None)
        return self._caller


class Claude(HostIdentity):
    """How Claude Code identifies sessions."""

    told_later = ("session",)
    session_variable = "CLAUDE_CODE_SESSION_ID"
    moves_unannounced = True
    looking_commands = (("mcp", "list"), ("mcp", "get"))

    def __init__(self) -> None:
        super().__init__("claude", "Claude Code", "one session at a time")

    def identify(self, sighting: Sighting) -> Identity:
        """Return the session from the record of the host's process, or from our environment."""
        record = _find_record(sighting)
        if isinstance(record, Found):
            return self._identify_by(record)
        inherited = sighting.environ.get("CLAUDE_CODE_SESSION_ID")
        if inherited:
            origin = "CLAUDE_CODE_SESSION_ID as Claude Code set it at the start"
            return self._identify_by(Found(inherited, origin))
        return self._identify_by(Missing([*record.searched, "CLAUDE_CODE_SESSION_ID is not set"]))

    def find_place(self, sighting: Sighting) -> Found:
        """Return the project's directory: the inherited one may be a parent or a worktree."""
        project = sighting.environ.get("CLAUDE_PROJECT_DIR")
        if not project:
            return Found(sighting.cwd, "inherited")
        home = find_home_directory(sighting.environ)
        if name_home(project, home, self.find_homes(sighting), self.title):
            # A session that began in a home and has moved since (`/cd`, a worktree) does not
            # update the variable, but starts new servers in its recorded directory.
            recorded = _find_recorded_directory(sighting)
            if recorded and is_same_directory(recorded.value, sighting.cwd):
                return Found(sighting.cwd, "inherited")
        return Found(project, "CLAUDE_PROJECT_DIR")

    def find_homes(self, sighting: Sighting) -> list[str]:
        """Return `~/.claude`, or the directory in CLAUDE_CONFIG_DIR."""
        return [_find_config_directory(sighting)]

    def read_environ(self, sighting: Sighting) -> Mapping[str, str]:
        """Return the environment that its process was started with, updated from its settings."""
        environ = dict(super().read_environ(sighting))
        for path in _list_settings(sighting) if environ else ():
            settings = _read_record(path, _SETTINGS_LIMIT) if os.path.exists(path) else None
            own = settings.get("env") if settings else None
            if isinstance(own, dict):
                environ |= {name: str(text) for name, text in own.items()}
        return environ

    def find_patience(self, sighting: Sighting, server: str) -> float | None:  # noqa: ARG002  # the same for all
        """Return MCP_TIMEOUT, if the host has the same as we have."""
        environ = self.read_environ(sighting)
        text = environ.get("MCP_TIMEOUT", "")
        # A project's settings, an organisation's or a flag may have changed it in the host; then
        # ours differs, which is a copy of the host's. So may an entry that sets it for its server.
        if not environ or sighting.environ.get("MCP_TIMEOUT", "") != text:
            return None
        if not text:
            return _PATIENCE
        return int(text) / 1000 if text.isdecimal() else None

    def find_contradiction(self, sighting: Sighting, place: Found) -> Found | None:
        """Return the directory in the record of the host's process, if it differs."""
        recorded = _find_recorded_directory(sighting)
        if recorded is None or is_same_directory(recorded.value, place.value):
            return None
        return recorded

    def follow_callers(self, sighting: Sighting) -> Callers:
        """Return a reader of the host's record, which `/clear` and `/resume` change."""
        return _ClaudeCallers(sighting) if sighting.process else Callers()


def _find_config_directory(sighting: Sighting) -> str:
    moved = sighting.environ.get("CLAUDE_CONFIG_DIR")
    return moved or find_home_directory(sighting.environ) + "/.claude"


def find_managed_directory(platform: str) -> str:
    """Return the directory of an organisation's files."""
    return _MANAGED.get(platform, "/etc/claude-code")


def _list_settings(sighting: Sighting) -> tuple[str, ...]:
    """Return the files whose `env` Claude Code adds to its own environment."""
    moved = sighting.environ.get("CLAUDE_CONFIG_DIR")
    return (
        f"{moved or find_home_directory(sighting.environ)}/.claude.json",
        f"{_find_config_directory(sighting)}/settings.json",
        f"{find_managed_directory(sys.platform)}/managed-settings.json",
    )


def _name_record(sighting: Sighting) -> str:
    pid = sighting.process.identity.pid if sighting.process else 0
    return f"{_find_config_directory(sighting)}/sessions/{pid}.json"


def _find_record(sighting: Sighting) -> Found | Missing:
    found = _find_recorded(sighting, "sessionId", "names no session")
    if isinstance(found, Found) and records.pick_id(found.value) is None:
        return Missing([f"{found.origin} names no session"])
    return found


def _find_recorded_directory(sighting: Sighting) -> Found | None:
    recorded = _find_recorded(sighting, "cwd", "names no directory")
    if isinstance(recorded, Missing) or not os.path.isabs(recorded.value):
        return None
    return recorded


def _find_recorded(sighting: Sighting, member: str, otherwise: str) -> Found | Missing:
    """Return a text from the record that the host's process keeps about itself."""
    process = sighting.process
    if process is None:
        return Missing(["no Claude Code process above us"])
    path = _name_record(sighting)
    record = _read_record(path)
    if record is None:
        return Missing([f"{path} does not exist or cannot be read"])
    value = record.get(member)
    if not isinstance(value, str):
        return Missing([f"{path} {otherwise}"])
    if not _started_then(str(record.get("procStart")), process.identity.start):
        return Missing([f"{path} belongs to an earlier process with the same pid"])
    return Found(value, path)


def _read_record(path: str, limit: int = _RECORD_LIMIT) -> dict[str, Json] | None:
    for _ in range(_TORN_READS):
        try:
            return records.parse(path, limit)
        except OSError:
            return None  # missing, or no such file as Claude Code writes
        except ValueError:
            time.sleep(_TORN_READ_INTERVAL)
    return None


def _started_then(recorded: str, start: str | None) -> bool:
    """Return whether the record's `procStart` is the time at which our host started.

    On Linux it is field 22 of `/proc/<pid>/stat`, on macOS `ps -o lstart=` in UTC.
    """
    kind, _, moment = (start or "").partition(":")
    if kind == "ticks":
        return recorded == moment
    if kind == "time":
        return recorded.split() == time.asctime(time.gmtime(float(moment))).split()
    return False


HOST = Claude()
