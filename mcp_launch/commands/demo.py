"""`mcp-launch demo`: what is left when a host is killed, with mcp-launch and without it.

Needs no host and touches nothing outside a temporary directory. The host is a stand-in with
Codex's name, and its server ignores the end of its input and hides children; launcher and
guardian are real.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from mcp_launch.commands import stand_in
from mcp_launch.commands.app import app

if TYPE_CHECKING:
    import psutil

# A stand-in answers within a second on any machine; after this long it never will.
_ANSWER_LIMIT = 30.0

# A server that ignores the end of its input gets 2 s, and another 2 s after SIGTERM.
_END_LIMIT = 10.0

_PARTS = {
    "host": "the stand-in, killed",
    "launcher": "between host and server",
    "keeper": "steps in if launcher or guardian dies",
    "guardian": "adopts and ends the processes below it",
    "server": "ignores the end of its input",
    "child": "a child of the server",
    "own session": "a child in its own session",
    "daemon": "forked twice, its environment emptied",
}

_NEXT = {
    "mcp-launch wrap --dry-run": "show what would change in their files",
    "mcp-launch doctor": "find out what is wrong with their servers",
    "mcp-launch explain": "read more",
}

# -I: the modules beside this file have names that the standard library has, too.
_SCRIPT = ("-I", "-S", os.path.realpath(stand_in.__file__))


@app.command("demo")
def demo() -> int:
    """Kill a stand-in for a host, and show which processes are left."""
    from mcp_launch.commands.screen import Screen

    screen = Screen(soft_wrap=False)
    screen.print(
        "A stand-in for Codex starts a server through mcp-launch, and another one starts\n"
        "it directly. Both are killed with SIGKILL. The server ignores the end of its\n"
        "input, and hides children:\n"
    )
    with tempfile.TemporaryDirectory(prefix="mcp-launch-demo-") as directory:
        hosts: list[StandIn] = []
        try:
            hosts.append(StandIn(f"{directory}/with", is_wrapped=True))
            hosts.append(StandIn(f"{directory}/without", is_wrapped=False))
            with_us, without = (host.list_processes() for host in hosts)
            for host in hosts:
                host.process.kill()
                host.process.wait()
            started = time.monotonic()
            left = _wait_for_all(with_us)
            took = time.monotonic() - started
            screen.print(_tabulate(with_us, without))
        finally:
            for host in hosts:
                host.end()
    screen.print(f"\nLeft after {took:.1f} s: [bold]{', '.join(left) or 'nothing'}[/bold].")
    screen.print("\nNext, with your own hosts:")
    if shutil.which("mcp-launch") is None:
        screen.print("  uv tool install .           install it first (or: pipx install .)")
    for command, what in _NEXT.items():
        screen.print(f"  {command.ljust(28)}{what}")
    return 1 if left else 0


class StandIn:
    """A stand-in host process and its server."""

    def __init__(self, directory: str, *, is_wrapped: bool) -> None:
        self._is_wrapped = is_wrapped
        self._processes: dict[str, psutil.Process] = {}
        # A host is recognised by its name, so this is a link to Python with that name.
        host = f"{directory}/codex"
        os.makedirs(f"{directory}/project/.git")
        os.symlink(os.path.realpath(sys.executable), host)
        prefix = [sys.executable, "-m", "mcp_launch", "run", "--"] if is_wrapped else []
        kept = ("PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        self.process = subprocess.Popen(
            [host, *_SCRIPT, "host", *prefix, sys.executable, *_SCRIPT, "server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=f"{directory}/project",
            env=environ | {"HOME": f"{directory}/home", "MCP_LAUNCH_HOME": f"{directory}/state"},
            start_new_session=True,
        )

    def list_processes(self) -> dict[str, psutil.Process]:
        """Return the processes of this host by their part, once its server has answered."""
        import psutil

        from mcp_launch.errors import LaunchError

        assert self.process.stdout  # noqa: S101  # for the type checker: we asked for a pipe
        is_ready = select.select([self.process.stdout], [], [], _ANSWER_LIMIT)[0]
        line = self.process.stdout.readline() if is_ready else b""
        if not line:
            raise LaunchError(
                "the demo's server did not answer",
                fix="run `mcp-launch run --trace -- cat` and read its output",
            )
        pids = {"host": self.process.pid, **json.loads(line)}
        if self._is_wrapped:
            for part, below in (
                ("guardian", "server"),
                ("keeper", "guardian"),
                ("launcher", "keeper"),
            ):
                pids[part] = psutil.Process(pids[below]).ppid()
        self._processes = {part: psutil.Process(pids[part]) for part in _PARTS if part in pids}
        return self._processes

    def end(self) -> None:
        """End what is left."""
        self.process.kill()
        self.process.communicate()
        for process in self._processes.values():
            if _lives(process):
                process.kill()


def _tabulate(with_us: dict[str, psutil.Process], without: dict[str, psutil.Process]) -> object:
    from rich import box
    from rich.table import Table

    columns = ("process", "what it is", "with mcp-launch", "without")
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for part, what in _PARTS.items():
        states = (
            ("[red]alive[/red]" if _lives(processes[part]) else "gone") if part in processes else ""
            for processes in (with_us, without)
        )
        table.add_row(part, what, *states)
    return table


def _lives(process: psutil.Process) -> bool:
    import psutil

    try:
        # A zombie has ended; on some systems init is slow to reap it.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_for_all(processes: dict[str, psutil.Process]) -> list[str]:
    """Wait until all processes have ended; return the parts of those that have not in time."""
    deadline = time.monotonic() + _END_LIMIT
    while time.monotonic() < deadline and any(map(_lives, processes.values())):
        time.sleep(0.02)
    return [part for part, process in processes.items() if _lives(process)]
