"""Codex: one process may run many threads, each with its own server process.

Codex does not give a server its thread id. But before Codex (0.147 and later) starts a
thread's servers it holds `thread-writer-locks/<thread>.lock` open, so the open locks of
its process are the candidates. A single one is almost certain. Several are a guess, and a
poor one when threads start at once: all their locks exist before the first server does, and
no directory is recorded yet, so only one server in N gets its own thread.

An open rollout without a lock is not a candidate: it is written only with the first turn,
so when a server starts it belongs to an older thread (Codex 0.125 after `/new`: three times
out of three). `CODEX_THREAD_ID` in our environment belongs to an outer Codex, in whose shell
this one was started: it is never trusted.
"""

from __future__ import annotations

import os
import time

from mcp_launch.hosts import Callers, HostIdentity, Identity, Thread, pick_text
from mcp_launch.values import (
    Found,
    Missing,
    find_home_directory,
    is_same_directory,
    walk_upward,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Caller, Sighting
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable

# How many seconds it waits for a server without `startup_timeout_sec`.
_PATIENCE = 30.0

# An organisation's settings are in here.
_SHARED = "/etc/codex"

_LOCKS = "/thread-writer-locks/"
_ID_LENGTH = 36

# The first line of a rollout contains the model's whole instructions. What we need comes
# before them, but JSON is parsed whole, so read enough for a line of any sane size.
_ROLLOUT_HEAD = 1 << 20


# Where a call names its session and its thread.
_IN_META = ("the call's _meta.sessionId", "the call's _meta.threadId", "")
_IN_TURN = 'the call\'s _meta["x-codex-turn-metadata"]'


class _CodexCallers(Callers):
    origins: tuple[str, str, str] = _IN_META
    names = ("threadId", "sessionId", "x-codex-turn-metadata")

    def read(self, meta: dict[str, Json]) -> Caller | None:
        thread, session = meta.get("threadId"), meta.get("sessionId")
        if isinstance(thread, str) and isinstance(session, str) and thread:
            self.origins = _IN_META
            return (session or None, thread, None)
        # Codex before 0.157 names the session, and 0.117 to 0.122 also the thread, only in here.
        member = meta.get("x-codex-turn-metadata")
        turn = member if isinstance(member, dict) else {}
        thread = pick_text(meta, "threadId") or pick_text(turn, "thread_id")
        session = pick_text(meta, "sessionId") or pick_text(turn, "session_id")
        self.origins = (
            _IN_META[0] if "sessionId" in meta else _IN_TURN,
            _IN_META[1] if "threadId" in meta else _IN_TURN,
            "",
        )
        return (session, thread, None) if thread else None


class Codex(HostIdentity):
    """How Codex identifies threads."""

    told_later = ("session", "thread")
    thread_variable = "CODEX_THREAD_ID"  # which codex#19937 asks for
    keeps_variables_from_servers = True
    ignores_changed_lists = True  # unless its feature `mcp_tool_list_changed` is on

    def __init__(self) -> None:
        super().__init__("codex", "Codex", "one thread")

    def identify(self, sighting: Sighting) -> Identity:
        """Return the thread that we serve, from the open threads of the process that started us."""
        process = sighting.process
        if process is None or not sighting.is_starter:
            nothing = Missing(["the Codex process above us did not start us directly"])
            return Identity(nothing, nothing)
        pid = process.identity.pid
        if self.only_looks(sighting):
            nothing = Missing([f"started in Codex's own home {sighting.cwd}: without a thread"])
            return Identity(nothing, nothing)
        threads = self.list_open_threads(sighting.table, pid)
        if not threads:
            nothing = Missing([f"no open thread lock in Codex's process {pid}"])
            return Identity(nothing, nothing)
        return _choose(threads, sighting, pid)

    def only_looks(self, sighting: Sighting) -> bool:
        """Return whether we are started without a thread: for a list of servers."""
        return os.path.realpath(sighting.cwd) in map(os.path.realpath, self.find_homes(sighting))

    def find_homes(self, sighting: Sighting) -> list[str]:
        """Return CODEX_HOME: Codex starts a server there if it is not for a thread."""
        homes = [find_home_directory(sighting.environ) + "/.codex"]
        if sighting.process is not None:
            pid = sighting.process.identity.pid
            moved = sighting.table.read_variable(pid, "CODEX_HOME")
            homes += [moved] if moved else []
        return homes

    def find_contradiction(self, sighting: Sighting, place: Found) -> Found | None:
        """Return the directory of the newest thread, if an app server started us in its own.

        Codex starts a server in its thread's directory, which may be newer than the record (a
        thread resumed elsewhere), or in the one that the entry names: both are the user's
        choice. Only the directory of the Codex process itself is not, and only if it is an app
        server, which the user did not start there for this thread. In CODEX_HOME the server is
        not for a thread.
        """
        process = sighting.process
        if process is None or not sighting.is_starter:
            return None
        if any(is_same_directory(place.value, home) for home in self.find_homes(sighting)):
            return None
        table, pid = sighting.table, process.identity.pid
        own = table.read_cwd(pid)
        if not self.is_daemon(table, pid) or not is_same_directory(own, place.value):
            return None
        threads = self.list_open_threads(table, pid)
        # We may be for a thread without a record.
        if any(one.cwd is None or is_same_directory(one.cwd, place.value) for one in threads):
            return None
        newest = max(threads, key=lambda one: _created(one.id), default=None)
        if newest is None or newest.cwd is None:
            return None
        return Found(newest.cwd, f"the record of Codex's thread {newest.id}")

    def find_patience(self, sighting: Sighting, server: str) -> float | None:
        """Return the entry's `startup_timeout_sec`, if nothing else can have changed it."""
        process = sighting.process
        if process is None or not sighting.is_starter:
            return None
        pid = process.identity.pid
        # The client of an app server can change any setting for its thread.
        if self.is_daemon(sighting.table, pid) or _has_settings(sighting.table.read_argv(pid)):
            return None
        moved = sighting.table.read_variable(pid, "CODEX_HOME")
        own = f"{moved or find_home_directory(sighting.environ) + '/.codex'}/config.toml"
        others = [f"{one}/.codex/config.toml" for one in walk_upward(sighting.cwd)]
        if any(os.path.exists(path) for path in (_SHARED, *others) if path != own):
            return None
        return _read_patience(own, server)

    def is_daemon(self, table: ProcessTable, pid: int) -> bool:
        """Return whether a process is an app server."""
        return "app-server" in table.read_argv(pid)

    def list_open_threads(self, table: ProcessTable, pid: int) -> list[Thread]:
        """Return the threads whose locks a process holds."""
        return list_open_threads(table.list_open_files(pid))

    def follow_callers(self, sighting: Sighting) -> Callers:  # noqa: ARG002  # each call has it
        """Return a reader of the thread in each call, which overrides every guess."""
        return _CodexCallers()


def _has_settings(argv: list[str]) -> bool:
    """Return whether a command line may contain settings, or names a profile that has some."""
    return any(word.startswith(("-c", "--config", "-p", "--profile")) for word in argv)


def _read_patience(path: str, server: str) -> float | None:
    import tomllib  # only for a server that takes long

    try:
        with open(path, "rb") as file:
            settings = tomllib.load(file)
        entry = settings["mcp_servers"][server]
        for key, second in (("startup_timeout_sec", 1), ("startup_timeout_ms", 1000)):
            if key in entry:
                return float(entry[key]) / second
    except (OSError, ValueError, LookupError, TypeError):
        return None  # it is not in this file, or Codex reads the file in another way
    return None if "profile" in settings else _PATIENCE


def list_open_threads(paths: list[str]) -> list[Thread]:
    """Return the threads whose locks are among a process's open files."""
    locks = [path for path in paths if _LOCKS in path and path.endswith(".lock")]
    ids = {os.path.basename(path)[: -len(".lock")] for path in locks}
    rollouts = {
        path[-_ID_LENGTH - 6 : -6]: path
        for path in paths
        if "/sessions/" in path and "/rollout-" in path and path.endswith(".jsonl")
    }
    return [_describe(name, rollouts.get(name)) for name in sorted(ids) if _is_id(name)]


def _is_id(name: str) -> bool:
    # Excludes `.coordination.lock`.
    return len(name) == _ID_LENGTH and name.count("-") == 4  # noqa: PLR2004  # a UUID's


def _describe(thread_id: str, rollout: str | None) -> Thread:
    if rollout is None:  # it appears with the first turn
        return Thread(thread_id, None, None)
    from mcp_launch.protocol import json_text  # most launches have no rollout to read

    try:
        with open(rollout, "rb") as file:
            record = json_text.parse(file.readline(_ROLLOUT_HEAD))
    except (OSError, ValueError, RecursionError):
        # It is being written, was just moved to the archive, or is not Codex's.
        record = None
    payload = record.get("payload") if isinstance(record, dict) else None
    if not isinstance(payload, dict):
        return Thread(thread_id, None, None)
    session, cwd = payload.get("session_id"), payload.get("cwd")
    return Thread(
        thread_id,
        session if isinstance(session, str) else None,
        cwd if isinstance(cwd, str) else None,
    )


def _choose(threads: list[Thread], sighting: Sighting, pid: int) -> Identity:
    left = _drop_elsewhere(threads, sighting)
    if len(left) > 1:
        taken = sighting.list_confirmed_threads()
        left = [one for one in left if one.id not in taken]
    if not left:
        seen = f"{len(threads)} open threads in Codex's process {pid}, all in other directories"
        return Identity(Missing([seen]), Missing([seen]))
    thread = left[0] if len(left) == 1 else _guess(left, sighting)
    evidence = (
        f"the only open thread of Codex's process {pid} that fits"
        if len(left) == 1
        else f"a guess: the newest of {len(left)} open threads of Codex's process {pid}"
    )
    return Identity(
        # A root thread is its own session. A sub-agent has a rollout by the time its server
        # starts, and the rollout names the root.
        Found(thread.session or thread.id, evidence),
        Found(thread.id, evidence),
        "tentative",
        evidence,
        is_guess=len(left) > 1,
    )


def _drop_elsewhere(threads: list[Thread], sighting: Sighting) -> list[Thread]:
    """Return the threads without those that are recorded in another directory.

    Only an app server can have threads of other directories. In `codex exec` and the like, a
    different directory only means that the server's entry has a `cwd`.
    """
    here = os.path.realpath(sighting.cwd)
    left = [one for one in threads if one.cwd is None or os.path.realpath(one.cwd) == here]
    if left or sighting.process is None:
        return left
    argv = sighting.table.read_argv(sighting.process.identity.pid)
    return [] if "app-server" in argv else threads


def _guess(threads: list[Thread], sighting: Sighting) -> Thread:
    """Return the newest thread that is older than our process."""
    age = sighting.table.started_seconds_ago(os.getpid())
    started = time.time() - (age or 0.0)
    older = [one for one in threads if _created(one.id) <= started]
    return max(older or threads, key=lambda one: _created(one.id))


def _created(thread_id: str) -> float:
    # Thread ids are UUIDv7: the first 48 bits count milliseconds since 1970.
    try:
        return int(thread_id.replace("-", "")[:12], 16) / 1000
    except ValueError:
        return 0.0


HOST = Codex()
