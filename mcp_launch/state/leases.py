"""Leases: our notes on disk that a launch is alive. One file each, so that none needs a lock.

A launch removes its lease, or its guardian does if the launch was killed. One that remains (after
a power cut) is removed by the next who reads it (see `launch.ended`), but only on proof of death:
the machine has been rebooted, or each of its processes is gone or its pid belongs to another. A
launch continues without a lease if it cannot be written.

The keys of a lease. A key whose value is not known yet is missing or null:

    version      the version of this format
    launch       the launch's id, which is also the name of the file
    mark         a hash of the server's command, the same for all launches of a server
    started      when, in seconds since 1970
    namespace    the pid namespace; the pids mean nothing in another one
    boot         the id of this boot of the machine
    processes    pid and start of launcher, keeper, guardian, server and host; while there is no
                 server, only of launcher and host
    server       the name that --server gives
    wire         "guarded" or "direct"
    lineage      verdict and evidence: does an ancestor of ours hold the other end of stdin?
    outer        the lease of the launch that our host runs under
    context      host, session, thread, project_root, cwd: each with its value and origin
    place_note   what kind of home the server's directory is; empty for a project
    is_host_directory  whether the server runs in its host's directory, not a session's
    runner       for a command such as `npx`: whether it was left out, what was started, and why
    binding      state, session, thread, evidence: what the server is bound to
    calls        how many calls there were; also `refusals`, and `last_call`, the time of the last
    restarts     how often the server was replaced
    restarts_on  the signal on which the launcher replaces its server; null: it would not understand
    restart_requests  how many of these signals were acted on
    state        "running", "starting", "not started", "resting", "failed", "ended" or "installing";
                 missing: running
    failure      problem and fix, if the state is "failed"
    since        when that state began, in seconds since 1970
    saved        the bytes of memory that the server had when it was last measured
    starts       how many servers this launch has started
    opened_with  the method that opened the connection
    noise        how many lines of the server's stdout were not messages
    roots        the directories that the host listed in `roots/list`
    package      what a runner installs while the state is "installing": that goes on without the
                 launcher and the host, at most `until`, in seconds since 1970
    backends     a list with one object for each server, if the launch has several (`--on-change
                 isolate`); see below
    shared       pool, key, sessions: the process that keeps the server for several launches
                 (`--share`), with its pid and start; the name of its record (see `state.pools`);
                 and how many sessions use it. Then `processes` has no keeper and no guardian, and
                 its `server` is the pool's
    shareable    whether several launches could use one server: "2026" if the connection is of
                 that era, whose specification allows it; "2025" if it is older and nothing seen
                 so far speaks against it (the server has sent no request and, since it was first
                 used, announced no changed list and no updated resource)

The keys of a server in `backends`. The first one is the server that the lease itself describes:

    name         "server", "server-2" and so on
    processes    pid and start of keeper, guardian and server; empty while there is no server
    binding, context, state, since, calls, last_call, saved, starts, restart_requests, failure
                 the server's own, with the meaning that they have in a lease

`open_record` makes the first five. `runtime.lease` adds the others, from what the core knows. The
guardian adds `package` and `until`.
"""

from __future__ import annotations

import os
import time

from mcp_launch import state
from mcp_launch.protocol import get_member, json_text
from mcp_launch.system import read_namespace
from mcp_launch.values import Found, ProcessIdentity, compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.errors import LaunchError
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Missing, Verdict

VERSION = 1

# The states of a launch without a server that nobody is waiting for.
NOT_STARTED = "not started"
RESTING = "resting"
FAILED = "failed"  # it could not be started; a later call tries again, if `restarts_on` is set
ENDED = "ended"  # it died, and the next call starts another
ABSENT = (NOT_STARTED, RESTING, FAILED, ENDED)

# What the servers of a launch have in common, if there are several.
_OF_LAUNCH = (
    *("version", "launch", "mark", "started", "namespace", "boot", "server", "wire", "lineage"),
    *("outer", "runner", "restarts_on", "opened_with", "shareable"),
)

# What each of them has of its own, without its processes: those are also among the launch's.
_OF_SERVER = (
    *("name", "binding", "context", "state", "since", "calls", "last_call"),
    *("saved", "starts", "restart_requests", "failure"),
)

# The names under which a server sees the facts of its launch in `_meta`.
_NAMES = {
    "host": "host",
    "session": "sessionId",
    "thread": "threadId",
    "project_root": "projectRoot",
    "cwd": "cwd",
}


class Lease:
    """The record of one launch, and the path of its file."""

    __slots__ = ("path", "record")

    def __init__(self, path: str, record: dict[str, object]) -> None:
        self.path = path
        self.record = record

    def write(self, **learned: object) -> None:
        """Add facts to the record and write it; only trace a failure to write."""
        self.record.update(learned)
        try:
            state.make_private(os.path.dirname(self.path))
            state.write_whole(self.path, json_text.encode(self.record).encode() + b"\n")
        except OSError as error:
            state.note(f"no lease: {self.path}: {error.strerror}")

    def remove(self) -> None:
        """Remove the file."""
        state.remove(self.path)


def describe_failure(error: LaunchError | None) -> dict[str, object] | None:
    """Return why a server could not be started."""
    return {"problem": error.problem, "fix": error.fix} if error is not None else None


def mark_command(argv: list[str]) -> str:
    """Return a hash that identifies a server without revealing its arguments."""
    value = 0x811C9DC5  # FNV-1a: importing a library would cost more than all of this module
    for byte in os.fsencode("\0".join(argv)):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def open_record(launch: str, argv: list[str]) -> dict[str, object]:
    """Return the first part of a launch's record, which must never hold a secret."""
    return {
        "version": VERSION,
        "launch": launch,
        "mark": mark_command(argv),
        "started": time.time(),
        "namespace": read_namespace(),
    }


def describe_processes(table: ProcessTable, **pids: int | None) -> dict[str, object]:
    """Return pid and start of each process, by its role in the launch."""
    return {part: _describe_process(table, pid) for part, pid in pids.items() if pid}


def list_confirmed_threads(
    table: ProcessTable, directory: str, host: int, argv: list[str]
) -> set[str]:
    """Return the threads that other living launches of the same server and host have confirmed."""
    threads: set[str] = set()
    mark = mark_command(argv)
    servers = (one for record in read_all(directory).values() for one in list_servers(record))
    for record in servers:
        binding, processes = record.get("binding"), record.get("processes")
        if not isinstance(binding, dict) or not isinstance(processes, dict):
            continue
        is_sibling = record.get("mark") == mark and _is_pid(processes.get("host"), host)
        if is_sibling and binding.get("state") == "confirmed":
            thread = binding.get("thread")
            if isinstance(thread, str) and judge(table, processes.get("launcher")) == "same":
                threads.add(thread)
    return threads


def is_stale(table: ProcessTable, record: dict[str, Json]) -> bool:
    """Return whether a launch is proven dead: another boot, or all of its processes gone.

    A launch without a server has no guardian either: then its launcher alone is the launch. The
    same holds for one whose server a pool keeps: that is not the launch's own.
    """
    if is_of_earlier_boot(table, record):
        return True
    if is_of_other_namespace(record):
        return False
    is_shared = isinstance(record.get("shared"), dict)
    return all(
        _has_ended(table, one.get("processes"), is_shared=is_shared) for one in list_servers(record)
    )


def is_of_earlier_boot(table: ProcessTable, record: dict[str, Json]) -> bool:
    """Return whether the machine was restarted since a record was written."""
    boot = record.get("boot")
    # Without /proc, both this boot and the recorded one are empty.
    return isinstance(boot, str) and bool(boot) and table.boot_id() not in {"", boot}


def is_of_other_namespace(record: dict[str, Json]) -> bool:
    """Return whether a container that shares our home wrote it: its pids mean nothing here."""
    return record.get("namespace", "") not in {"", read_namespace()}


def list_servers(record: dict[str, Json]) -> list[dict[str, Json]]:
    """Return a record for each server of a launch, as if each had a launch of its own.

    Those after the first are without the keys that only the first one has. One that is damaged
    has no processes at all, so that nothing is ever done because of it.
    """
    backends = record.get("backends")
    if not backends:
        return [record]
    listed = backends if isinstance(backends, list) else [None, backends]
    first = listed[0]
    own = {key: first[key] for key in _OF_SERVER if key in first} if isinstance(first, dict) else {}
    common = {key: record[key] for key in _OF_LAUNCH if key in record}
    return [record | own, *(common | _read_backend(record, one) for one in listed[1:])]


def _read_backend(record: dict[str, Json], backend: Json) -> dict[str, Json]:
    parts, own = record.get("processes"), get_member(backend, "processes")
    if not isinstance(backend, dict) or not isinstance(parts, dict) or not isinstance(own, dict):
        return {"processes": None}
    whole = {part: parts[part] for part in ("launcher", "host") if part in parts}
    return backend | {"processes": whole | own}


def _has_ended(table: ProcessTable, processes: Json, *, is_shared: bool) -> bool:
    """Return whether a launcher and its server are proven to be gone."""
    if not isinstance(processes, dict) or judge(table, processes.get("launcher")) != "different":
        return False
    if is_shared or processes.keys().isdisjoint(("keeper", "guardian", "server")):
        return True
    return all(is_gone(table, processes.get(part)) for part in ("guardian", "server"))


def is_gone(table: ProcessTable, recorded: Json) -> bool:
    """Return whether a process below a launcher that is gone is proven to be gone, too.

    A server that fails at once ends, with its guardian, before its start can be recorded. Then
    it is gone if nothing has its pid. (Of a launcher that would prove nothing: where no process
    can be seen, no start is recorded.)
    """
    if isinstance(recorded, dict) and recorded.get("start") is None:
        pid = recorded.get("pid")
        return isinstance(pid, int) and table.look(pid) is None
    return judge(table, recorded) == "different"


def _describe_process(table: ProcessTable, pid: int) -> dict[str, object]:
    seen = table.look(pid)
    return {"pid": pid, "start": seen.identity.start if seen else None}


def judge(table: ProcessTable, recorded: Json) -> Verdict:
    """Compare a recorded process with the one that has its pid now.

    An incomplete record is "unknown", on which nothing is ever removed.
    """
    if not isinstance(recorded, dict):
        return "unknown"
    pid, start = recorded.get("pid"), recorded.get("start")
    if not isinstance(pid, int) or not isinstance(start, str):
        return "unknown"
    seen = table.look(pid)
    if seen is None:
        return "different"
    return compare(ProcessIdentity(pid, start), seen.identity)


def _is_pid(recorded: Json, pid: int) -> bool:
    return isinstance(recorded, dict) and recorded.get("pid") == pid


def read(path: str) -> dict[str, Json] | None:
    """Return one record; None if it is missing, or another user may have written it.

    All leases are read here, because servers are ended and calls routed by what they say.
    """
    content = state.read(path)
    try:
        record = json_text.parse(content) if content else None
    except (ValueError, RecursionError):
        return None  # not a lease
    return record if isinstance(record, dict) else None


def read_all(directory: str) -> dict[str, dict[str, Json]]:
    """Return every trustworthy record by its path, the oldest first (their ids are times)."""
    records: dict[str, dict[str, Json]] = {}
    try:
        names = os.listdir(directory)
    except OSError:
        return {}  # nothing has been launched yet
    for name in sorted(names):
        if name.startswith(".") or not name.endswith(".json"):
            continue
        path = f"{directory}/{name}"
        record = read(path)
        if record is not None:
            records[path] = record
    return records


def describe_facts(**facts: Found | Missing) -> dict[str, Json]:
    """Return the known facts of a launch, each with its origin."""
    return {
        name: {"value": fact.value, "origin": fact.origin}
        for name, fact in facts.items()
        if isinstance(fact, Found)
    }


def name_context(facts: Json, launch: Json, state: Json, evidence: Json) -> dict[str, Json]:
    """Return the facts of a lease under the names that a server sees."""
    named: dict[str, Json] = {}
    origin: dict[str, Json] = {}
    for name, seen in _NAMES.items():
        fact = facts.get(name) if isinstance(facts, dict) else None
        if isinstance(fact, dict):
            named[seen] = fact.get("value")
            origin[seen] = fact.get("origin")
    if evidence:
        origin["binding"] = evidence
    return {**named, "launchId": launch, "binding": state, "origin": origin}
