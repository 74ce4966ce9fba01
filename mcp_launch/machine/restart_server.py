"""Have a living launcher replace its server: it gets a signal, and its lease says what came of it.

The signal kills a program that does not expect it. So it is sent only to a launcher whose lease
says that it is understood, and only if the process is still the one that wrote the lease.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from mcp_launch.machine import launch_logs
from mcp_launch.protocol import get_member
from mcp_launch.state import launch_log, leases
from mcp_launch.system import read_namespace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable

    Outcome = Literal["restarted", "not running", "failed"]

# How long to wait for the new server: its open requests (10 s), the end of the old server, and
# a start that may install a package first.
LIMIT = 60.0

# How often to look at the lease.
_INTERVAL = 0.05

_RECONNECT = "reconnect the server in its host, or start a new session"


class Restarted(NamedTuple):
    """What came of one request."""

    outcome: Outcome
    before: int = 0  # the pid of the server; 0: none ran
    after: int = 0  # the pid of the new one
    seconds: float = 0.0
    problem: str = ""
    fix: str = ""


class AskedLauncher(NamedTuple):
    """A launcher that was asked to replace its server."""

    path: str  # of its lease
    launch: str
    before: tuple[int, ...]  # the pids of its servers
    done: int  # how many requests it had carried out before
    asked: float  # when, in seconds since 1970
    launcher: Json  # its process


def ask(table: ProcessTable, directory: str, launch: str) -> AskedLauncher | Restarted:
    """Ask a launcher to replace its server; return why not, if it cannot be asked."""
    path = f"{directory}/leases/{launch}.json"
    record = leases.read(path)
    if record is None:
        return _fail("its launch has just ended", _RECONNECT)
    before = _list_servers(record)
    if record.get("wire") == "direct":
        return _fail(
            "it was started with --direct: its host talks to it without mcp-launch",
            f"{_RECONNECT}; without --direct it can be restarted",
        )
    states = {one.get("state") for one in leases.list_servers(record)}
    if states <= {leases.NOT_STARTED, leases.RESTING, leases.ENDED}:
        return Restarted("not running")
    if record.get("restarts_on") != "SIGUSR1":
        return _explain_no_restart(record)
    count = _read_count(record)
    asked = time.time()
    if not _send(table, record):
        return _fail("its launcher has ended, or is out of reach", _RECONNECT)
    launcher = get_member(record, "processes", "launcher")
    return AskedLauncher(path, launch, before, count, asked, launcher)


def _explain_no_restart(record: dict[str, Json]) -> Restarted:
    """Return why a launcher cannot be asked to replace its server."""
    if record.get("state") == leases.FAILED:
        why = get_member(record, "failure", "problem")
        return _fail(f"it could not be started: {why}", f"fix that, then {_RECONNECT}")
    why = "its host ignores SIGUSR1" if "restarts_on" in record else "of an earlier version"
    return _fail(f"its launcher cannot be asked to: {why}", _RECONNECT)


def wait(
    table: ProcessTable, request: AskedLauncher, environ: Mapping[str, str], limit: float = LIMIT
) -> Restarted:
    """Wait until a launcher has carried out a request."""
    while _is_running(table, request.launcher):
        record = leases.read(request.path)
        if record is not None and _read_count(record) > request.done:
            return _read_outcome(request, record, environ)
        if time.time() - request.asked > limit:
            return _fail(
                f"it is not ready after {limit:.0f} s; its launcher goes on",
                "mcp-launch ps shows when it is",
                request,
            )
        time.sleep(_INTERVAL)
    why = _find_failure(request, environ)
    return _fail(f"its launch has ended{f': {why}' if why else ''}", _RECONNECT, request)


def _is_running(table: ProcessTable, launcher: Json) -> bool:
    """Return whether a launcher runs; one that was killed may wait for its host to notice."""
    pid = get_member(launcher, "pid")
    is_same = leases.judge(table, launcher) == "same"
    return is_same and isinstance(pid, int) and table.is_running(pid)


def _read_outcome(
    request: AskedLauncher, record: dict[str, Json], environ: Mapping[str, str]
) -> Restarted:
    after = _list_servers(record)
    fresh = [pid for pid in after if pid not in request.before]
    states = [one.get("state") for one in leases.list_servers(record)]
    if "running" in states and fresh:
        return Restarted("restarted", _get_first(request.before), fresh[0], _time(request))
    if why := _find_failure(request, environ):
        return _fail(why, "fix its cause, then run this again; until then, calls fail", request)
    if after:
        # Another request had already replaced it when we asked.
        return Restarted("restarted", 0, after[0], _time(request))
    return Restarted("not running", _get_first(request.before))


def _find_failure(request: AskedLauncher, environ: Mapping[str, str]) -> str:
    directory = launch_log.find_directory(environ)
    return launch_logs.find_failure(directory, request.launch, request.asked)


def _send(table: ProcessTable, record: dict[str, Json]) -> bool:
    """Signal a launcher, if it is provably the one that wrote the lease."""
    launcher = get_member(record, "processes", "launcher")
    pid = get_member(launcher, "pid")
    if not isinstance(pid, int) or record.get("namespace") != read_namespace():
        return False
    try:
        if not hasattr(os, "pidfd_open"):
            if leases.judge(table, launcher) != "same":
                return False
            os.kill(pid, signal.SIGUSR1)
            return True
        # A pidfd stays with its process, whatever happens after the check.
        handle = os.pidfd_open(pid)
        try:
            if leases.judge(table, launcher) != "same":
                return False
            signal.pidfd_send_signal(handle, signal.SIGUSR1)
        finally:
            os.close(handle)
    except (OSError, OverflowError):
        return False  # it has ended, is another user's, or never had such a pid
    return True


def _fail(problem: str, fix: str, request: AskedLauncher | None = None) -> Restarted:
    before = _get_first(request.before) if request else 0
    return Restarted("failed", before, 0, _time(request) if request else 0.0, problem, fix)


def _time(request: AskedLauncher) -> float:
    return time.time() - request.asked


def _list_servers(record: dict[str, Json]) -> tuple[int, ...]:
    """Return the pids of the servers that a launch has at the moment."""
    servers = leases.list_servers(record)
    pids = (get_member(one, "processes", "server", "pid") for one in servers)
    return tuple(pid for pid in pids if isinstance(pid, int))


def _get_first(pids: tuple[int, ...]) -> int:
    return pids[0] if pids else 0


def _read_count(record: dict[str, Json]) -> int:
    count = record.get("restart_requests")
    return count if isinstance(count, int) else 0
