"""How soon a host is answered from memory, and what it costs to have no server meanwhile."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import HERE, list_children, say, time_python
from client import PATIENCE, Client

if TYPE_CHECKING:
    from bench import Bench

SLOW_SERVER = str(HERE / "slow_server.py")

# What the slow server needs until it reads its first request, in seconds.
SLOW = "1.5"

# After what time without a call the server is ended: shorter than any pause of a person.
REST = "1s"

# How many launches are on standby at once.
SIDE_BY_SIDE = 10

CALL = {"name": "tell", "arguments": {}}


def measure(bench: Bench) -> None:
    """Measure all of it."""
    measure_ready(bench)
    measure_rest(bench)
    measure_standby(bench)
    if not bench.quick:
        measure_standby_at_rest(bench)


def measure_ready(bench: Bench) -> None:
    """Time until `initialize` and `tools/list` are answered, of a server that starts slowly."""
    server = [str(bench.python), "-S", "-E", SLOW_SERVER, SLOW]
    ours = [bench.launcher, "run", "--start", "called", "--", *server]
    _time_ready(bench, ours)  # now its answers are known
    rounds = 3 if bench.quick else 10
    times = {"bare": [0.0], "ours": [0.0]}
    for words, name in ((server, "bare"), (ours, "ours")) * rounds:
        times[name].append(_time_ready(bench, words))
    middle = {name: statistics.median(values[1:]) for name, values in times.items()}
    say(
        f"\nready, a server that needs {SLOW} s: bare {middle['bare']:.2f} s\n"
        f"  from memory    {middle['ours'] / middle['bare']:5.3f} of bare"
    )


def _time_ready(bench: Bench, words: list[str]) -> float:
    started = time.perf_counter()
    client = Client(words, str(bench.project), bench.environ)
    client.greet()
    elapsed = time.perf_counter() - started
    client.close()
    return elapsed


def measure_rest(bench: Bench) -> None:
    """Time the first call after a rest, against a bare start of the same server and a call."""
    server = [str(bench.python), "-S", "-E", SLOW_SERVER, "0"]
    rounds = 5 if bench.quick else 25
    client = Client(
        [bench.launcher, "run", "--rest", REST, "--", *server], str(bench.project), bench.environ
    )
    client.greet()
    added = []
    for _ in range(rounds):
        _call(client)
        _wait_for_rest(client)
        started = time.perf_counter()
        _call(client)
        ours = time.perf_counter() - started
        added.append((ours - _time_bare_call(bench, server)) / time_python(bench))
    _call(client)
    _wait_for_rest(client)
    kib = _read_private(client)
    client.close()
    middle = statistics.median(added)
    say(
        "\nfirst call after a rest\n"
        f"  guarded        adds {middle:5.2f} of a Python start to a bare start of the server\n"
        f"  at rest the launcher has {kib / 1024:.1f} MB for itself"
    )


def measure_standby(bench: Bench) -> None:
    """Time the first call of a launch that was on standby, and count its memory until then."""
    server = [str(bench.python), "-S", "-E", SLOW_SERVER, "0"]
    ours = [bench.launcher, "run", "--start", "called", "--", *server]
    _time_ready(bench, ours)  # now its answers are known
    _time_after_standby(bench, "first call ever", ours, server)


def measure_standby_at_rest(bench: Bench) -> None:
    """Do the same for launches whose servers were called, and rest: this takes a minute."""
    server = [str(bench.python), "-S", "-E", SLOW_SERVER, "0"]
    ours = [bench.launcher, "run", "--rest", REST, "--", *server]
    _time_after_standby(bench, "first call after a rest", ours, server, is_called=True)


def _time_after_standby(
    bench: Bench, what: str, ours: list[str], server: list[str], *, is_called: bool = False
) -> None:
    clients = [Client(ours, str(bench.project), bench.environ) for _ in range(SIDE_BY_SIDE)]
    for client in clients:
        client.greet()
        if is_called:
            _call(client)
    for client in clients:
        _wait_for_standby(client)
    kib = statistics.median(_read_private(client) for client in clients)
    added = []
    for client in clients:
        started = time.perf_counter()
        _call(client)
        elapsed = time.perf_counter() - started
        added.append((elapsed - _time_bare_call(bench, server)) / time_python(bench))
        client.close()
    middle = statistics.median(added)
    say(
        f"\n{what}, after standby\n"
        f"  guarded        adds {middle:5.2f} of a Python start to a bare start of the server\n"
        f"  on standby the launcher has {kib / 1024:.1f} MB for itself"
    )


def _wait_for_standby(client: Client) -> None:
    command = Path(f"/proc/{client.pid}/cmdline")
    deadline = time.monotonic() + PATIENCE
    while b"standby_process" not in command.read_bytes():
        if time.monotonic() > deadline:
            raise SystemExit("the launcher does not go on standby")
        time.sleep(0.05)
    time.sleep(0.5)  # until it has started


def _read_private(client: Client) -> int:
    """Return the KiB of a process that no other has: what its programs' files fill is shared."""
    rollup = Path(f"/proc/{client.pid}/smaps_rollup").read_text(encoding="utf-8")
    return int(rollup.partition("\nPrivate_Dirty:")[2].split()[0])


def _call(client: Client) -> None:
    if "result" not in client.ask("tools/call", CALL):
        raise SystemExit("the call failed")


def _wait_for_rest(client: Client) -> None:
    """Wait until nothing runs below the launcher."""
    deadline = time.monotonic() + PATIENCE
    while list_children(client.pid):
        if time.monotonic() > deadline:
            raise SystemExit("the server does not rest")
        time.sleep(0.05)


def _time_bare_call(bench: Bench, server: list[str]) -> float:
    started = time.perf_counter()
    client = Client(server, str(bench.project), bench.environ)
    client.greet()
    _call(client)
    elapsed = time.perf_counter() - started
    client.close()
    return elapsed
