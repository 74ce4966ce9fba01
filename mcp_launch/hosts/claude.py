"""Claude Code: one server process per session, and `/clear` changes the session under it.

`~/.claude/sessions/<pid>.json` is the truth now, if its `procStart` is the host's own
start (pids are reused). It is written without a rename and may appear after us, so a
torn or absent file is looked at again for a moment. `CLAUDE_CODE_SESSION_ID` is the id
at the time of the spawn; everything started from Claude's shell inherits it, so it is
believed only when the nearest host is a claude.
"""

from __future__ import annotations

import os
import time

from mcp_launch import jsontext
from mcp_launch.hosts.host import Callers, Found, Host, Identity, Missing, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts.host import Caller, Sighting
    from mcp_launch.jsontext import Json

# How often a torn read is tried again, and how long between: the write takes
# microseconds, so this is generous and still costs a launch nothing to speak of.
_TORN_READS = 20
_TORN_READ_INTERVAL = 0.001

# A file that was written so shortly before it was read may have been written once more
# since, within one tick of the file system's clock: then it is read again the next time.
_CLOCK_TICK = 0.05


class _Callers(Callers):
    """The host's record, read again when it has changed."""

    is_in_request = False

    def __init__(self, sighting: Sighting) -> None:
        self._sighting = sighting
        self._path = _name_record(sighting)
        self._known: tuple[float, int, int] | None = None  # when it was written, size, inode
        self._caller: Caller | None = None
        self.origins = (f"{self._path}, at the call", "", "")

    def read(self, meta: dict[str, Json]) -> Caller | None:  # noqa: ARG002  # it tells no session
        """Return the session of the moment; what was last known while there is no record."""
        try:
            seen = os.stat(self._path)
        except OSError:
            return self._caller
        mark = (seen.st_mtime, seen.st_size, seen.st_ino)
        if mark != self._known:
            is_settled = time.time() - seen.st_mtime > _CLOCK_TICK
            self._known = mark if is_settled else None
            record = _find_record(self._sighting)
            if isinstance(record, Found):
                self._caller = (record.value, None, None)
        return self._caller


class Claude(Host):
    """The facts."""

    told_later = ("session",)

    def __init__(self) -> None:
        super().__init__("claude", "Claude Code", "one session at a time")

    def identify(self, sighting: Sighting) -> Identity:
        """Take the record of the host's process, else what it put into our environment."""
        record = _find_record(sighting)
        if isinstance(record, Found):
            return Identity(record, self._no_thread(), "tentative", record.origin)
        inherited = sighting.environ.get("CLAUDE_CODE_SESSION_ID")
        if inherited:
            found = Found(inherited, "CLAUDE_CODE_SESSION_ID as Claude Code set it at the start")
            return Identity(found, self._no_thread(), "tentative", found.origin)
        searched = [*record.searched, "CLAUDE_CODE_SESSION_ID is not set"]
        return Identity(Missing(searched), self._no_thread())

    def find_place(self, sighting: Sighting) -> Found:
        """Return the project's directory: the inherited one may be a parent or a worktree."""
        project = sighting.environ.get("CLAUDE_PROJECT_DIR")
        if project:
            return Found(project, "CLAUDE_PROJECT_DIR")
        return Found(sighting.cwd, "inherited")

    def find_homes(self, sighting: Sighting) -> list[str]:
        """Return `~/.claude`, or where it was moved to."""
        return [_find_config_directory(sighting)]

    def follow_callers(self, sighting: Sighting) -> Callers:
        """Look at the host's record for each request: `/clear` and `/resume` change it."""
        return _Callers(sighting) if sighting.process else Callers()

    def default_variables(
        self,
        session: Found | Missing,
        thread: Found | Missing,  # noqa: ARG002  # it has none
    ) -> dict[str, Found]:
        """Return the session as it is now: the variable Claude Code set may be older."""
        return {"CLAUDE_CODE_SESSION_ID": session} if isinstance(session, Found) else {}


def _find_config_directory(sighting: Sighting) -> str:
    moved = sighting.environ.get("CLAUDE_CONFIG_DIR")
    return moved or find_home_directory(sighting.environ) + "/.claude"


def _name_record(sighting: Sighting) -> str:
    pid = sighting.process.identity.pid if sighting.process else 0
    return f"{_find_config_directory(sighting)}/sessions/{pid}.json"


def _find_record(sighting: Sighting) -> Found | Missing:
    process = sighting.process
    if process is None:
        return Missing(["no Claude Code process above us"])
    identity = process.identity
    path = _name_record(sighting)
    record = _read_record(path)
    if record is None:
        return Missing([f"{path} does not exist or cannot be read"])
    session = record.get("sessionId")
    if not isinstance(session, str):
        return Missing([f"{path} names no session"])
    if not _started_then(str(record.get("procStart")), identity.start):
        return Missing([f"{path} is of an earlier process with the same pid"])
    return Found(session, f"{path}")


def _read_record(path: str) -> dict[str, Json] | None:
    for _ in range(_TORN_READS):
        try:
            with open(path, "rb") as file:
                record = jsontext.parse(file.read())
        except (OSError, RecursionError):
            return None  # not there, or nested deeper than anything that Claude Code writes
        except ValueError:
            time.sleep(_TORN_READ_INTERVAL)
            continue
        return record if isinstance(record, dict) else None
    return None


def _started_then(recorded: str, start: str | None) -> bool:
    """Tell whether the record's `procStart` is the moment our host started.

    On Linux it is field 22 of `/proc/<pid>/stat`, on macOS `ps -o lstart=` in UTC.
    """
    kind, _, moment = (start or "").partition(":")
    if kind == "ticks":
        return recorded == moment
    if kind == "time":
        return recorded.split() == time.asctime(time.gmtime(float(moment))).split()
    return False


HOST = Claude()
