"""`mcp-launch demo`: two hosts, two projects, one killed, nothing left.

Needs no host and touches nothing outside a temporary directory. The hosts are stand-ins
(`standin`) that behave towards a server as Codex and Claude Code do; everything below
them, launcher, guardian and server, is the real thing.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import psutil
from rich.console import Console
from rich.table import Table

from mcp_launch.errors import LaunchError

# A stand-in has answered within a second on any machine; so long means that it never will.
_ANSWER_LIMIT = 30.0

# A server that ignores the end of its input gets 2 s, and 2 s more after SIGTERM.
_END_LIMIT = 10.0


def show() -> int:
    """Run the demo and return 0 when it showed what it promises."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="mcp-launch-demo-") as directory:
        hosts: list[StandIn] = []
        try:
            return _tell_story(console, Path(directory), hosts)
        finally:
            for host in hosts:
                host.end()


class StandIn:
    """A host process of ours, and what the server behind it saw."""

    def __init__(self, kind: str, top: Path) -> None:
        self.kind = kind
        self.top = top
        self.project = top / f"project-of-{kind}"
        (self.project / ".git").mkdir(parents=True)
        # The host is known by its name: a link to Python that is called like it.
        program = top / "bin" / kind
        program.parent.mkdir(exist_ok=True)
        program.symlink_to(os.path.realpath(sys.executable))
        script = Path(__file__).with_name("standin.py")
        self.process = subprocess.Popen(
            [program, "-S", "-E", script, kind, self.project, sys.executable],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=top,
            env=self._make_environment(),
            start_new_session=True,
        )
        self.seen: dict[str, Any] = {}
        self.lease: dict[str, Any] = {}

    def _make_environment(self) -> dict[str, str]:
        kept = ("PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        return environ | {
            "HOME": str(self.top / "home"),
            "MCP_LAUNCH_HOME": str(self.top / "state"),
        }

    def hear(self) -> None:
        """Wait for what the server behind it saw."""
        line = _read_line(self.process.stdout)
        if not line:
            raise LaunchError(
                f"the stand-in for {self.kind} gave no answer",
                fix="run `mcp-launch run --trace -- cat` and look at what it says",
            )
        self.seen = json.loads(line)
        launch = self.seen["environment"]["MCP_LAUNCH_ID"]
        lease = self.top / "state" / "leases" / f"{launch}.json"
        self.lease = json.loads(lease.read_text(encoding="utf-8"))

    def list_processes(self) -> dict[str, psutil.Process]:
        """Return everything of this host that runs, by the part it plays."""
        parts = {"host": self.process.pid, **self.seen["processes"]}
        parts["launcher"] = self.lease["processes"]["launcher"]["pid"]
        parts["guardian"] = self.lease["processes"]["guardian"]["pid"]
        order = ("host", "launcher", "guardian", "server", "child", "own session", "daemon")
        return {part: psutil.Process(parts[part]) for part in order}

    def end(self) -> None:
        """End it as a host ends by itself."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


def _tell_story(console: Console, top: Path, hosts: list[StandIn]) -> int:
    console.print(f"Two stand-in hosts start at the same time, each in a project of {top}:")
    hosts += [StandIn("codex", top), StandIn("claude", top)]
    for host in hosts:
        host.hear()
    console.print(_tabulate_sight(hosts))

    victim, survivor = hosts
    below = victim.list_processes()
    others = survivor.list_processes()
    console.print(
        f"\nNow {victim.kind} is killed with SIGKILL. Its server ignores the end of its input, "
        "and has children that hide:"
    )
    victim.process.kill()
    victim.process.wait()
    killed = time.monotonic()
    left = _wait_for_all(below)
    took = time.monotonic() - killed
    console.print(_tabulate_processes(below))
    lives = all(_lives(process) for process in others.values())
    console.print(
        f"\nLeft after {took:.1f} s: [bold]{', '.join(left) or 'nothing'}[/bold]. "
        f"The other host's server {'goes on undisturbed' if lives else 'WAS DISTURBED'}."
    )
    return 1 if left or not lives else 0


def _tabulate_sight(hosts: list[StandIn]) -> Table:
    table = Table("what the server saw", *(f"behind {host.kind}" for host in hosts))
    for fact in ("host", "session", "thread", "cwd"):
        table.add_row(fact, *(_describe(host, fact) for host in hosts))
    return table


def _describe(host: StandIn, fact: str) -> str:
    names = {
        "host": "MCP_LAUNCH_HOST",
        "session": "MCP_LAUNCH_SESSION_ID",
        "thread": "MCP_LAUNCH_THREAD_ID",
    }
    seen = host.seen["cwd"] if fact == "cwd" else host.seen["environment"].get(names[fact])
    if seen is None:
        return "[dim]none[/dim]"
    origin = host.lease["context"][fact]["origin"]
    return f"{seen}\n[dim]from: {origin}[/dim]".replace(f"{host.top}/", "")


def _tabulate_processes(processes: dict[str, psutil.Process]) -> Table:
    table = Table("process", "pid", "now")
    for part, process in processes.items():
        table.add_row(part, str(process.pid), "[red]alive" if _lives(process) else "gone")
    return table


def _lives(process: psutil.Process) -> bool:
    try:
        # A zombie has ended; it waits for init, which takes its time on some systems.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_for_all(processes: dict[str, psutil.Process]) -> list[str]:
    """Return the parts that are still there when everything should be over."""
    deadline = time.monotonic() + _END_LIMIT
    while time.monotonic() < deadline and any(_lives(one) for one in processes.values()):
        time.sleep(0.02)
    return [part for part, process in processes.items() if _lives(process)]


def _read_line(stream: IO[bytes] | None) -> bytes:
    if stream is None or not select.select([stream], [], [], _ANSWER_LIMIT)[0]:
        return b""
    return stream.readline()
