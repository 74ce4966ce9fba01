"""Have a living launcher replace its servers: it gets a signal, and its lease says what came of it.

A launcher with several servers (`--on-change isolate`) replaces all of them.

The signal kills a program that does not expect it. So it is sent only to a launcher whose lease
says that it is understood, and only if the process is still the one that wrote the lease.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from mcp_launch.machine import end_server
from mcp_launch.protocol import get_member
from mcp_launch.state import leases
from mcp_launch.system import read_namespace
from mcp_launch.values import ProcessIdentity

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable

    Outcome = Literal["restarted", "not running", "failed"]

# How long to wait for the new server: its open requests (10 s), the end of the old server, and
# a start that may install a package first.
LIMIT = 60.0

# How often to look at the lease.
_INTERVAL = 0.05

_RECONNECT = "reconnect the server in its host, or start a new session"


# The only server of a launch, or the first of several.
ONLY = "server"


class Restarted(NamedTuple):
    """What came of one request for one server."""

    outcome: Outcome
    before: int = 0  # the pid of the server; 0: none ran
    after: int = 0  # the pid of the new one
    seconds: float = 0.0
    problem: str = ""
    fix: str = ""


class AskedLauncher(NamedTuple):
    """A launcher that was asked to replace its servers."""

    path: str  # of its lease
    launch: str
    before: dict[str, int]  # the pids of its servers by their names; 0: it does not run
    done: dict[str, int]  # how many requests were carried out before, for each server
    asked: float  # when, in seconds since 1970
    launcher: Json  # its process


def ask(table: ProcessTable, directory: str, launch: str) -> AskedLauncher | Restarted:
    """Ask a launcher to replace its servers; return why not, if it cannot be asked."""
    path = f"{directory}/leases/{launch}.json"
    record = leases.read(path)
    if record is None:
        return _fail("its launch has just ended", _RECONNECT)
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
    before, done = _read_pids(record), _read_counts(record)
    asked = time.time()
    if not _send(table, record):
        return _fail("its launcher has ended, or is out of reach", _RECONNECT)
    launcher = get_member(record, "processes", "launcher")
    return AskedLauncher(path, launch, before, done, asked, launcher)


def _explain_no_restart(record: dict[str, Json]) -> Restarted:
    """Return why a launcher cannot be asked to replace its server."""
    if record.get("state") == leases.FAILED:
        why = get_member(record, "failure", "problem")
        return _fail(f"it could not be started: {why}", f"fix that, then {_RECONNECT}")
    return _fail("its launcher cannot be asked to: its host ignores SIGUSR1", _RECONNECT)


def wait(table: ProcessTable, request: AskedLauncher, limit: float = LIMIT) -> dict[str, Restarted]:
    """Wait until a launcher has carried out a request; return the outcomes by server."""
    while _is_running(table, request.launcher):
        record = leases.read(request.path)
        if record is not None and _is_done(request, record):
            return _read_outcomes(request, record)
        if time.time() - request.asked > limit:
            problem = f"it is not ready after {limit:.0f} s; its launcher goes on"
            return _fail_all(request, problem, "mcp-launch ps shows when it is")
        time.sleep(_INTERVAL)
    return _fail_all(request, "its launch has ended (mcp-launch logs)", _RECONNECT)


def _is_running(table: ProcessTable, launcher: Json) -> bool:
    """Return whether a launcher runs; one that was killed may wait for its host to notice."""
    pid = get_member(launcher, "pid")
    is_same = leases.judge(table, launcher) == "same"
    return is_same and isinstance(pid, int) and table.is_running(pid)


def _is_done(request: AskedLauncher, record: dict[str, Json]) -> bool:
    """Return whether every server that there was is replaced, or could not be."""
    counts = _read_counts(record)
    return all(counts.get(name, done + 1) > done for name, done in request.done.items())


def _read_outcomes(request: AskedLauncher, record: dict[str, Json]) -> dict[str, Restarted]:
    servers = {_name(one): one for one in leases.list_servers(record)}
    return {
        name: _read_outcome(before, servers.get(name, {}), _time(request))
        for name, before in request.before.items()
    }


def _read_outcome(before: int, server: dict[str, Json], seconds: float) -> Restarted:
    """Return what came of one server."""
    after, is_running = _read_pid(server), server.get("state") == "running"
    if is_running and after not in {0, before}:
        return Restarted("restarted", before, after, seconds)
    why = get_member(server, "failure", "problem")
    if isinstance(why, str):
        fix = "fix its cause, then run this again; until then, calls fail"
        return Restarted("failed", before, 0, seconds, why, fix)
    if after:
        # Another request had already replaced it when we asked.
        return Restarted("restarted", 0, after, seconds)
    return Restarted("not running", before)


def _send(table: ProcessTable, record: dict[str, Json]) -> bool:
    """Signal a launcher, if it is provably the one that wrote the lease."""
    launcher = get_member(record, "processes", "launcher")
    pid, start = get_member(launcher, "pid"), get_member(launcher, "start")
    if not isinstance(pid, int) or not isinstance(start, str):
        return False
    is_here = record.get("namespace") == read_namespace()
    return is_here and end_server.send(table, ProcessIdentity(pid, start), signal.SIGUSR1)


def _fail(problem: str, fix: str) -> Restarted:
    return Restarted("failed", problem=problem, fix=fix)


def _fail_all(request: AskedLauncher, problem: str, fix: str) -> dict[str, Restarted]:
    return {
        name: Restarted("failed", before, 0, _time(request), problem, fix)
        for name, before in request.before.items()
    }


def _time(request: AskedLauncher) -> float:
    return time.time() - request.asked


def _read_pids(record: dict[str, Json]) -> dict[str, int]:
    """Return the pid of each server that a launch has; 0: it does not run."""
    return {_name(one): _read_pid(one) for one in leases.list_servers(record)}


def _read_pid(server: dict[str, Json]) -> int:
    pid = get_member(server, "processes", "server", "pid")
    return pid if isinstance(pid, int) else 0


def _read_counts(record: dict[str, Json]) -> dict[str, int]:
    """Return how many requests were carried out, for each server."""
    servers = leases.list_servers(record)
    counts = {_name(one): one.get("restart_requests") for one in servers}
    return {name: count if isinstance(count, int) else 0 for name, count in counts.items()}


def _name(server: dict[str, Json]) -> str:
    name = server.get("name")
    return name if isinstance(name, str) else ONLY
