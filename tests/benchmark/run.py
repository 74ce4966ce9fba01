"""What the launcher costs: processor time beside a relay that does nothing, memory, and time.

    python tests/benchmark/run.py [--quick] [--before CHECKOUT]

Installs this checkout, compiled, into a fresh virtual environment, so that what is measured is
what a user runs; and another checkout beside it, to compare with. All of it runs in turns, on one
core, in one run. Processor time is what the system has counted for the launcher itself
(/proc/PID/schedstat): other processes hardly change it.
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
import venv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

THREAD = "019a0000-0000-7000-8000-000000000000"

# What Codex tells with every call.
META = {
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
        "workspaces": {"/home/me/project": {"has_changes": False}},
        "codex_version": "0.169.0",
    },
    "threadId": THREAD,
    "sessionId": THREAD,
    "windowId": f"{THREAD}:0",
    "itemId": f"fc_{THREAD}",
    "progressToken": 1,
}
PARAMS = {"_meta": META, "name": "read", "arguments": {"n": 1}}
COMPACT = (",", ":")


def write_codex(number: int) -> str:
    """Write a call as Codex and the Python SDK do."""
    call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": PARAMS}
    return json.dumps(call, separators=COMPACT)


def write_typescript(number: int) -> str:
    """Write a call as the TypeScript SDK does."""
    params = dict(reversed(PARAMS.items()))
    call = {"method": "tools/call", "params": params, "jsonrpc": "2.0", "id": number}
    return json.dumps(call, separators=COMPACT)


def write_spaces(number: int) -> str:
    """Write a call as `json.dumps` does, which no host uses, but servers do."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": PARAMS})


LAYOUTS: dict[str, Callable[[int], str]] = {
    "Codex": write_codex,
    "TypeScript SDK": write_typescript,
    "spaces": write_spaces,
}

GREETING = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        },
    }
)
GREETED = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
TOOLS = '{"jsonrpc":"2.0","id":%d,"method":"tools/list"}'

# Later than this after its start, in seconds, a launcher has written what it had to write.
SETTLED = 2.5

# The bytes of a line that is longer than any host sends.
LONG = 100_000_000


def main() -> None:
    """Measure and print, as a process that is taken for Codex: then calls have an identity."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--before", type=Path, help="another checkout, measured in the same run")
    parser.add_argument("--only", choices=sorted(PARTS), help="one part")
    parser.add_argument("--in", type=Path, dest="directory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.directory is None:
        with tempfile.TemporaryDirectory(prefix="mcp-launch-benchmark-") as directory:
            program = Path(directory) / "codex"
            program.symlink_to(os.path.realpath(sys.executable))
            subprocess.run([program, *sys.argv, "--in", directory], check=True)
        return
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    bench = Bench(options.directory, options.before, quick=options.quick)
    for name, measure in PARTS.items():
        if options.only in {None, name}:
            measure(bench)


class Bench:
    """What is measured, and where it runs."""

    def __init__(self, directory: Path, before: Path | None, *, quick: bool) -> None:
        self.quick = quick
        self.project = directory / "project"
        (self.project / ".git").mkdir(parents=True)
        home = directory / "home"
        home.mkdir()
        # Never the developer's HOME or settings.
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
        python = self._install(directory / "now", ROOT)
        server = [str(python), "-S", "-E", str(HERE / "layout_server.py")]
        self.servers = {layout: [*server, layout] for layout in LAYOUTS}
        launcher = str(python.parent / "mcp-launch")
        # What stands before the server's command.
        self.relay = [str(python), "-S", "-E", str(HERE / "minimal_relay.py")]
        self.ours = {"now": [launcher, "run"]}
        if before is not None:
            other = self._install(directory / "before", before)
            self.ours["before"] = [str(other.parent / "mcp-launch"), "run"]
        self.python = python

    def _install(self, place: Path, checkout: Path) -> Path:
        venv.create(place, with_pip=True)
        python = place / "bin" / "python"
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        # A current pip, as pipx and uv have it: an old one writes a slower start script.
        for what in (["--upgrade", "pip"], ["--compile", str(checkout)]):
            pip = [str(python), "-m", "pip", "install", "--quiet", *what]
            subprocess.run(pip, check=True, env=environ, stderr=subprocess.DEVNULL)
        return python

    def start(self, command: list[str]) -> Peer:
        """Start a server, bare or behind something."""
        return Peer(command, str(self.project), self.environ)


class Peer:
    """A server that answers one line with one line."""

    def __init__(self, command: list[str], cwd: str, environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=environ,
        )
        assert self.process.stdin
        assert self.process.stdout
        self._input, self._output = self.process.stdin, self.process.stdout

    def ask(self, line: str) -> bytes:
        """Return the answer to a request."""
        view = memoryview(line.encode() + b"\n")
        while view:
            view = view[os.write(self._input.fileno(), view) :]
        answer = b""
        while not answer.endswith(b"\n"):
            part = os.read(self._output.fileno(), 1 << 20)
            if not part:
                raise SystemExit(f"no answer from {self.process.args!r}")
            answer += part
        return answer

    def notify(self, line: str) -> None:
        """Send what has no answer."""
        os.write(self._input.fileno(), line.encode() + b"\n")

    def read_processor_time(self) -> int:
        """Return the nanoseconds that the process itself, without its children, has run."""
        text = Path(f"/proc/{self.process.pid}/schedstat").read_text(encoding="ascii")
        return int(text.split()[0])

    def close(self) -> None:
        """End it."""
        self._input.close()
        self._output.close()
        self.process.wait(20)


def measure_calls(bench: Bench) -> None:
    """Processor time of a call, all layouts, against a relay that does nothing."""
    calls, starts = (1000, 2) if bench.quick else (2500, 4)
    for layout, write in LAYOUTS.items():
        times: dict[str, list[int]] = {}
        for _ in range(starts):
            # Where a process happens to lie in memory makes a difference, so there are several.
            for name, prefix in {"relay": bench.relay, **bench.ours}.items():
                peer = bench.start([*prefix, *bench.servers[layout]])
                times.setdefault(name, []).extend(_time_calls(peer, write, calls))
        unit = statistics.median(times["relay"]), statistics.mean(times["relay"])
        say(f"\ncall, {layout}: microseconds of processor time, times the relay's")
        for name, values in times.items():
            middle, mean = statistics.median(values), statistics.mean(values)
            last = sorted(values)[len(values) * 99 // 100]
            say(
                f"  {name:7} p50 {middle / 1e3:5.1f} ({middle / unit[0]:4.2f})  "
                f"mean {mean / 1e3:5.1f} ({mean / unit[1]:4.2f})  "
                f"p99 {last / 1e3:6.1f}  largest {max(values) / 1e3:7.1f}"
            )


def _time_calls(peer: Peer, write: Callable[[int], str], calls: int) -> list[int]:
    peer.ask(GREETING)
    peer.notify(GREETED)
    for number in range(200):
        peer.ask(write(number))
    time.sleep(SETTLED)
    times = []
    before = peer.read_processor_time()
    for number in range(calls):
        peer.ask(write(1000 + number))
        # What it does after its answer counts for the next call.
        after = peer.read_processor_time()
        times.append(after - before)
        before = after
    peer.close()
    return times


def measure_start(bench: Bench) -> None:
    """Processor time from the start to the first answer, and to a remembered list of tools."""
    rounds = 10 if bench.quick else 40
    server = bench.servers["Codex"]
    behind = {"relay": [*bench.relay, *server]}
    for name, prefix in bench.ours.items():
        behind[name] = [*prefix, *server]
        behind[f"{name}, from memory"] = [*prefix, "--start", "called", *server]
    times: dict[str, list[int]] = {name: [] for name in behind}
    for _ in range(rounds + 1):  # the first fills caches and memory
        for name, command in behind.items():
            peer = bench.start(command)
            peer.ask(GREETING)
            if name.endswith("memory"):
                peer.notify(GREETED)
                peer.ask(TOOLS % 1)
            times[name].append(peer.read_processor_time())
            peer.notify(GREETED)
            peer.ask(TOOLS % 2)
            peer.close()
    unit = statistics.median(times["relay"][1:])
    say("\nstart until the first answer (from memory: until tools/list), processor time")
    for name, values in times.items():
        middle = statistics.median(values[1:])
        say(f"  {name:20} {middle / 1e6:5.1f} ms ({middle / unit:4.2f})")


def measure_memory(bench: Bench) -> None:
    """Memory of our own processes, with a server and without."""
    say("\nmemory of our own processes")
    for name, prefix in bench.ours.items():
        peer = bench.start([*prefix, *bench.servers["Codex"]])
        peer.ask(GREETING)
        peer.notify(GREETED)
        peer.ask(TOOLS % 1)
        for number in range(1000):
            peer.ask(write_codex(number))
        launcher = peer.process.pid
        keeper = _list_children(launcher)[0]
        guardian = _list_children(keeper)[0]
        parts = [_read_memory(pid) for pid in (launcher, guardian, keeper)]
        peer.close()
        shown = " + ".join(f"{one:.1f}" for one in parts)
        say(f"  {name:7} launcher, guardian, keeper {shown} = {sum(parts):.1f} MB")
        idle = bench.start([*prefix, "--start", "called", *bench.servers["Codex"]])
        idle.ask(GREETING)
        idle.notify(GREETED)
        idle.ask(TOOLS % 1)
        time.sleep(0.5)
        say(f"  {name:7} nothing called {_read_memory(idle.process.pid):.1f} MB")
        idle.close()


def _list_children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


def _read_memory(pid: int) -> float:
    """Return MB: anonymous memory, in proportion where it is shared, and private files."""
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        name, value = line.split(":")
        fields[name] = int(value.split()[0])
    return (fields["Pss_Anon"] + fields["Private_Clean"]) / 1024


def measure_long_line(bench: Bench) -> None:
    """Time a call of 100 MB in one line, and the most memory that it takes."""
    line = write_codex(7).replace('"n": 1', '"n":1').replace('{"n":1}', f'{{"t":"{"x" * LONG}"}}')
    say(f"\na call of {len(line) // 1_000_000} MB in one line")
    behind: dict[str, list[str]] = {"bare": [], "relay": bench.relay, **bench.ours}
    for name, prefix in behind.items():
        times = []
        for _ in range(1 if bench.quick else 3):
            peer = bench.start([*prefix, *bench.servers["Codex"]])
            peer.ask(GREETING)
            started = time.perf_counter()
            peer.ask(line)
            times.append(time.perf_counter() - started)
            status = Path(f"/proc/{peer.process.pid}/status").read_text(encoding="utf-8")
            peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
            peer.close()
        say(f"  {name:7} {statistics.median(times):5.2f} s, peak {peak:4.0f} MB")


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


PARTS = {
    "calls": measure_calls,
    "start": measure_start,
    "memory": measure_memory,
    "long-line": measure_long_line,
}

if __name__ == "__main__":
    main()
