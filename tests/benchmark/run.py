"""Figures of the launcher beside a bare server, from one run, as ratios.

    python tests/benchmark/run.py [--quick] [--before CHECKOUT]
    python tests/benchmark/run.py --crowd [--quick]
    python tests/benchmark/run.py --shared [--quick]

Installs this checkout, compiled, into a fresh virtual environment, so that what is
measured is what a user runs; and another checkout beside it, to compare with. Prints
medians; times on one machine mean nothing on another, so every figure is in units of
something measured beside it.

Runs under the name of Codex, so that a call has an identity and is judged by it.

With --crowd it measures something else: eight sessions with five servers from npm each, which
needs npm, the network on first use, 4 GB of memory and some minutes. With --shared it measures
only what it costs that sessions share a server; the memory of that needs npm, too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import crowd
import deferred
import shared
from bench import Bench, list_children, make_call, make_line, on_one_core, say, time_python

# What a result of "bulk" is long.
BULK = 2 * (1 << 20)

# What a long call is long.
LONG = 100_000_000

THREAD = "019a0000-0000-7000-8000-000000000000"

# What Codex 0.166 tells with every call.
CODEX_META = {
    "callId": "call-1",
    "x-codex-turn-metadata": {
        "session_id": THREAD,
        "thread_id": THREAD,
        "model": "some-model",
        "turn_id": THREAD,
        "turn_started_at_unix_ms": 1794802004917,
        "thread_source": "user",
        "turn_trigger": "exec",
        "sandbox": "none",
        "sandbox_mode": "danger-full-access",
        "auto_review_enabled": False,
        "node_repl_auto_review_required": False,
        "node_repl_disabled": False,
        "workspaces": {"/home/me/project": {"has_changes": False}},
        "codex_version": "0.169.0",
    },
    "threadId": THREAD,
    "sessionId": THREAD,
    "windowId": f"{THREAD}:0",
    "itemId": f"fc_{THREAD}",
    "progressToken": 1,
}
CLAUDE_META = {"claudecode/toolUseId": "toolu_00000001", "progressToken": 1}


PING = make_line("ping")
BULK_CALL = make_line("bulk")
LONG_CALLS = {
    "one string": b'"%b"' % (b"x" * LONG),
    "one string with escapes": b'"%b"'
    % (b'a \\"line\\" of a file that is long enough\\n' * (LONG // 40)),
}
ROUND_TRIPS = {
    "no call": PING,
    "a call with a short _meta": make_call(CLAUDE_META),
    "a call with Codex's _meta": make_call(CODEX_META),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--before", type=Path, help="another checkout, measured in the same run")
    parser.add_argument("--crowd", action="store_true", help="many real servers, through npx")
    parser.add_argument("--shared", action="store_true", help="sessions that share a server")
    parser.add_argument("--as-codex", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_codex is None:
        run_as_codex()
    else:
        bench = Bench(options.as_codex, options.before, quick=options.quick)
        say(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores\n")
        if options.crowd:
            crowd.measure(bench)
            return
        if options.shared:
            shared.measure(bench, make_call(CODEX_META))
            return
        measure_start(bench)
        deferred.measure(bench)
        measure_round_trip(bench)
        shared.measure(bench, make_call(CODEX_META))
        measure_bulk(bench)
        measure_long_calls(bench)
        measure_memory(bench)
        measure_looking(bench)


def run_as_codex() -> None:
    """Run this again, as a process that is taken for Codex."""
    with tempfile.TemporaryDirectory(prefix="mcp-launch-benchmark-") as directory:
        program = Path(directory) / "codex"
        program.symlink_to(os.path.realpath(sys.executable))
        subprocess.run([program, *sys.argv, "--as-codex", directory], check=True)


def measure_start(bench: Bench) -> None:
    """Time from the start to the first answer, against `python -c pass`."""
    rounds = 15 if bench.quick else 60
    names = [*bench.behind, "profiled"]
    times: dict[str, list[float]] = {name: [] for name in ("python", *names)}
    _time_first_answer(bench, "profiled")  # reads the file itself
    for _ in range(rounds):
        times["python"].append(time_python(bench))
        for name in names:
            times[name].append(_time_first_answer(bench, name))
    unit = statistics.median(times["python"])
    bare = statistics.median(times["bare"])
    say(f"start: `python -c pass` {unit * 1e3:.1f} ms, a bare first answer {bare * 1e3:.1f} ms")
    for name in names:
        if name != "bare":
            # Pair by pair: a slow moment of the machine hits both.
            pairs = zip(times[name], times["bare"], times["python"], strict=True)
            added = statistics.median((one - two) / three for one, two, three in pairs)
            say(f"  {name:14} adds {added:5.2f} of a Python start")


def measure_round_trip(bench: Bench) -> None:
    """Time one request and its answer: no call, and calls that are judged and told."""
    # Fresh processes many times over: where they happen to lie in memory and cache differs
    # from one to the next by as much as a relay adds.
    starts, rounds, calls = (8, 4, 200) if bench.quick else (30, 6, 300)
    times: dict[tuple[str, str], list[float]] = {}
    with on_one_core():
        for _ in range(starts):
            for what, seconds in _time_round_trips(bench, rounds, calls).items():
                times.setdefault(what, []).append(seconds)
    middle = {what: statistics.median(values) for what, values in times.items()}
    for kind in ROUND_TRIPS:
        bare = middle[kind, "bare"]
        relay = middle[kind, "minimal relay"] - bare
        say(
            f"\nround trip, {kind}: bare {bare * 1e6:.1f} us, "
            f"the minimal relay adds {relay * 1e6:.1f} us"
        )
        for name in bench.behind:
            if name not in {"bare", "minimal relay"}:
                added = middle[kind, name] - bare
                say(f"  {name:14} adds {added * 1e6:6.1f} us, {added / relay:5.2f} minimal relays")


def _time_round_trips(bench: Bench, rounds: int, calls: int) -> dict[tuple[str, str], float]:
    connections = {name: bench.connect(name) for name in bench.behind}
    times: dict[tuple[str, str], list[float]] = {}
    for connection in connections.values():
        connection.ask(make_line("initialize"))
        for line in ROUND_TRIPS.values():
            for _ in range(50):
                connection.ask(line)
    for _ in range(rounds):  # in turns, so that all see the same machine
        for kind, line in ROUND_TRIPS.items():
            for name, connection in connections.items():
                started = time.perf_counter()
                for _ in range(calls):
                    connection.ask(line)
                elapsed = time.perf_counter() - started
                times.setdefault((kind, name), []).append(elapsed / calls)
    for connection in connections.values():
        connection.close()
    return {what: statistics.median(values) for what, values in times.items()}


def measure_bulk(bench: Bench) -> None:
    """Time results of 2 MB."""
    rounds, calls = (5, 10) if bench.quick else (15, 20)
    connections = {name: bench.connect(name) for name in bench.behind}
    times: dict[str, list[float]] = {name: [] for name in connections}
    for _ in range(rounds):
        for name, connection in connections.items():
            connection.ask(BULK_CALL)
            started = time.perf_counter()
            for _ in range(calls):
                connection.ask(BULK_CALL)
            times[name].append((time.perf_counter() - started) / calls)
    for connection in connections.values():
        connection.close()
    middle = {name: statistics.median(values) for name, values in times.items()}
    say(f"\nbulk: bare {BULK / middle['bare'] / 1e6:.0f} MB/s in results of {BULK // (1 << 20)} MB")
    for name in connections:
        if name != "bare":
            say(f"  {name:14} {middle['bare'] / middle[name]:5.2f} of bare")


def measure_long_calls(bench: Bench) -> None:
    """Time calls of 100 MB in one line, and look at the most memory that they took."""
    rounds = 1 if bench.quick else 5
    for kind, text in LONG_CALLS.items():
        line = make_call(CODEX_META).replace(b'{"n":1}', b'{"text":%b}' % text)
        say(f"\na call of {len(line) // 1_000_000} MB, {kind}")
        for name in ("bare", "minimal relay", "guarded", "before"):
            if name in bench.behind:
                times = []
                for _ in range(rounds):
                    connection = bench.connect(name)
                    connection.ask(make_line("initialize"))
                    started = time.perf_counter()
                    connection.ask(line)
                    times.append(time.perf_counter() - started)
                    most = _read_peak(connection.process.pid)
                    connection.close()
                say(f"  {name:14} {statistics.median(times):5.2f} s, {most / 1024:4.0f} MB")


def measure_memory(bench: Bench) -> None:
    """Count what launcher, keeper and guardian have for themselves, and share with each other."""
    say("\nmemory of launcher, keeper and guardian together")
    for name in ("guarded", "direct", "before"):
        if name not in bench.behind:
            continue
        connection = bench.connect(name)
        for _ in range(1000):
            connection.ask(PING)
        connection.ask(BULK_CALL)
        launcher = connection.process.pid
        keeper = list_children(launcher)[0]
        pids = {"launcher": launcher, "keeper": keeper, "guardian": list_children(keeper)[0]}
        amounts = {part: _read_memory(pid) for part, pid in pids.items()}
        connection.close()
        parts = ", ".join(f"{part} {kib / 1024:.1f}" for part, kib in amounts.items())
        say(f"  {name:14} {sum(amounts.values()) / 1024:5.1f} MB ({parts})")


def measure_looking(bench: Bench) -> None:
    """Time the commands that look at everything, with thirty servers in Codex's file."""
    config = Path(bench.environ["HOME"]) / ".codex" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    entry = "[mcp_servers.server-{}]\ncommand = {}\nargs = {}\n"
    first, *rest = bench.server
    entries = (entry.format(number, json.dumps(first), json.dumps(rest)) for number in range(30))
    config.write_text("".join(entries), encoding="utf-8")
    connections = [bench.connect("guarded") for _ in range(10)]
    unit = statistics.median(time_python(bench) for _ in range(10))
    say("\nlooking, with 30 servers in a file and 10 launches alive")
    for words in (["doctor"], ["ps"], ["env"]):
        times = [_time_command(bench, words) for _ in range(3 if bench.quick else 10)]
        middle = statistics.median(times)
        say(f"  {words[0]:14} {middle:5.2f} s, {middle / unit:5.0f} Python starts")
    for connection in connections:
        connection.close()


def _time_command(bench: Bench, words: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(
        [bench.python.parent / "mcp-launch", *words],
        check=False,  # it may well find something
        cwd=bench.project,
        env=bench.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - started


def _time_first_answer(bench: Bench, name: str) -> float:
    started = time.perf_counter()
    connection = bench.connect(name)
    connection.ask(make_line("initialize"))
    elapsed = time.perf_counter() - started
    connection.close()
    return elapsed


def _read_peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0])  # KiB


def _read_memory(pid: int) -> float:
    """Return KiB: anonymous memory, in proportion where they share it, and private files."""
    fields: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]:
        name, value = line.split(":")
        fields[name] = int(value.split()[0])
    return fields["Pss_Anon"] + fields["Private_Clean"]


if __name__ == "__main__":
    main()
