"""Eight sessions with five real servers each: what they take bare, and behind the launcher.

The servers come from npm and are started through `npx`, as most configurations do it. Their
packages are kept in a cache of the benchmark's own. Memory is the proportional set size (PSS) of
everything below the sessions, servers, runners and launchers alike; CPU is user and system time
of the same processes and of those that have ended.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import HERE, say
from client import END_GRACE, PATIENCE, Client

if TYPE_CHECKING:
    from bench import Bench

SESSIONS = 8

# The packages, their arguments, and a call that needs no network: what is called does not matter.
SERVERS: dict[str, tuple[list[str], dict[str, object]]] = {
    "@modelcontextprotocol/server-everything": ([], {"name": "echo", "arguments": {}}),
    "@modelcontextprotocol/server-filesystem": (
        ["."],
        {"name": "list_allowed_directories", "arguments": {}},
    ),
    "@modelcontextprotocol/server-memory": ([], {"name": "read_graph", "arguments": {}}),
    "@modelcontextprotocol/server-sequential-thinking": (
        [],
        {"name": "sequentialthinking", "arguments": {}},
    ),
    "@upstash/context7-mcp": ([], {"name": "resolve-library-id", "arguments": {}}),
}

# npx changes its cache at every start (since 11.3), and for ten seconds after a change the
# launcher does not leave npx out, because it may still be at work there.
SETTLED = 11.0

# A crowd is quiet if its processes used less CPU than this within so many seconds, in which a
# launcher without a server goes on standby.
QUIET = 0.05
QUIET_FOR = 7.0

_TICK = os.sysconf("SC_CLK_TCK")


class Crowd:
    """Sessions that run, with everything below them."""

    def __init__(
        self,
        bench: Bench,
        servers: list[dict[str, object]],
        environ: dict[str, str],
        sessions: int = SESSIONS,
    ) -> None:
        self._started = time.perf_counter()
        self._sessions = [
            subprocess.Popen(
                [bench.codex, HERE / "session.py", json.dumps(servers)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=bench.project,
                env=environ,
            )
            for _ in range(sessions)
        ]

    def wait_until(self, word: str) -> float:
        """Wait until all sessions have said a word; return the seconds since they were started."""
        deadline = time.monotonic() + PATIENCE
        for session in self._sessions:
            assert session.stdout
            ready, _, _ = select.select([session.stdout], [], [], deadline - time.monotonic())
            if not ready or session.stdout.readline().strip() != word.encode():
                raise SystemExit(f"a session is not {word} after {PATIENCE:.0f} s")
        return time.perf_counter() - self._started

    def call(self) -> None:
        """Call every server once."""
        for session in self._sessions:
            assert session.stdin
            session.stdin.write(b"call\n")
            session.stdin.flush()
        self.wait_until("called")

    def settle(self) -> None:
        """Wait until nobody does anything any more."""
        before, deadline = self.read_cpu(), time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            time.sleep(QUIET_FOR)
            now = self.read_cpu()
            if now - before < QUIET:
                return
            before = now

    def read_cpu(self) -> float:
        """Return the CPU seconds of everything below the sessions, also of what has ended."""
        pids = {session.pid for session in self._sessions}
        ticks = sum(sum(_read_times(pid)) for pid in _list_below(pids))
        return (ticks + sum(sum(_read_times(pid)[2:]) for pid in pids)) / _TICK

    def list_processes(self, pools: set[int]) -> list[int]:
        """Return everything below the sessions, and some pools with everything below them."""
        below = _list_below({session.pid for session in self._sessions} | pools)
        return sorted({*below, *pools})

    def end(self) -> None:
        """End all sessions, and wait until nothing is left below them."""
        below = _list_below({session.pid for session in self._sessions})
        for session in self._sessions:
            assert session.stdin
            session.stdin.close()
        for session in self._sessions:
            assert session.stdout
            try:
                session.wait(6 * END_GRACE)
            except subprocess.TimeoutExpired:
                session.kill()
                session.wait()
            session.stdout.close()
        deadline = time.monotonic() + END_GRACE
        while time.monotonic() < deadline and any(os.path.exists(f"/proc/{p}") for p in below):
            time.sleep(0.1)


def measure(bench: Bench) -> None:
    """Compare the crowd behind the launcher with the bare one."""
    if not shutil.which("npx"):
        raise SystemExit("npx is not installed")
    environ = {**bench.environ, "npm_config_cache": str(locate_cache())}
    ours = [bench.launcher, "run", "--start"]
    _install(bench, environ, [*ours, "now", "--"])
    say(f"{SESSIONS} sessions with {len(SERVERS)} servers each, through npx")
    bare = _measure_one(bench, "bare", [], environ, must_call=True)
    now = _measure_one(bench, "--start now", [*ours, "now", "--"], environ, must_call=True)
    called = _measure_one(bench, "--start called", [*ours, "called", "--"], environ)
    say(
        "\nof bare, in per cent\n"
        f"  memory, nothing called, --start called     {100 * called.idle / bare.idle:6.1f}\n"
        f"  memory, everything called, --start now     {100 * now.used / bare.used:6.1f}\n"
        f"  CPU of starting, --start called            {100 * called.cpu / bare.cpu:6.1f}\n"
        f"  CPU of starting, --start now               {100 * now.cpu / bare.cpu:6.1f}\n"
        f"  all ready, --start called                  {100 * called.ready / bare.ready:6.1f}\n"
        f"  all ready, --start now                     {100 * now.ready / bare.ready:6.1f}"
    )


def locate_cache() -> Path:
    """Return npm's cache of the benchmark, which stays for the next run."""
    cache = os.environ.get("MCP_LAUNCH_TEST_CACHE")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(cache) if cache else user / "mcp-launch-tests") / "benchmark-npm"


def _install(bench: Bench, environ: dict[str, str], prefix: list[str]) -> None:
    """Start every server behind the launcher: npx installs it, and its answers are remembered."""
    say("installing the servers, and remembering them")
    for _ in range(2):  # the first launch may have to ask the registry
        time.sleep(SETTLED)
        for package, (words, _) in SERVERS.items():
            client = Client([*prefix, "npx", "-y", package, *words], str(bench.project), environ)
            if "result" not in client.greet():
                raise SystemExit(f"{package} cannot be started")
            client.close()


class _Figures:
    """What one crowd took."""

    def __init__(self, ready: float, cpu: float, idle: float, used: float) -> None:
        self.ready = ready
        self.cpu = cpu
        self.idle = idle
        self.used = used


def _measure_one(
    bench: Bench, name: str, prefix: list[str], environ: dict[str, str], *, must_call: bool = False
) -> _Figures:
    time.sleep(SETTLED)
    servers: list[dict[str, object]] = [
        {"command": [*prefix, "npx", "-y", package, *words], "call": call}
        for package, (words, call) in SERVERS.items()
    ]
    crowd = Crowd(bench, servers, environ)
    try:
        ready = crowd.wait_until("ready")
        crowd.settle()
        cpu = crowd.read_cpu()
        pids = crowd.list_processes(set())
        idle = read_megabytes(pids)
        used = 0.0
        if must_call:
            crowd.call()
            crowd.settle()
            used = read_megabytes(crowd.list_processes(set()))
    finally:
        crowd.end()
    say(
        f"  {name:14} ready after {ready:5.1f} s, {cpu:5.1f} s of CPU, {len(pids):3} processes, "
        f"{idle:6.0f} MB" + (f", called {used:6.0f} MB" if used else "")
    )
    return _Figures(ready, cpu, idle, used)


def read_megabytes(pids: list[int]) -> float:
    """Return the memory of some processes."""
    return sum(map(_read_pss, pids)) / 1024


def _list_below(pids: set[int]) -> list[int]:
    """Return all processes below some."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _read_stat(int(name))):
            children.setdefault(int(fields[1]), []).append(int(name))
    found, left = [], list(pids)
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def _read_times(pid: int) -> list[int]:
    """Return user and system time of a process, and of its children that have ended."""
    return [int(field) for field in _read_stat(pid)[11:15]]


def _read_stat(pid: int) -> list[str]:
    """Return the fields from the state on; nothing if the process has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def _read_pss(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    except OSError:
        return 0  # it has ended
    return int(rollup.partition("\nPss:")[2].split()[0])  # KiB
