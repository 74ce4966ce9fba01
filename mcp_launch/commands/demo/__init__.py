"""`mcp-launch demo`: two hosts, two projects, calls that carry their session, nothing left.

Needs no host and touches nothing outside a temporary directory. The hosts are stand-ins
(`stand_in_host`) that treat a server as Codex and Claude Code do; everything below them,
launcher, guardian and server, is real.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import psutil
from rich import box
from rich.markup import escape
from rich.table import Table

from mcp_launch.commands.screen import Screen
from mcp_launch.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

# A stand-in answers within a second on any machine; after this long it never will.
_ANSWER_LIMIT = 30.0

# A server that ignores the end of its input gets 2 s, and another 2 s after SIGTERM.
_END_LIMIT = 10.0

# The width of a session's id, which is broken nowhere.
_ID_WIDTH = 36

_NEXT = {
    "mcp-launch wrap --dry-run": "show what would change in their files",
    "mcp-launch doctor": "find out what is wrong with their servers",
    "mcp-launch help": "read more",
}

# What a server knows, and in which variable.
_FACTS = {
    "host": "MCP_LAUNCH_HOST",
    "session": "MCP_LAUNCH_SESSION_ID",
    "thread": "MCP_LAUNCH_THREAD_ID",
    "cwd": "PWD",
}

PARTS = {
    "host": "the stand-in, killed",
    "launcher": "between host and server",
    "keeper": "steps in if launcher or guardian dies",
    "guardian": "adopts and ends the processes below it",
    "server": "ignores the end of its input",
    "child": "a child of the server",
    "own session": "a child in its own session",
    "daemon": "forked twice, its environment emptied",
}


def show() -> int:
    """Run the demo and return 0 if everything went as promised."""
    console = Screen(soft_wrap=False)
    with tempfile.TemporaryDirectory(prefix="mcp-launch-demo-") as directory:
        hosts: list[StandIn] = []
        try:
            return _run_story(console, Path(directory), hosts)
        finally:
            for host in hosts:
                host.end()


class StandIn:
    """A stand-in host process, and what its server saw."""

    def __init__(self, kind: str, top: Path, *, is_wrapped: bool = True) -> None:
        self.kind = kind
        self.is_wrapped = is_wrapped
        self.top = top / (kind if is_wrapped else f"{kind}-alone")
        self.project = self.top / "project"
        (self.project / ".git").mkdir(parents=True)
        # A host is recognised by its name, so this is a link to Python with that name.
        program = self.top / kind
        program.symlink_to(os.path.realpath(sys.executable))
        script = Path(__file__).with_name("stand_in_host.py")
        prefix = [sys.executable, "-m", "mcp_launch", "run", "--"] if is_wrapped else []
        server = [sys.executable, "-m", "mcp_launch.commands.demo.server"]
        self.process = subprocess.Popen(
            [program, "-S", "-E", script, kind, self.project, *prefix, *server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.top,
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

    def wait_until_ready(self) -> None:
        """Wait until the server has reported what it saw."""
        line = _read_line(self.process.stdout)
        if not line:
            raise LaunchError(
                f"the stand-in for {self.kind} did not answer",
                fix="run `mcp-launch run --trace -- cat` and read its output",
            )
        self.seen = json.loads(line)
        if not self.is_wrapped:
            return
        launch = self.seen["environment"]["MCP_LAUNCH_ID"]
        lease = self.top / "state" / "leases" / f"{launch}.json"
        self.lease = json.loads(lease.read_text(encoding="utf-8"))

    def do(self, what: str) -> dict[str, Any]:
        """Make the stand-in do something; return what its server saw, or the error."""
        assert self.process.stdin  # noqa: S101  # for the type checker: we asked for a pipe
        self.process.stdin.write(f"{what}\n".encode())
        self.process.stdin.flush()
        if what == "clear":
            return {}
        seen = json.loads(_read_line(self.process.stdout) or b'{"error": "no answer"}')
        assert isinstance(seen, dict)  # noqa: S101  # ditto
        if "processes" in seen:
            self.seen = seen
        return seen

    def list_processes(self) -> dict[str, psutil.Process]:
        """Return the running processes of this host by their role."""
        pids = {"host": self.process.pid, **self.seen["processes"]}
        if self.is_wrapped:
            # Not from the lease, which is written a moment after a server was replaced.
            pids["guardian"] = psutil.Process(pids["server"]).ppid()
            pids["keeper"] = psutil.Process(pids["guardian"]).ppid()
            pids["launcher"] = psutil.Process(pids["keeper"]).ppid()
        return {part: psutil.Process(pids[part]) for part in PARTS if part in pids}

    def kill(self) -> None:
        """Kill the host, as if it crashed."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """End the host normally."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        if not self.is_wrapped and self.seen:
            _end_by_hand(self.seen["processes"].values())


def _run_story(console: Console, top: Path, hosts: list[StandIn]) -> int:
    console.print("Two stand-in hosts each start a server through mcp-launch at the same time:")
    hosts += [StandIn("codex", top), StandIn("claude", top)]
    hosts.append(StandIn("codex", top, is_wrapped=False))
    for host in hosts:
        host.wait_until_ready()
    killed, survivor, alone = hosts
    for host in (killed, survivor):
        console.print(f"\nThe server behind [bold]{host.kind}[/bold] saw:")
        console.print(_tabulate_environment(host))

    console.print("\nEvery call carries its session, and a server that dies is replaced:\n")
    calls, are_right = _tabulate_calls(killed, survivor)
    console.print(calls)

    console.print(
        "\nNow codex is killed with SIGKILL, and so is a second codex whose server was started "
        "without mcp-launch. Both servers ignore the end of their input, and hide children:\n"
    )
    below, others, unguarded = (host.list_processes() for host in hosts)
    killed.kill()
    alone.kill()
    started = time.monotonic()
    left = _wait_for_all(below)
    took = time.monotonic() - started
    console.print(_tabulate_processes(below, unguarded))
    lives = all(_lives(process) for process in others.values())
    console.print(
        f"\nLeft after {took:.1f} s: [bold]{', '.join(left) or 'nothing'}[/bold]. "
        f"The other host's server {'keeps running' if lives else 'WAS DISTURBED'}."
    )
    _say_what_is_next(console)
    return 1 if left or not lives or not are_right else 0


def _say_what_is_next(console: Console) -> None:
    console.print("\nNext, with your own hosts:")
    if shutil.which("mcp-launch") is None:
        console.print("  uv tool install .           install it first (or: pipx install .)")
    for command, what in _NEXT.items():
        console.print(f"  {command.ljust(28)}{what}")


def _tabulate_environment(host: StandIn) -> Table:
    table = Table.grid("", padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    known = ""
    for fact in _FACTS:
        value, origin = _describe(host, fact)
        is_same = bool(origin) and origin == known
        table.add_row(f"  {fact}", value, "the same" if is_same else escape(origin))
        known = origin
    return table


def _tabulate_calls(codex: StandIn, claude: StandIn) -> tuple[Table, bool]:
    """Make some calls; return a table of the results, and whether they are as promised."""
    table = Table("event", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("result", overflow="fold", min_width=_ID_WIDTH + 2)
    before = dict(claude.seen)
    stray = codex.do("stray").get("error", "DELIVERED").partition(" — ")[0]
    table.add_row("codex sends a call of another thread on this connection", escape(stray))
    claude.do("clear")
    after = claude.do("call")
    was, now = before["context"]["sessionId"], after.get("context", {}).get("sessionId")
    is_same = after.get("processes") == before["processes"]
    table.add_row(
        "claude changes its session (/clear) and calls",
        f"the call says session {now}, the environment still {was}; "
        f"{'the same process' if is_same else 'ANOTHER PROCESS'}",
    )
    server = psutil.Process(claude.seen["processes"]["server"])
    server.kill()
    _wait_for_all({"server": server})
    again = claude.do("call")
    is_new = "processes" in again and again["processes"] != after["processes"]
    table.add_row(
        "claude's server is killed, and claude calls again",
        f"answered by {'a new process' if is_new else 'NOBODY'}, "
        f"for session {again.get('context', {}).get('sessionId')}",
    )
    is_right = "it was not delivered" in stray and now not in {None, was}
    return table, is_right and is_same and is_new


def _describe(host: StandIn, fact: str) -> tuple[str, str]:
    """Return what the server saw, and where it comes from."""
    seen = host.seen["cwd"] if fact == "cwd" else host.seen["environment"].get(_FACTS[fact])
    if seen is None:
        return "[dim]none[/dim]", ""
    origin = host.lease["context"][fact]["origin"]
    names = {f"{host.top}/home/": "~/", f"{host.top.parent}/": "…/"}
    for path, name in names.items():
        seen, origin = seen.replace(path, name), origin.replace(path, name)
    return escape(seen), origin


def _tabulate_processes(
    with_us: dict[str, psutil.Process], without: dict[str, psutil.Process]
) -> Table:
    columns = ("process", "what it is", "with mcp-launch", "without")
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for part, what in PARTS.items():
        states = (_describe_process(processes.get(part)) for processes in (with_us, without))
        table.add_row(part, what, *states)
    return table


def _describe_process(process: psutil.Process | None) -> str:
    if process is None:
        return ""
    return "[red]alive[/red]" if _lives(process) else "gone"


def _end_by_hand(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it has ended by itself


def _lives(process: psutil.Process) -> bool:
    try:
        # A zombie has ended; on some systems init is slow to reap it.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_for_all(processes: dict[str, psutil.Process]) -> list[str]:
    """Wait until all processes have ended; return the roles of those that have not in time."""
    deadline = time.monotonic() + _END_LIMIT
    while time.monotonic() < deadline and any(_lives(one) for one in processes.values()):
        time.sleep(0.02)
    return [part for part, process in processes.items() if _lives(process)]


def _read_line(stream: IO[bytes] | None) -> bytes:
    if stream is None or not select.select([stream], [], [], _ANSWER_LIMIT)[0]:
        return b""
    return stream.readline()
