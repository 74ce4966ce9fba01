"""Kimi Code: the only session of the project that was written to since its process started.

It shows nothing that belongs to one call: it opens `wire.jsonl` of a session for a moment
whenever it appends to it, so at a call another session's may be open, or none. But every session
that it runs is written to before it can call anything, in a directory of its project. If that
was only one since the host's process started, it is the caller.

One server serves all sessions of a project in an editor's agent, and `/new` in a terminal keeps
it. From the second session on, a call may be any session's. Its command line is erased, so at the
start it is unknown whether there will be a second.
"""

from __future__ import annotations

import os

from mcp_launch.hosts import HostIdentity, Identity
from mcp_launch.hosts.callers import RecordCallers
from mcp_launch.hosts.records import find_start
from mcp_launch.values import Missing, Stamp, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Caller, Callers, Sighting

# What a session's record is called, below the session's directory.
_RECORD = "agents/main/wire.jsonl"

# How many seconds before the host's start a record may have been written and still count: the
# clocks of processes and files differ. One too many costs an answer, one too few a wrong one.
_MARGIN = 1.0

# How many sessions of a project are looked at for each call: resuming any of them changes nothing
# but its own record.
_SESSIONS_LIMIT = 500

# How much of a directory's SHA-256 is in the name of the directory with its sessions.
_HASH_LENGTH = 12


class _Bucket:
    """The directory with the sessions of a project."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp = Stamp()
        self._records: list[str] = []

    def list_records(self) -> list[str]:
        """Return where the records of its sessions are, or would be."""
        try:
            if self._stamp.may_have_changed(os.stat(self._path)):
                names = os.listdir(self._path)
                self._records = [f"{self._path}/{name}/{_RECORD}" for name in names]
        except OSError:
            return []  # removed since
        return self._records


class _KimiCallers(RecordCallers):
    """Lists the sessions that were written to, until there are several."""

    def __init__(self, sighting: Sighting) -> None:
        super().__init__()
        self._sighting = sighting
        self._start = find_start(sighting)
        self._is_shared = False
        self._buckets: list[_Bucket] = []

    def read_record(self) -> Caller | None:
        """Return the only session since the host's start; None if there were several."""
        if self._is_shared or self._start is None:
            return None
        self._buckets = self._buckets or [_Bucket(one) for one in _find_buckets(self._sighting)]
        records = [path for bucket in self._buckets for path in bucket.list_records()]
        if len(records) > _SESSIONS_LIMIT:
            return None
        written = [path for path in records if _was_written(path, self._start)]
        self._is_shared = len(written) > 1
        if len(written) != 1:
            return None
        session = written[0].removesuffix(f"/{_RECORD}")
        self.origins = (f"{session}, the only one since Kimi Code's start", "", "")
        return (os.path.basename(session), None, None)


class Kimi(HostIdentity):
    """How Kimi Code identifies sessions."""

    told_later = ("session",)

    def __init__(self) -> None:
        super().__init__("kimi", "Kimi Code", "many sessions")

    def identify(self, sighting: Sighting) -> Identity:  # noqa: ARG002  # nothing tells at the start
        """Return that the session is not known yet."""
        why = "Kimi Code may have one server for several sessions"
        return self._identify_by(Missing([why]))

    def follow_callers(self, sighting: Sighting) -> Callers:
        """Return a reader of the sessions that were written to."""
        return _KimiCallers(sighting)


def _find_buckets(sighting: Sighting) -> list[str]:
    """Return the directories with the sessions of the server's directory."""
    if not sighting.cwd:
        return []  # it is not known
    import hashlib  # below Kimi Code only, and not at the start

    moved = sighting.environ.get("KIMI_CODE_HOME")
    sessions = f"{moved or find_home_directory(sighting.environ) + '/.kimi-code'}/sessions"
    endings = tuple(
        "_" + hashlib.sha256(os.fsencode(path.rstrip("/"))).hexdigest()[:_HASH_LENGTH]
        for path in {sighting.cwd, os.path.realpath(sighting.cwd)}
    )
    try:
        names = sorted(os.listdir(sessions))
    except OSError:
        return []  # it has no sessions yet
    return [f"{sessions}/{one}" for one in names if one.startswith("wd_") and one.endswith(endings)]


def _was_written(record: str, start: float) -> bool:
    """Return whether a session's record was written to since then."""
    try:
        return os.stat(record).st_mtime >= start - _MARGIN
    except OSError:
        return False  # not of a session, or removed since


HOST = Kimi()
