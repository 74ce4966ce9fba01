"""What it costs that several sessions share one server: the time of a call, and the memory.

The time is that of a round trip while a second session is connected and idle, beside one through
the minimal relay: as a whole, and as what each adds to a bare server. The memory is the
proportional set size (PSS) of everything below twenty sessions and of the pool that keeps their
server, beside one bare server. That server comes from npm and is started by node itself, so that
no runner is counted on either side.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import HERE, Connection, make_line, on_one_core, say
from crowd import Crowd, locate_cache, read_megabytes

if TYPE_CHECKING:
    from bench import Bench

# The options that make launches share a server.
SHARE = ["--share", "project"]

# How long a round trip may take at most, in round trips through the minimal relay.
ROUND_TRIP_BOUND = 3.0

SESSIONS = 20

# When all of them are on standby after their last call, in seconds: they wait a minute.
UNTIL_STANDBY = 70.0

# What all sessions together may take: so many bare servers, and so many megabytes a session.
SERVERS_BOUND = 1.5
SESSION_BOUND = 4.0

PACKAGE = "@modelcontextprotocol/server-everything"
CALL = {"name": "echo", "arguments": {"message": "hello"}}

# How long guardians and pools are busy after a start, in seconds: with their own imports, and with
# what is left of earlier launches.
SETTLED = 2.0

# How long npm may take to install the package, in seconds.
INSTALL_LIMIT = 300.0


def measure(bench: Bench, call: bytes) -> None:
    """Measure both."""
    measure_round_trip(bench, call)
    if shutil.which("npm") and shutil.which("node"):
        measure_memory(bench)
    else:
        say("\nmemory of a shared server: not measured, because npm is not installed")


def measure_round_trip(bench: Bench, call: bytes) -> None:
    """Time a call and its answer through a server that a second session has joined."""
    starts, rounds, calls = (3, 10, 200) if bench.quick else (8, 30, 200)
    prefixes = {name: bench.behind[name] for name in ("bare", "minimal relay", "guarded")}
    relay = bench.behind["minimal relay"]
    prefixes["two relays"] = [*relay, *relay]  # no pool with a process of its own can be faster
    prefixes["shared"] = [bench.launcher, "run", *SHARE, "--"]
    if "before" in bench.behind:
        prefixes["shared before"] = [bench.behind["before"][0], "run", *SHARE, "--"]
    times: dict[str, list[float]] = {name: [] for name in prefixes}
    with on_one_core():
        for _ in range(starts):
            for name, seconds in _time_round_trips(bench, prefixes, call, rounds, calls).items():
                times[name].append(seconds)
    middle = {name: statistics.median(values) for name, values in times.items()}
    bare = middle["bare"]
    relayed = middle["minimal relay"]
    say(
        f"\nround trip, a call of one of two sessions: bare {bare * 1e6:.1f} us, "
        f"through the minimal relay {relayed * 1e6:.1f} us"
    )
    for name in [*prefixes][2:]:
        bound = f" (bound {ROUND_TRIP_BOUND})" if name == "shared" else ""
        taken, added = middle[name] / relayed, (middle[name] - bare) / (relayed - bare)
        say(
            f"  {name:14} takes {middle[name] * 1e6:5.1f} us, {taken:4.2f} of the minimal relay"
            f"{bound}; adds {added:4.2f} of what that adds"
        )


def _time_round_trips(
    bench: Bench, prefixes: dict[str, list[str]], call: bytes, rounds: int, calls: int
) -> dict[str, float]:
    idle = [_connect(bench, name, prefixes[name]) for name in prefixes if "shared" in name]
    connections = {name: _connect(bench, name, words) for name, words in prefixes.items()}
    times: dict[str, list[float]] = {name: [] for name in connections}
    for connection in connections.values():
        for _ in range(50):
            connection.ask(call)
    time.sleep(SETTLED)
    for _ in range(rounds):  # in turns, so that all see the same machine
        for name, connection in connections.items():
            started = time.perf_counter()
            for _ in range(calls):
                connection.ask(call)
            times[name].append((time.perf_counter() - started) / calls)
    for connection in (*connections.values(), *idle):
        connection.close()
    return {name: statistics.median(values) for name, values in times.items()}


def _connect(bench: Bench, name: str, words: list[str]) -> Connection:
    # With a state of its own: else the sessions of two versions would share one pool.
    environ = {**bench.environ, "MCP_LAUNCH_HOME": str(bench.directory / f"state {name}")}
    server = [str(bench.python), "-S", "-E", str(HERE / "echo_server.py")]
    connection = Connection([*words, *server], str(bench.project), environ)
    # A client that does not say what it is shares nothing.
    client = {"name": "benchmark", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    connection.ask(make_line("initialize", params=params))
    return connection


def measure_memory(bench: Bench) -> None:
    """Count the memory of twenty sessions that share one server."""
    program = ["node", str(_install())]
    ((one, _, _),) = _count_memory(bench, program, 1)
    counted = _count_memory(
        bench, [bench.launcher, "run", *SHARE, "--", *program], SESSIONS, UNTIL_STANDBY
    )
    bound = SERVERS_BOUND * one + SESSION_BOUND * SESSIONS
    say(f"\nmemory, {SESSIONS} sessions of one server, called once: a bare server {one:.0f} MB")
    for name, (used, count, servers) in zip(("just called", "on standby"), counted, strict=True):
        say(
            f"  {name:14} {used:.0f} MB, {count} processes, {servers} of them servers: "
            f"{used / bound:.2f} of the bound"
        )
    say(
        f"  the bound      {bound:.0f} MB, {SERVERS_BOUND} bare servers and "
        f"{SESSION_BOUND:.0f} MB a session"
    )


def _count_memory(
    bench: Bench, command: list[str], sessions: int, *later: float
) -> list[tuple[float, int, int]]:
    """Return the megabytes of everything below some sessions, its processes, and its servers.

    They are counted after the calls, and again so many seconds later.
    """
    state = bench.directory / "state"
    environ = {**bench.environ, "MCP_LAUNCH_HOME": str(state)}
    crowd = Crowd(bench, [{"command": command, "call": CALL}], environ, sessions)
    try:
        crowd.wait_until("ready")
        crowd.call()
        crowd.settle()
        counted = []
        for seconds in (0.0, *later):
            time.sleep(seconds)
            pids = crowd.list_processes(_list_pools(state / "pools"))
            counted.append((read_megabytes(pids), len(pids), sum(map(_is_node, pids))))
        return counted
    finally:
        crowd.end()


def _list_pools(directory: Path) -> set[int]:
    """Return the processes that keep shared servers: no session is above them."""
    records = [json.loads(path.read_text("utf-8")) for path in directory.glob("[!.]*.json")]
    return {record["processes"]["pool"]["pid"] for record in records}


def _is_node(pid: int) -> bool:
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return os.path.basename(command[0]) == b"node"


def _install() -> Path:
    """Return the program of the package, installed beside npm's cache."""
    place = locate_cache().parent / "benchmark-shared"
    package = place / "node_modules" / PACKAGE
    if not package.exists():
        say(f"installing {PACKAGE}")
        npm = ["npm", "install", "--silent", "--prefix", str(place), PACKAGE]
        subprocess.run(npm, check=True, timeout=INSTALL_LIMIT)
    manifest = json.loads((package / "package.json").read_text(encoding="utf-8"))
    [program] = manifest["bin"].values()
    return package / str(program)
